//! `pandastack webhook …`

mod create;
mod delete;
mod deliveries;
mod get;
mod list;
mod ping;
mod replay;
mod rotate;
mod update;

use std::process::ExitCode;

use crate::GlobalArgs;

/// The commands about webhooks.
#[derive(Debug, clap::Subcommand)]
pub enum WebhookCommand {
    /// Subscribe an address to events and print the secret that signs
    Create(create::CreateArgs),
    /// List webhooks, newest first
    #[command(alias = "ls")]
    List(list::ListArgs),
    /// Show one webhook
    Get(get::GetArgs),
    /// Change a webhook, or switch it on or off
    Update(update::UpdateArgs),
    /// Delete webhooks with what waits for them
    #[command(alias = "rm")]
    Delete(delete::DeleteArgs),
    /// Send a test event and say what the receiver answered
    Ping(ping::PingArgs),
    /// List deliveries, or those of all webhooks that were given up
    Deliveries(deliveries::DeliveriesArgs),
    /// Deliver once more
    Replay(replay::ReplayArgs),
    /// Make a new secret; the old one signs too for a while
    Rotate(rotate::RotateArgs),
}

/// Carries out one of them.
pub async fn execute(command: WebhookCommand, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    match command {
        WebhookCommand::Create(args) => create::create(args, global).await,
        WebhookCommand::List(args) => list::list(args, global).await,
        WebhookCommand::Get(args) => get::get(args, global).await,
        WebhookCommand::Update(args) => update::update(args, global).await,
        WebhookCommand::Delete(args) => delete::delete(args, global).await,
        WebhookCommand::Ping(args) => ping::ping(args, global).await,
        WebhookCommand::Deliveries(args) => deliveries::deliveries(args, global).await,
        WebhookCommand::Replay(args) => replay::replay(args, global).await,
        WebhookCommand::Rotate(args) => rotate::rotate(args, global).await,
    }
}
