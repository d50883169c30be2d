//! `pandastack snapshot delete`

use std::process::ExitCode;

use crate::{GlobalArgs, connect::connect, many::DeleteFormat};

/// Arguments of `snapshot delete`.
#[derive(Debug, clap::Args)]
pub struct DeleteSnapshotArgs {
    /// Snapshot ids
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    #[command(flatten)]
    form: DeleteFormat,
}

/// Deletes each snapshot. A failure does not stop the others.
pub async fn delete(args: DeleteSnapshotArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let client = connect(global)?;
    args.form.each(args.ids, async |id| client.delete_snapshot(id).await).await
}
