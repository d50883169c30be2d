//! `pandastack host …`

mod audit;

use std::process::ExitCode;

use crate::GlobalArgs;

/// Commands for the server that runs the machines.
#[derive(Debug, clap::Subcommand)]
pub enum HostCommand {
    /// Compare what the host has with what it should have; fails if anything leaked
    Audit,
}

/// Runs one of these commands.
pub async fn execute(command: HostCommand, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    match command {
        HostCommand::Audit => audit::audit(global).await,
    }
}
