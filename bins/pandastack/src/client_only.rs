//! The same commands in the client alone: those that a server can answer, and an explanation in
//! place of the others.

use std::{ffi::OsString, process::ExitCode};

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use pandastack_cli::{
    CreateKeyArgs, GlobalArgs, KeyCommand, TemplateCommand, create_key, execute_key, execute_template,
};

#[derive(Subcommand)]
pub enum ServerlessCommand {
    /// Create, list and delete templates
    #[command(subcommand)]
    Template(ServedTemplateArgs),
    /// Create, list and revoke API keys
    #[command(subcommand)]
    Key(ServedKeyArgs),
    #[command(hide = true)]
    Up(AbsentArgs),
    #[command(hide = true)]
    Admin(AbsentArgs),
    #[command(hide = true)]
    Doctor(AbsentArgs),
}

#[derive(Subcommand)]
pub enum ServedTemplateArgs {
    #[command(hide = true)]
    Bake(AbsentArgs),
    #[command(flatten)]
    Served(TemplateCommand),
}

#[derive(Subcommand)]
pub enum ServedKeyArgs {
    /// Create an API key and print it
    Create(CreateKeyArgs),
    #[command(flatten)]
    Served(KeyCommand),
}

/// Any arguments of a command that this program does not have.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub struct AbsentArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _rest: Vec<OsString>,
}

impl ServerlessCommand {
    pub fn prepare(&self) {}

    pub async fn run(self, global: &GlobalArgs) -> Result<ExitCode> {
        let absent = match self {
            ServerlessCommand::Template(ServedTemplateArgs::Served(command)) => {
                return execute_template(command, global).await;
            }
            ServerlessCommand::Key(ServedKeyArgs::Create(key)) => return create_key(key, global).await,
            ServerlessCommand::Key(ServedKeyArgs::Served(command)) => return execute_key(command, global).await,
            ServerlessCommand::Template(ServedTemplateArgs::Bake(_)) => "template bake",
            ServerlessCommand::Up(_) => "up",
            ServerlessCommand::Admin(_) => "admin",
            ServerlessCommand::Doctor(_) => "doctor",
        };
        bail!(
            "`pandastack {absent}` belongs to the server, and this is the client; install the server with `install.sh \
             --server` or the Debian package"
        )
    }
}
