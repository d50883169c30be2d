//! `pandastack db clone`

use std::process::ExitCode;

use pandastack_client::wire::{CloneDatabase, DatabaseSize};

use super::{
    moment::target_time,
    wait::{ReadyWait, WaitArgs},
};
use crate::{GlobalArgs, pick::DatabaseArg};

/// Arguments of `db clone`.
#[derive(Debug, clap::Args)]
pub struct CloneDatabaseArgs {
    #[command(flatten)]
    database: DatabaseArg,
    /// Label of the clone: other commands accept it instead of the id
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,
    /// As it was then: 2026-01-31T23:59:59Z, -10m or "10 minutes ago"; the latest by default
    #[arg(
        long,
        visible_alias = "target-time",
        value_name = "TIME",
        allow_hyphen_values = true,
        value_parser = target_time
    )]
    at: Option<String>,
    /// Memory: 1g, 4g or 16g; that of the source by default
    #[arg(
        long,
        value_name = "SIZE",
        value_parser = DatabaseSize::ALL.map(DatabaseSize::as_str),
        hide_possible_values = true
    )]
    size: Option<String>,
    #[command(flatten)]
    wait: WaitArgs,
}

/// Makes a database from the archive of another one and waits until it can be used.
pub async fn clone(args: CloneDatabaseArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let (client, id) = args.database.find(global).await?;
    let ask = args.ask();
    args.wait.finish(&client, global, ReadyWait::rebuilt("cloning database"), client.clone_database(&id, &ask)).await
}

impl CloneDatabaseArgs {
    pub(super) fn ask(&self) -> CloneDatabase {
        CloneDatabase { label: self.label.clone(), target_time: self.at.clone(), size: self.size.clone() }
    }
}
