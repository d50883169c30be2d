//! `pandastack snapshot list`

use std::process::ExitCode;

use pandastack_client::wire::Snapshot;

use super::mebibytes;
use crate::{
    GlobalArgs,
    advice::advise,
    connect::connect,
    many::{ListFormat, TableFormat},
};

/// Arguments of `snapshot list`.
#[derive(Debug, clap::Args)]
pub struct ListSnapshotsArgs {
    /// Show only snapshots of this sandbox
    #[arg(long, value_name = "ID")]
    sandbox: Option<String>,
    #[command(flatten)]
    form: ListFormat,
}

/// Lists snapshots.
pub async fn list(args: ListSnapshotsArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let snapshots = connect(global)?.snapshots(args.sandbox.as_deref()).await.map_err(advise)?;
    let head = &["ID", "SANDBOX", "TEMPLATE", "SIZE", "CREATED"];
    args.form.print(
        &snapshots,
        TableFormat { head, row, empty: "no snapshots; create one with: pandastack sandbox snapshot ID" },
    )
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
