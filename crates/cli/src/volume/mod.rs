//! `pandastack volume …`

mod create;
mod delete;
mod get;
mod grow;
mod list;

use std::process::ExitCode;

use crate::GlobalArgs;

/// The commands about volumes. `sandbox create --volume` uses one.
#[derive(Debug, clap::Subcommand)]
pub enum VolumeCommand {
    /// Make a durable disk that outlives the sandboxes that use it
    Create(create::CreateArgs),
    /// List volumes by name
    #[command(alias = "ls")]
    List(list::ListArgs),
    /// Show one volume and who uses it
    Get(get::GetArgs),
    /// Make a volume larger, also while it is in use
    Grow(grow::GrowArgs),
    /// Delete volumes and their data
    #[command(alias = "rm")]
    Delete(delete::DeleteArgs),
}

/// Carries out one of them.
pub async fn execute(command: VolumeCommand, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    match command {
        VolumeCommand::Create(args) => create::create(args, global).await,
        VolumeCommand::List(args) => list::list(args, global).await,
        VolumeCommand::Get(args) => get::get(args, global).await,
        VolumeCommand::Grow(args) => grow::grow(args, global).await,
        VolumeCommand::Delete(args) => delete::delete(args, global).await,
    }
}
