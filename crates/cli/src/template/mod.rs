//! `pandastack template …`, as far as a server answers. Baking is done without one and is the
//! binary's own.

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

/// The commands about templates.
#[derive(Debug, clap::Subcommand)]
pub enum TemplateCommand {
    /// Make a template from a Dockerfile, an image or a snapshot, showing the build's log
    Build(Box<build::BuildArgs>),
    /// List what sandboxes can start from
    #[command(alias = "ls")]
    List(list::ListArgs),
    /// Show one template
    Get(get::GetArgs),
    /// Delete templates of yours; sandboxes made from them go on
    #[command(alias = "rm")]
    Delete(delete::DeleteArgs),
    /// List builds, newest first
    Builds(builds::BuildsArgs),
    /// Show a build's log, and follow it while it runs
    #[command(alias = "build-logs")]
    Logs(logs::LogsArgs),
}

/// Carries out one of them.
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
