//! The binary: server, operator's tools and command line client. Contains wiring only. Without the
//! feature `server` it is the client alone.

#[cfg(feature = "server")]
mod admin;
#[cfg(feature = "server")]
mod audit;
#[cfg(feature = "server")]
mod bake;
#[cfg(feature = "server")]
mod billing;
#[cfg(feature = "server")]
mod called;
#[cfg(not(feature = "server"))]
mod client_only;
#[cfg(feature = "server")]
mod data_folder;
mod docs;
#[cfg(feature = "server")]
mod doctor;
#[cfg(feature = "server")]
mod find_program;
#[cfg(feature = "server")]
mod key;
#[cfg(feature = "server")]
mod mail;
#[cfg(feature = "server")]
mod notify;
#[cfg(feature = "server")]
mod orphans;
#[cfg(feature = "server")]
mod progress;
#[cfg(feature = "server")]
mod quota;
#[cfg(feature = "server")]
mod stop;
#[cfg(feature = "server")]
mod stripe;
#[cfg(feature = "server")]
mod up;
#[cfg(feature = "server")]
mod with_server;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

#[cfg(not(feature = "server"))]
use client_only::ServerlessCommand as LocalCommand;
#[cfg(feature = "server")]
use with_server::ServerCommand as LocalCommand;

/// Real Linux machines for AI agents, on your own server.
#[derive(Parser)]
#[command(name = "pandastack", version, about, propagate_version = true, arg_required_else_help = true)]
#[command(after_help = pandastack_cli::EXIT_CODES_HELP)]
struct Options {
    #[command(flatten)]
    global: pandastack_cli::GlobalArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    #[command(flatten)]
    Local(LocalCommand),
    /// Print documentation pages that are generated from the program
    #[command(subcommand, hide = true)]
    Docs(docs::DocsCommand),
    #[command(flatten)]
    Client(pandastack_cli::ClientCommand),
}

fn main() -> ExitCode {
    #[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
    pandastack_sys::lookups::use_built_in_modules();
    pandastack_cli::answer_shell(Options::command);
    let options = Options::parse();
    if let Command::Local(local) = &options.command {
        local.prepare();
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
            Command::Local(local) => local.run(&options.global).await,
            Command::Docs(docs) => docs.run(Options::command()),
            Command::Client(command) => pandastack_cli::execute(command, &options.global, Options::command).await,
        }
    });
    // A thread that reads the terminal blocks forever. The exit must not wait for it.
    runtime.shutdown_background();
    done.unwrap_or_else(|error| {
        eprintln!("pandastack: {error:#}");
        pandastack_cli::exit_code_of(&error)
    })
}
