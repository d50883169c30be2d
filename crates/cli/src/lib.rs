//! The commands of `pandastack` that talk to a server. Each file has one command: first its
//! arguments, then its code. This is a library, so that the binary can add its own commands.

mod account;
mod advice;
mod audit;
mod billing;
mod completion;
mod connect;
mod follow;
mod hidden;
mod host;
mod interrupt;
mod key;
mod many;
mod member;
mod org;
mod output;
mod pair;
mod prompt;
mod quota;
mod raw;
mod run;
mod sandbox;
mod session;
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
    /// Organisation to act in, by id; by default the current one. An API key has its own
    #[arg(long, global = true, value_name = "ID", env = "PANDASTACK_ORG")]
    pub org: Option<String>,
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
    /// Show the limits of the workspace, and what it uses
    Quota(quota::QuotaArgs),
    /// Show this month's bill; set a budget, buy a plan
    Billing(billing::BillingArgs),
    /// Show what was used in some days, and what it costs
    Usage(billing::UsageArgs),
    /// Show the prices and the plans of the server
    Pricing(billing::PricingArgs),
    /// Show how fast sandboxes start
    #[command(subcommand)]
    Stats(stats::StatsCommand),
    /// List the changing requests of this workspace
    Audit(audit::AuditArgs),
    /// Receive events: subscribe URLs, list deliveries, replay them
    #[command(subcommand)]
    Webhook(webhook::WebhookCommand),
    /// Log in to a server, with a password or in a browser
    Login(account::LoginArgs),
    /// End the saved login and go back to the saved API key
    Logout(account::LogoutArgs),
    /// Show who this client is, and the organisation that it acts in
    Whoami(account::WhoamiArgs),
    /// Make an account with an invite, and log in
    Register(account::RegisterArgs),
    /// Change your password; all other logins end
    Passwd(account::PasswdArgs),
    /// Set a new password with a reset link, or ask for such a link
    ResetPassword(account::ResetPasswordArgs),
    /// Create, choose, rename and delete organisations
    #[command(subcommand)]
    Org(org::OrgCommand),
    /// List, invite and remove members of an organisation
    #[command(subcommand)]
    Member(member::MemberCommand),
    /// List and end your logins
    #[command(subcommand)]
    Session(session::SessionCommand),
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
        ClientCommand::Quota(args) => quota::execute(args, global).await,
        ClientCommand::Billing(args) => billing::execute(args, global).await,
        ClientCommand::Usage(args) => billing::usage(args, global).await,
        ClientCommand::Pricing(args) => billing::pricing(args, global).await,
        ClientCommand::Stats(command) => stats::execute(command, global).await,
        ClientCommand::Audit(args) => audit::audit(args, global).await,
        ClientCommand::Webhook(command) => webhook::execute(command, global).await,
        ClientCommand::Login(args) => account::login(args, global).await,
        ClientCommand::Logout(args) => account::logout(args, global).await,
        ClientCommand::Whoami(args) => account::whoami(args, global).await,
        ClientCommand::Register(args) => account::register(args, global).await,
        ClientCommand::Passwd(args) => account::passwd(args, global).await,
        ClientCommand::ResetPassword(args) => account::reset_password(args, global).await,
        ClientCommand::Org(command) => org::execute(command, global).await,
        ClientCommand::Member(command) => member::execute(command, global).await,
        ClientCommand::Session(command) => session::execute(command, global).await,
        ClientCommand::Host(command) => host::execute(command, global).await,
        ClientCommand::Completion(args) => completion::completion(args, root()),
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;

    #[derive(Parser)]
    struct AllArgs {
        #[command(flatten)]
        global: GlobalArgs,
        #[command(subcommand)]
        command: ClientCommand,
    }

    #[test]
    fn no_two_arguments_of_a_command_have_one_name() {
        AllArgs::command().debug_assert();
    }

    #[test]
    fn the_organisation_may_stand_anywhere() {
        for line in ["--org o1 sandbox list", "sandbox list --org o1", "org get --org o1", "member list --org=o1"] {
            let parsed = AllArgs::try_parse_from(["x"].into_iter().chain(line.split(' ')));
            assert_eq!(parsed.map(|all| all.global.org).unwrap().as_deref(), Some("o1"), "{line}");
        }
    }

    #[test]
    fn secrets_of_links_are_not_in_debug_texts() {
        let secret = "0123456789ab".repeat(4);
        for (line, prefix) in [("register", ""), ("member accept", ""), ("reset-password", "prs_")] {
            let link = format!("http://x/{prefix}{secret}");
            let parsed = AllArgs::try_parse_from(["x"].into_iter().chain(line.split(' ')).chain([link.as_str()]));
            let shown = format!("{:?}", parsed.map(|all| all.command).unwrap());
            assert!(!shown.contains(&secret), "{shown}");
        }
    }
}
