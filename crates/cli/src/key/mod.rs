//! The `pandastack key …` commands that call a server. The binary creates keys without a server.

mod create;
mod list;
mod revoke;

use std::process::ExitCode;

pub use create::{CreateKeyArgs, create, show};

use crate::GlobalArgs;

/// Commands for API keys.
#[derive(Debug, clap::Subcommand)]
pub enum KeyCommand {
    /// List the API keys of this workspace, newest first
    #[command(alias = "ls")]
    List(list::ListKeysArgs),
    /// Revoke API keys: they stop working at once, and connections opened with them are closed
    #[command(aliases = ["delete", "rm"])]
    Revoke(revoke::RevokeArgs),
}

/// Runs one of these commands.
pub async fn execute(command: KeyCommand, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    match command {
        KeyCommand::List(args) => list::list(args, global).await,
        KeyCommand::Revoke(args) => revoke::revoke(args, global).await,
    }
}
