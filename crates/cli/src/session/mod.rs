//! `pandastack session …`

mod end;
mod list;

use std::process::ExitCode;

use crate::GlobalArgs;

/// Commands for the logins of a person.
#[derive(Debug, clap::Subcommand)]
pub enum SessionCommand {
    /// List your logins, newest first
    #[command(alias = "ls")]
    List(list::ListSessionsArgs),
    /// End logins, such as one on a lost computer
    #[command(aliases = ["delete", "rm"])]
    End(end::EndSessionArgs),
}

/// Runs one of these commands.
pub async fn execute(command: SessionCommand, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    match command {
        SessionCommand::List(args) => list::list(args, global).await,
        SessionCommand::End(args) => end::end(args, global).await,
    }
}
