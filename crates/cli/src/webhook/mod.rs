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

/// Commands for webhooks.
#[derive(Debug, clap::Subcommand)]
pub enum WebhookCommand {
    /// Subscribe a URL to events, and print the secret that signs deliveries
    Create(create::CreateWebhookArgs),
    /// List webhooks, newest first
    #[command(alias = "ls")]
    List(list::ListWebhooksArgs),
    /// Show one webhook
    Get(get::GetWebhookArgs),
    /// Change, enable or disable a webhook
    Update(update::UpdateArgs),
    /// Delete webhooks and their waiting deliveries
    #[command(alias = "rm")]
    Delete(delete::DeleteWebhookArgs),
    /// Send a test event and show the receiver's answer
    Ping(ping::PingArgs),
    /// List deliveries of a webhook, or all that are no longer retried
    Deliveries(deliveries::DeliveriesArgs),
    /// Deliver events again
    Replay(replay::ReplayArgs),
    /// Create a new secret; the old one stays valid for a while
    Rotate(rotate::RotateArgs),
}

/// Runs one of these commands.
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
