//! The commands of `pandastack` that talk to a server. Each file has one command: first its
//! arguments, then its code. This is a library, so that the binary can add its own commands.

mod account;
mod advice;
mod audit;
mod bench;
mod billing;
mod browser;
mod colour;
mod complete;
mod completion;
mod connect;
mod context;
mod dashboard;
mod database;
mod events;
mod exit;
mod find;
mod follow;
mod hidden;
mod host;
mod interrupt;
mod key;
mod kind;
mod many;
mod mcp;
mod member;
mod open;
mod org;
mod output;
mod pair;
mod pick;
mod printed;
mod prompt;
mod quota;
mod raw;
mod resolver;
mod run;
mod sandbox;
mod session;
mod size;
mod snapshot;
mod spinner;
mod stats;
mod template;
mod terminal;
mod tree_picture;
mod volume;
mod watch;
mod webhook;
mod yaml;

use std::process::ExitCode;

use clap_complete::ArgValueCompleter;
pub use complete::answer_shell;
pub use exit::{EXIT_CODES_HELP, ExitReason, exit_code_of};
pub use key::{CreateKeyArgs, KeyCommand, create as create_key, execute as execute_key, show as show_key};
pub use output::OutputForm;
pub use resolver::{NameLookup, RESOLVER_FIX, SAMPLE_NAME, is_below_localhost, look_up};
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
    /// Context of the config file to use, instead of the current one; see `pandastack context`
    #[arg(
        id = "server_context",
        long = "context",
        global = true,
        value_name = "NAME",
        env = "PANDASTACK_CONTEXT",
        add = ArgValueCompleter::new(complete::contexts)
    )]
    pub server_context: Option<String>,
    /// How to print results: a table, JSON, YAML, or one id or name per line
    #[arg(long, short, global = true, value_name = "FORM")]
    pub output: Option<OutputForm>,
    /// Print results as JSON; the same as -o json
    #[arg(long, global = true, conflicts_with = "output")]
    pub json: bool,
}

impl GlobalArgs {
    /// Returns the context that was chosen for this command.
    pub fn chosen_context(&self) -> Option<&str> {
        self.server_context.as_deref().filter(|name| !name.is_empty())
    }

    /// Refuses forms that a command does not have, for commands that print text or JSON.
    pub fn text_or_json(&self) -> anyhow::Result<()> {
        match self.output {
            None | Some(OutputForm::Table) => Ok(()),
            Some(_) => Err(ExitReason::Usage.error("this command prints text, or JSON with --json")),
        }
    }
}

