//! `pandastack volume …`

mod create;
mod delete;
mod get;
mod grow;
mod list;

use std::process::ExitCode;

use crate::GlobalArgs;

/// Commands for volumes. `sandbox create --volume` attaches one.
#[derive(Debug, clap::Subcommand)]
pub enum VolumeCommand {
    /// Create a durable disk that outlives the sandboxes that use it
    Create(create::CreateVolumeArgs),
    /// List volumes by name
    #[command(alias = "ls")]
    List(list::ListVolumesArgs),
    /// Show one volume and the sandboxes that use it
    Get(get::GetVolumeArgs),
    /// Grow a volume, even while it is in use
    Grow(grow::GrowArgs),
    /// Delete volumes and their data
    #[command(alias = "rm")]
    Delete(delete::DeleteVolumeArgs),
}

/// Runs one of these commands.
pub async fn execute(command: VolumeCommand, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    match command {
        VolumeCommand::Create(args) => create::create(args, global).await,
        VolumeCommand::List(args) => list::list(args, global).await,
        VolumeCommand::Get(args) => get::get(args, global).await,
        VolumeCommand::Grow(args) => grow::grow(args, global).await,
        VolumeCommand::Delete(args) => delete::delete(args, global).await,
    }
}
