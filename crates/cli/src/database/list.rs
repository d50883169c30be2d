//! `pandastack db list`

use std::process::ExitCode;

use pandastack_client::wire::{ManagedDatabase, rfc3339};

use crate::{
    GlobalArgs,
    connect::connect,
    many::{ListFormat, TableFormat},
};

/// Arguments of `db list`.
#[derive(Debug, clap::Args)]
pub struct ListDatabasesArgs {
    #[command(flatten)]
    form: ListFormat,
}

/// Lists databases.
pub async fn list(args: ListDatabasesArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let client = connect(global)?;
    let head = &["ID", "LABEL", "STATUS", "SIZE", "ALWAYS ON", "BRANCHED FROM", "CREATED"];
    let listing = TableFormat { head, row, empty: "no databases; create one with: pandastack db create" };
    args.form.print(global, listing, async || client.databases().await).await
}

pub(super) fn row(database: &ManagedDatabase) -> Vec<String> {
    let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    vec![
        database.id.clone(),
        or_dash(&database.label),
        database.status.clone(),
        or_dash(&database.size),
        if database.always_on == Some(true) { "yes" } else { "no" }.to_owned(),
        or_dash(&database.branched_from),
        created(database),
    ]
}

/// When the database was created, as other resources show it.
pub(super) fn created(database: &ManagedDatabase) -> String {
    database.created_at.map_or_else(|| "-".to_owned(), |seconds| rfc3339(seconds.saturating_mul(1_000_000_000)))
}
