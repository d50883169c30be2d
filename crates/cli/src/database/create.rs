//! `pandastack db create`

use std::process::ExitCode;

use pandastack_client::wire::{CreateDatabase, DatabaseSize};

use super::wait::{ReadyWait, WaitArgs};
use crate::{GlobalArgs, connect::connect};

/// Arguments of `db create`.
#[derive(Debug, clap::Args)]
pub struct CreateDatabaseArgs {
    /// Label: other commands accept it instead of the id
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,
    /// Memory: 1g (the default), 4g or 16g
    #[arg(
        long,
        value_name = "SIZE",
        value_parser = DatabaseSize::ALL.map(DatabaseSize::as_str),
        hide_possible_values = true
    )]
    size: Option<String>,
    /// Never put it to sleep; otherwise it sleeps when nobody uses it
    #[arg(long)]
    always_on: bool,
    #[command(flatten)]
    wait: WaitArgs,
}

/// Creates a database and waits until it can be used.
pub async fn create(args: CreateDatabaseArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let client = connect(global)?;
    let ask = args.ask();
    args.wait.finish(&client, global, ReadyWait::started("creating database"), client.create_database(&ask)).await
}

impl CreateDatabaseArgs {
    pub(super) fn ask(&self) -> CreateDatabase {
        CreateDatabase {
            label: self.label.clone(),
            size: self.size.clone(),
            always_on: self.always_on.then_some(true),
            ..CreateDatabase::default()
        }
    }
}
