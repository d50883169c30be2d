//! The `pandastack template …` commands that call a server. The binary bakes templates without a
//! server.

mod build;
mod builds;
mod delete;
mod get;
mod list;
mod logs;
mod pick;

use std::process::ExitCode;

pub use pick::pick;

use crate::GlobalArgs;

/// Commands for templates.
#[derive(Debug, clap::Subcommand)]
pub enum TemplateCommand {
    /// Build a template from a Dockerfile, an image or a snapshot, and show the build's log
    Build(Box<build::BuildArgs>),
    /// List the templates that sandboxes can start from
    #[command(alias = "ls")]
    List(list::ListTemplatesArgs),
    /// Show one template
    Get(get::GetTemplateArgs),
    /// Delete your templates; sandboxes made from them keep running
    #[command(alias = "rm")]
    Delete(delete::DeleteTemplateArgs),
    /// List builds, newest first
    Builds(builds::BuildsArgs),
    /// Show a build's log, and follow it while it runs
    #[command(alias = "build-logs")]
    Logs(logs::BuildLogsArgs),
}

/// Runs one of these commands.
pub async fn execute(command: TemplateCommand, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    match command {
        TemplateCommand::Build(args) => build::build(*args, global).await,
        TemplateCommand::List(args) => list::list(args, global).await,
        TemplateCommand::Get(args) => get::get(args, global).await,
        TemplateCommand::Delete(args) => delete::delete(args, global).await,
        TemplateCommand::Builds(args) => builds::builds(args, global).await,
        TemplateCommand::Logs(args) => logs::logs(args, global).await,
    }
}
