//! The binary: server, operator's tools and command line client. Contains wiring only.

mod admin;
mod audit;
mod bake;
mod billing;
mod data_folder;
mod docs;
mod doctor;
mod key;
mod mail;
mod progress;
mod quota;
mod stop;
mod stripe;
mod up;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

/// Real Linux machines for AI agents, on your own server.
#[derive(Parser)]
#[command(name = "pandastack", version, about, propagate_version = true, arg_required_else_help = true)]
struct Options {
    #[command(flatten)]
    global: pandastack_cli::GlobalArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start the server: API, edge and host in one process
    Up(Box<up::UpArgs>),
    /// Create, list and delete templates
    #[command(subcommand)]
    Template(bake::TemplateArgs),
    /// Create, list and revoke API keys
    #[command(subcommand)]
    Key(key::KeyArgs),
    /// Administer the server: database, accounts, plans and limits, billing, audit trail
    #[command(subcommand)]
    Admin(admin::AdminArgs),
    /// Check what this computer supports, what is missing, and how to fix it
    Doctor(doctor::DoctorArgs),
    /// Print documentation pages that are generated from the program
    #[command(subcommand, hide = true)]
    Docs(docs::DocsCommand),
    #[command(flatten)]
    Client(pandastack_cli::ClientCommand),
}

impl Command {
    /// Tells whether the command writes to a data folder. Other commands write the user's own
    /// files and keep the user's umask.
    fn writes_data(&self) -> bool {
        match self {
            Command::Up(_) | Command::Admin(_) | Command::Template(bake::TemplateArgs::Bake(_)) => true,
            Command::Key(key) => key.writes_data(),
            Command::Template(_) | Command::Doctor(_) | Command::Docs(_) | Command::Client(_) => false,
        }
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    if options.command.writes_data() {
        // Must come before the first file is made: the data folder holds users' keys, memory and
        // disks.
        pandastack_sys::private::close_umask();
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("pandastack: start the runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    let done = runtime.block_on(async {
        match options.command {
            Command::Up(up) => up.run().await,
            Command::Template(template) => template.run(&options.global).await,
            Command::Key(key) => key.run(&options.global).await,
            Command::Admin(admin) => admin.run().await,
            Command::Doctor(doctor) => doctor.run(),
            Command::Docs(docs) => docs.run(Options::command()),
            Command::Client(command) => pandastack_cli::execute(command, &options.global, Options::command).await,
        }
    });
    // A thread that reads the terminal blocks forever. The exit must not wait for it.
    runtime.shutdown_background();
    done.unwrap_or_else(|error| {
        eprintln!("pandastack: {error:#}");
        ExitCode::FAILURE
    })
}
