//! `pandastack snapshot list`

use std::process::ExitCode;

use clap_complete::ArgValueCompleter;
use pandastack_client::wire::Snapshot;

use super::mebibytes;
use crate::{
    GlobalArgs, complete,
    connect::connect,
    find::FoundKind,
    many::{ListFormat, TableFormat},
};

/// Arguments of `snapshot list`.
#[derive(Debug, clap::Args)]
pub struct ListSnapshotsArgs {
    /// Show only snapshots of this sandbox: its id, a unique start of it, or its name
    #[arg(long, value_name = "ID", add = ArgValueCompleter::new(complete::sandboxes))]
    sandbox: Option<String>,
    #[command(flatten)]
    form: ListFormat,
}

/// Lists snapshots.
pub async fn list(args: ListSnapshotsArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let client = connect(global)?;
    let sandbox = match &args.sandbox {
        Some(sandbox) => Some(FoundKind::Sandbox.find(&client, sandbox).await?),
        None => None,
    };
    let head = &["ID", "SANDBOX", "TEMPLATE", "SIZE", "CREATED"];
    let listing = TableFormat { head, row, empty: "no snapshots; create one with: pandastack sandbox snapshot ID" };
    args.form.print(global, listing, async || client.snapshots(sandbox.as_deref()).await).await
}

fn row(snapshot: &Snapshot) -> Vec<String> {
    vec![
        snapshot.id.clone(),
        snapshot.sandbox_id.clone(),
        snapshot.template.clone(),
        mebibytes(snapshot.size_bytes),
        snapshot.created_at.clone(),
    ]
}