/// The commands that talk to a server.
#[derive(Debug, clap::Subcommand)]
pub enum ClientCommand {
    /// Run one command in a fresh sandbox, then delete the sandbox
    Run(run::RunArgs),
    /// Create, use, fork, hibernate and delete sandboxes
    #[command(subcommand)]
    Sandbox(sandbox::SandboxCommand),
    /// Create a sandbox, from a template or a snapshot; short for `sandbox create`
    Create(Box<sandbox::CreateSandboxArgs>),
    /// Make running copies of a sandbox, with its memory; short for `sandbox fork`
    Fork(sandbox::ForkArgs),
    /// Open a shell in a sandbox, in this terminal; short for `sandbox ssh`
    #[command(visible_alias = "ssh")]
    Shell(sandbox::SshArgs),
    /// Run a command in a sandbox; short for `sandbox exec`
    Exec(sandbox::ExecArgs),
    /// Copy files and directories to and from a sandbox; short for `sandbox cp`
    Cp(sandbox::CpArgs),
    /// List sandboxes, newest first; short for `sandbox list`
    #[command(visible_alias = "ps")]
    Ls(sandbox::ListSandboxesArgs),
    /// Delete sandboxes; short for `sandbox delete`
    Rm(sandbox::DeleteSandboxArgs),
    /// Draw the forks of a sandbox, or of all sandboxes, as a tree
    Tree(sandbox::TreeArgs),
    /// Open a port of a sandbox, or the server's documentation, in a browser
    Open(open::OpenArgs),
    /// Measure how fast the server creates, runs, forks, hibernates and wakes sandboxes
    Bench(bench::BenchArgs),
    /// Use several servers: list, add, choose and remove them
    #[command(subcommand)]
    Context(context::ContextCommand),
    /// List, show and delete snapshots
    #[command(subcommand)]
    Snapshot(snapshot::SnapshotCommand),
    /// Create, list, grow and delete durable disks
    #[command(subcommand)]
    Volume(volume::VolumeCommand),
    /// Create, query, branch, clone, back up and delete PostgreSQL databases
    #[command(subcommand, visible_aliases = ["database", "databases"])]
    Db(database::DatabaseCommand),
    /// Show the limits of the workspace, and what it uses
    Quota,
    /// Show this month's bill; set a budget, buy a plan
    Billing(billing::BillingArgs),
    /// Show what was used in some days, and what it costs
    Usage(billing::UsageArgs),
    /// Show the prices and the plans of the server
    Pricing,
    /// Show how fast sandboxes start
    #[command(subcommand)]
    Stats(stats::StatsCommand),
    /// List the changing requests of this workspace
    Audit(audit::AuditArgs),
    /// List recent events of the workspace, or follow them
    Events(events::WorkspaceEventsArgs),
    /// Print the address of the web page, with a link that logs in once
    Dashboard(dashboard::DashboardArgs),
    /// Receive events: subscribe URLs, list deliveries, replay them
    #[command(subcommand)]
    Webhook(webhook::WebhookCommand),
    /// Log in to a server, with a password or in a browser
    Login(account::LoginArgs),
    /// End the saved login and go back to the saved API key
    Logout(account::LogoutArgs),
    /// Show who this client is, and the organisation that it acts in
    Whoami,
    /// Make an account with an invite, and log in
    Register(account::RegisterArgs),
    /// Change your password; all other logins end
    Passwd,
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
    /// Serve the tools for agents (MCP) on standard input and output; install them in clients
    Mcp(mcp::McpArgs),
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
        ClientCommand::Create(args) => sandbox::create(*args, global).await,
        ClientCommand::Fork(args) => sandbox::fork(args, global).await,
        ClientCommand::Shell(args) => sandbox::ssh(args, global).await,
        ClientCommand::Exec(args) => sandbox::exec(args, global).await,
        ClientCommand::Cp(args) => sandbox::cp(args, global).await,
        ClientCommand::Ls(args) => sandbox::list(args, global).await,
        ClientCommand::Rm(args) => sandbox::delete(args, global).await,
        ClientCommand::Tree(args) => sandbox::tree(args, global).await,
        ClientCommand::Open(args) => open::open(args, global).await,
        ClientCommand::Bench(args) => bench::bench(args, global).await,
        ClientCommand::Context(command) => context::execute(command, global),
        ClientCommand::Snapshot(command) => snapshot::execute(command, global).await,
        ClientCommand::Volume(command) => volume::execute(command, global).await,
        ClientCommand::Db(command) => database::execute(command, global).await,
        ClientCommand::Quota => quota::execute(global).await,
        ClientCommand::Billing(args) => billing::execute(args, global).await,
        ClientCommand::Usage(args) => billing::usage(args, global).await,
        ClientCommand::Pricing => billing::pricing(global).await,
        ClientCommand::Stats(command) => stats::execute(command, global).await,
        ClientCommand::Audit(args) => audit::audit(args, global).await,
        ClientCommand::Events(args) => events::events(args, global).await,
        ClientCommand::Dashboard(args) => dashboard::dashboard(args, global).await,
        ClientCommand::Webhook(command) => webhook::execute(command, global).await,
        ClientCommand::Login(args) => account::login(args, global).await,
        ClientCommand::Logout(args) => account::logout(args, global).await,
        ClientCommand::Whoami => account::whoami(global).await,
        ClientCommand::Register(args) => account::register(args, global).await,
        ClientCommand::Passwd => account::passwd(global).await,
        ClientCommand::ResetPassword(args) => account::reset_password(args, global).await,
        ClientCommand::Org(command) => org::execute(command, global).await,
        ClientCommand::Member(command) => member::execute(command, global).await,
        ClientCommand::Session(command) => session::execute(command, global).await,
        ClientCommand::Host(command) => host::execute(command, global).await,
        ClientCommand::Mcp(args) => mcp::execute(args, global).await,
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
    fn the_short_commands_take_what_the_long_ones_take() {
        let parse =
            |line: &str| AllArgs::try_parse_from(["x"].into_iter().chain(line.split(' '))).map(|all| all.command);
        for (short, long) in [
            ("create -t mini --name web --ttl 60 -q", "sandbox create -t mini --name web --ttl 60 -q"),
            ("fork web -n 3 --metadata a=b", "sandbox fork web -n 3 --metadata a=b"),
            ("exec --cwd /srv web -- make test", "sandbox exec --cwd /srv web -- make test"),
        ] {
            let (short, long) = (format!("{:?}", parse(short).unwrap()), format!("{:?}", parse(long).unwrap()));
            let arguments = |text: &str| text[text.find("Args {").unwrap()..].trim_end_matches(')').to_owned();
            assert_eq!(arguments(&short), arguments(&long));
        }
        assert!(parse("fork").is_err(), "it needs a sandbox");
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
