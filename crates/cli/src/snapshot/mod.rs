//! `pandastack snapshot …`

mod delete;
mod get;
mod list;

use std::process::ExitCode;

use crate::GlobalArgs;

/// Commands for snapshots. `sandbox snapshot` creates one.
#[derive(Debug, clap::Subcommand)]
pub enum SnapshotCommand {
    /// List snapshots, newest first
    #[command(alias = "ls")]
    List(list::ListSnapshotsArgs),
    /// Show one snapshot
    Get(get::GetSnapshotArgs),
    /// Delete snapshots; sandboxes made from them keep running
    #[command(alias = "rm")]
    Delete(delete::DeleteSnapshotArgs),
}

/// Runs one of these commands.
pub async fn execute(command: SnapshotCommand, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    match command {
        SnapshotCommand::List(args) => list::list(args, global).await,
        SnapshotCommand::Get(args) => get::get(args, global).await,
        SnapshotCommand::Delete(args) => delete::delete(args, global).await,
    }
}

/// Formats a size in MiB.
pub fn mebibytes(bytes: u64) -> String {
    // The loss of precision is not visible.
    format!("{:.1} MiB", bytes as f64 / f64::from(1024 * 1024))
}
