//! `pandastack sandbox …`

mod create;
mod delete;
mod exec;
mod get;
mod list;

use std::process::ExitCode;

use crate::GlobalArgs;

/// The commands about sandboxes.
#[derive(Debug, clap::Subcommand)]
pub enum SandboxCommand {
    /// Create a sandbox
    Create(create::CreateArgs),
    /// List sandboxes, newest first
    #[command(alias = "ls")]
    List(list::ListArgs),
    /// Show one sandbox
    Get(get::GetArgs),
    /// Run a command in a sandbox
    Exec(exec::ExecArgs),
    /// Delete sandboxes
    #[command(alias = "rm")]
    Delete(delete::DeleteArgs),
}

/// Carries out one of them.
pub async fn execute(command: SandboxCommand, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    match command {
        SandboxCommand::Create(args) => create::create(args, global).await,
        SandboxCommand::List(args) => list::list(args, global).await,
        SandboxCommand::Get(args) => get::get(args, global).await,
        SandboxCommand::Exec(args) => exec::exec(args, global).await,
        SandboxCommand::Delete(args) => delete::delete(args, global).await,
    }
}
