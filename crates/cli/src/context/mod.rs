//! `pandastack context …`: several servers in the config file.

mod add;
mod list;
mod remove;
mod show;
mod use_context;

use std::process::ExitCode;

use crate::GlobalArgs;

/// Commands for contexts. A context is a server, with its address and its credential.
#[derive(Debug, clap::Subcommand)]
pub enum ContextCommand {
    /// List contexts
    #[command(alias = "ls")]
    List(list::ListContextsArgs),
    /// Show the current context
    Show,
    /// Choose the context that later commands use, also those of the SDKs
    Use(use_context::UseContextArgs),
    /// Add a server, or replace the one of that name
    Add(add::AddContextArgs),
    /// Forget servers and their credentials
    #[command(alias = "rm")]
    Remove(remove::RemoveContextArgs),
}

/// Runs one of these commands. They ask no server.
pub fn execute(command: ContextCommand, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    match command {
        ContextCommand::List(args) => list::list(&args, global),
        ContextCommand::Show => show::show(global),
        ContextCommand::Use(args) => use_context::use_context(&args, global),
        ContextCommand::Add(args) => add::add(&args, global),
        ContextCommand::Remove(args) => remove::remove(&args, global),
    }
}
