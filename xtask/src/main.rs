//! Every developer command: `cargo xtask NAME`. Parses the arguments and calls one file per
//! command.

mod arrows;
mod check;
mod fuzz;
mod kvm_host;
mod limits;
mod openapi;
mod run;
mod sdk;
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Developer commands of the project; `make help` lists the common ones.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Format, lints and tidy: what every commit must pass.
    Check,
    /// The project's own rules: arrows between rooms, file sizes, forbidden words.
    Tidy,
    /// Write every named limit of the code into docs/limits.md.
    Limits,
    /// Write docs/openapi.json from the code.
    Openapi,
    /// Write the core of both SDKs from the document of the API.
    Sdk,
    /// Build the fuzz targets and run them, each for some time.
    Fuzz(fuzz::FuzzArgs),
    /// Run a command in the emulated KVM host, a machine whose /dev/kvm is real.
    KvmHost(kvm_host::KvmHostArgs),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Check => check::run(),
        Command::Tidy => tidy::run(),
        Command::Limits => limits::run(),
        Command::Openapi => openapi::run(),
        Command::Sdk => sdk::run(),
        Command::Fuzz(args) => fuzz::run(&args),
        Command::KvmHost(args) => kvm_host::run(&args),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
