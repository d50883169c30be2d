//! The commands of `pandastack` that talk to a server. Each file has one command: first its
//! arguments, then its code. This is a library, so that the binary can add its own commands.

mod advice;
mod audit;
mod completion;
mod connect;
mod follow;
mod host;
mod interrupt;
mod key;
mod many;
mod output;
mod pair;
mod raw;
mod run;
mod sandbox;
mod size;
mod snapshot;
mod spinner;
mod stats;
mod template;
mod volume;
mod webhook;

use std::process::ExitCode;

pub use key::{CreateKeyArgs, KeyCommand, create as create_key, execute as execute_key, show as show_key};
pub use template::{TemplateCommand, execute as execute_template};

/// Options of every command.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct GlobalArgs {
    /// Server to talk to; by default PANDASTACK_API_URL, PANDASTACK_API or the config file
    #[arg(long, global = true, value_name = "URL")]
    pub api_url: Option<String>,
}

/// The commands that talk to a server.
#[derive(Debug, clap::Subcommand)]
pub enum ClientCommand {
    /// Run one command in a fresh sandbox, then delete the sandbox
    Run(run::RunArgs),
    /// Create, use, fork, hibernate and delete sandboxes
    #[command(subcommand)]
    Sandbox(sandbox::SandboxCommand),
    /// List, show and delete snapshots
    #[command(subcommand)]
    Snapshot(snapshot::SnapshotCommand),
    /// Create, list, grow and delete durable disks
    #[command(subcommand)]
    Volume(volume::VolumeCommand),
    /// Show how fast sandboxes start
    #[command(subcommand)]
    Stats(stats::StatsCommand),
    /// List the changing requests of this workspace
    Audit(audit::AuditArgs),
    /// Receive events: subscribe URLs, list deliveries, replay them
    #[command(subcommand)]
    Webhook(webhook::WebhookCommand),
    /// Check the server that runs the machines
    #[command(subcommand)]
    Host(host::HostCommand),
    /// Print a completion script for a shell
    Completion(completion::CompletionArgs),
}

/// Runs a command. `root` returns the arguments of the whole program, for completion scripts.
pub async fn execute(
    command: ClientCommand,
    global: &GlobalArgs,
    root: fn() -> clap::Command,
) -> anyhow::Result<ExitCode> {
    match command {
        ClientCommand::Run(args) => run::run(args, global).await,
        ClientCommand::Sandbox(command) => sandbox::execute(command, global).await,
        ClientCommand::Snapshot(command) => snapshot::execute(command, global).await,
        ClientCommand::Volume(command) => volume::execute(command, global).await,
        ClientCommand::Stats(command) => stats::execute(command, global).await,
        ClientCommand::Audit(args) => audit::audit(args, global).await,
        ClientCommand::Webhook(command) => webhook::execute(command, global).await,
        ClientCommand::Host(command) => host::execute(command, global).await,
        ClientCommand::Completion(args) => completion::completion(args, root()),
    }
}
