//! `pandastack sandbox …`

mod attach;
mod cp;
mod create;
mod delete;
mod diff;
mod egress;
mod events;
mod exec;
mod fork;
mod get;
mod hibernate;
mod lifecycle;
mod list;
mod logs;
mod metrics;
mod mount;
mod pause;
mod ports;
mod preview;
mod promote;
mod ps;
mod resume;
mod run_code;
mod signal;
mod snapshot;
mod spawn;
mod ssh;
mod tree;
mod wake;

use std::process::ExitCode;

pub use cp::{CpArgs, cp};
pub use create::{CreateSandboxArgs, create, made};
pub use delete::{DeleteSandboxArgs, delete};
pub use exec::{ExecArgs, exec};
pub use fork::{ForkArgs, fork};
pub use list::{ListSandboxesArgs, list};
pub use ssh::{SshArgs, ssh};
pub use tree::{TreeArgs, tree};

use crate::GlobalArgs;

/// Commands for sandboxes.
#[derive(Debug, clap::Subcommand)]
pub enum SandboxCommand {
    /// Create a sandbox, from a template or a snapshot
    Create(create::CreateSandboxArgs),
    /// List sandboxes, newest first
    #[command(alias = "ls")]
    List(list::ListSandboxesArgs),
    /// Show one sandbox
    Get(get::GetSandboxArgs),
    /// Run a command in a sandbox
    Exec(exec::ExecArgs),
    /// Run code in a sandbox, and show its output and results
    RunCode(run_code::RunCodeArgs),
    /// Open a shell in a sandbox, in this terminal
    #[command(visible_alias = "shell")]
    Ssh(ssh::SshArgs),
    /// Start a process that keeps running, and print its id
    Spawn(spawn::SpawnArgs),
    /// List the processes that were spawned
    Ps(ps::PsArgs),
    /// Show a spawned process's output from any offset, and follow it to its end
    Attach(attach::AttachArgs),
    /// Send a signal to a spawned process and its group, or remove the process
    #[command(alias = "kill")]
    Signal(signal::SignalArgs),
    /// Copy files and directories to and from a sandbox
    Cp(cp::CpArgs),
    /// Stop a sandbox's CPUs; its memory is kept
    Pause(pause::PauseArgs),
    /// Resume a paused sandbox
    Resume(resume::ResumeArgs),
    /// Put a sandbox to sleep: memory and disk are kept, nothing runs; the next use wakes it
    #[command(alias = "stop")]
    Hibernate(hibernate::HibernateArgs),
    /// Wake a sleeping sandbox
    #[command(alias = "start")]
    Wake(wake::WakeArgs),
    /// Save a sandbox's memory and disk as a snapshot
    Snapshot(snapshot::SnapshotArgs),
    /// Make running copies of a sandbox, including its memory
    Fork(fork::ForkArgs),
    /// Show the files and processes in which two sandboxes differ
    Diff(diff::DiffArgs),
    /// Keep one copy of a fork tree and delete the others
    Promote(promote::PromoteArgs),
    /// Show a sandbox's ancestors, siblings and descendants
    Tree(tree::TreeArgs),
    /// Show or change how long a sandbox may be idle
    Lifecycle(lifecycle::LifecycleArgs),
    /// Show or change which hosts a sandbox may reach
    Egress(egress::EgressArgs),
    /// List a sandbox's listening and declared ports
    Ports(ports::PortsArgs),
    /// Create a link to a port that needs no key, with limits on paths and time
    Preview(preview::PreviewArgs),
    /// Show a sandbox's console
    Logs(logs::SandboxLogsArgs),
    /// Show a sandbox's recent events
    Events(events::EventsArgs),
    /// Show the host resources that a sandbox's machine uses
    Metrics(metrics::MetricsArgs),
    /// Delete sandboxes
    #[command(alias = "rm")]
    Delete(delete::DeleteSandboxArgs),
}

/// Runs one of these commands.
pub async fn execute(command: SandboxCommand, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    match command {
        SandboxCommand::Create(args) => create::create(args, global).await,
        SandboxCommand::List(args) => list::list(args, global).await,
        SandboxCommand::Get(args) => get::get(args, global).await,
        SandboxCommand::Exec(args) => exec::exec(args, global).await,
        SandboxCommand::RunCode(args) => run_code::run_code(args, global).await,
        SandboxCommand::Ssh(args) => ssh::ssh(args, global).await,
        SandboxCommand::Spawn(args) => spawn::spawn(args, global).await,
        SandboxCommand::Ps(args) => ps::ps(args, global).await,
        SandboxCommand::Attach(args) => attach::attach(args, global).await,
        SandboxCommand::Signal(args) => signal::signal(args, global).await,
        SandboxCommand::Cp(args) => cp::cp(args, global).await,
        SandboxCommand::Pause(args) => pause::pause(args, global).await,
        SandboxCommand::Resume(args) => resume::resume(args, global).await,
        SandboxCommand::Hibernate(args) => hibernate::hibernate(args, global).await,
        SandboxCommand::Wake(args) => wake::wake(args, global).await,
        SandboxCommand::Snapshot(args) => snapshot::snapshot(args, global).await,
        SandboxCommand::Fork(args) => fork::fork(args, global).await,
        SandboxCommand::Diff(args) => diff::diff(args, global).await,
        SandboxCommand::Promote(args) => promote::promote(args, global).await,
        SandboxCommand::Tree(args) => tree::tree(args, global).await,
        SandboxCommand::Lifecycle(args) => lifecycle::lifecycle(args, global).await,
        SandboxCommand::Egress(args) => egress::egress(args, global).await,
        SandboxCommand::Ports(args) => ports::ports(args, global).await,
        SandboxCommand::Preview(args) => preview::preview(args, global).await,
        SandboxCommand::Logs(args) => logs::logs(args, global).await,
        SandboxCommand::Events(args) => events::events(args, global).await,
        SandboxCommand::Metrics(args) => metrics::metrics(args, global).await,
        SandboxCommand::Delete(args) => delete::delete(args, global).await,
    }
}
