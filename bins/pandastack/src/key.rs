//! `pandastack key …`: creates a key in a local data folder. Passes every other subcommand on to
//! the client commands, which call a server.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use pandastack_cli::{CreateKeyArgs, GlobalArgs, KeyCommand, create_key, execute_key, show_key};
use pandastack_client::wire::{ApiKey, KeySpec, rfc3339};
use pandastack_control::{Control, ControlPlace, DatabaseAddress, PostgresUrl};
use pandastack_kit::{Clock, SystemClock};

#[derive(Subcommand)]
pub enum KeyArgs {
    /// Create an API key and print it
    Create(MakeKeyArgs),
    #[command(flatten)]
    Served(KeyCommand),
}

#[derive(Args)]
pub struct MakeKeyArgs {
    #[command(flatten)]
    key: CreateKeyArgs,
    /// Write the key into this data folder instead of asking a server. Use this if every key is
    /// lost; it works whether or not the server runs
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

/// Finds the database of a data folder: the one that `pandastack up` uses there.
pub fn offline_database(data_dir: &Path) -> Result<DatabaseAddress> {
    if let Some(url) = std::env::var_os("DATABASE_URL") {
        let url: PostgresUrl = url.to_string_lossy().parse().context("read DATABASE_URL")?;
        return Ok(DatabaseAddress::Server(url));
    }
    let database = ControlPlace::in_folder(data_dir).database;
    if matches!(&database, DatabaseAddress::File(path) if !path.is_file()) {
        bail!("{} is not the data folder of a server: it has no control.db", data_dir.display());
    }
    Ok(database)
}

impl KeyArgs {
    /// Tells whether the command writes to a local data folder.
    pub fn writes_data(&self) -> bool {
        matches!(self, KeyArgs::Create(MakeKeyArgs { data_dir: Some(_), .. }))
    }

    pub async fn run(self, global: &GlobalArgs) -> Result<ExitCode> {
        match self {
            KeyArgs::Create(MakeKeyArgs { key, data_dir: None }) => create_key(key, global).await,
            KeyArgs::Create(MakeKeyArgs { key, data_dir: Some(data_dir) }) => {
                let database = offline_database(&data_dir)?;
                let ask = KeySpec::try_from(key.ask()).map_err(|fault| anyhow::anyhow!(fault.text))?;
                let made = Control::make_key_offline(&database, &ask, SystemClock.now_ns()).await;
                let made = made.context("create an API key")?;
                let stored = &made.stored;
                let shown = ApiKey {
                    id: stored.id.clone(),
                    prefix: stored.prefix.clone(),
                    label: Some(stored.label.clone()).filter(|label| !label.is_empty()),
                    created_at: rfc3339(stored.created_at_ns),
                    created_by: stored.created_by.clone(),
                    expires_at: stored.expires_at_ns.map(rfc3339),
                    token: Some(made.key.reveal().clone()),
                    ..ApiKey::default()
                };
                show_key(&shown, global)
            }
            KeyArgs::Served(command) => execute_key(command, global).await,
        }
    }
}
