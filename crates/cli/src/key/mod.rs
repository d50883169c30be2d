//! `pandastack key …`, as far as a server answers. Making a key without one is the binary's own.

mod create;
mod list;
mod revoke;

use std::process::ExitCode;

pub use create::{CreateKeyArgs, create, show};

use crate::GlobalArgs;

/// The commands about API keys.
#[derive(Debug, clap::Subcommand)]
pub enum KeyCommand {
    /// List the API keys of this workspace, newest first
    #[command(alias = "ls")]
    List(list::ListArgs),
    /// Revoke API keys: they stop working at once, and what was opened with them is closed
    #[command(aliases = ["delete", "rm"])]
    Revoke(revoke::RevokeArgs),
}

/// Carries out one of them.
pub async fn execute(command: KeyCommand, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    match command {
        KeyCommand::List(args) => list::list(args, global).await,
        KeyCommand::Revoke(args) => revoke::revoke(args, global).await,
    }
}
