//! `pandastack snapshot …`

mod delete;
mod get;
mod list;

use std::process::ExitCode;

use crate::GlobalArgs;

/// The commands about snapshots. `sandbox snapshot` makes one.
#[derive(Debug, clap::Subcommand)]
pub enum SnapshotCommand {
    /// List snapshots, newest first
    #[command(alias = "ls")]
    List(list::ListArgs),
    /// Show one snapshot
    Get(get::GetArgs),
    /// Delete snapshots; sandboxes made from them go on
    #[command(alias = "rm")]
    Delete(delete::DeleteArgs),
}

/// Carries out one of them.
pub async fn execute(command: SnapshotCommand, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    match command {
        SnapshotCommand::List(args) => list::list(args, global).await,
        SnapshotCommand::Get(args) => get::get(args, global).await,
        SnapshotCommand::Delete(args) => delete::delete(args, global).await,
    }
}

/// Writes a size for people.
pub fn mebibytes(bytes: u64) -> String {
    // Far below the precision of the type.
    format!("{:.1} MiB", bytes as f64 / f64::from(1024 * 1024))
}
