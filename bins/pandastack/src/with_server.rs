//! The commands that only the full program has, because they run or administer a server here.

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;
use pandastack_cli::GlobalArgs;

use crate::{admin, bake, doctor, key, up};

#[derive(Subcommand)]
pub enum ServerCommand {
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
}

impl ServerCommand {
    /// Runs before any other thread exists.
    pub fn prepare(&self) {
        if self.writes_data() {
            // Must come before the first file is made: the data folder holds users' keys, memory
            // and disks.
            pandastack_sys::private::close_umask();
        }
    }

    pub async fn run(self, global: &GlobalArgs) -> Result<ExitCode> {
        if !matches!(&self, ServerCommand::Template(bake::TemplateArgs::Served(_)) | ServerCommand::Key(_)) {
            global.text_or_json()?;
        }
        match self {
            ServerCommand::Up(up) => up.run().await,
            ServerCommand::Template(template) => template.run(global).await,
            ServerCommand::Key(key) => key.run(global).await,
            ServerCommand::Admin(admin) => admin.run().await,
            ServerCommand::Doctor(doctor) => doctor.run().await,
        }
    }

    /// Tells whether the command writes to a data folder. Other commands write the user's own
    /// files and keep the user's umask.
    fn writes_data(&self) -> bool {
        match self {
            ServerCommand::Up(_) | ServerCommand::Admin(_) | ServerCommand::Template(bake::TemplateArgs::Bake(_)) => {
                true
            }
            ServerCommand::Key(key) => key.writes_data(),
            ServerCommand::Template(_) | ServerCommand::Doctor(_) => false,
        }
    }
}
