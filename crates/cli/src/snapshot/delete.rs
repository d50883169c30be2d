//! `pandastack snapshot delete`

use std::process::ExitCode;

use clap_complete::ArgValueCompleter;

use crate::{GlobalArgs, advice::advise, complete, connect::connect, find::FoundKind, many::DeleteFormat};

/// Arguments of `snapshot delete`.
#[derive(Debug, clap::Args)]
pub struct DeleteSnapshotArgs {
    /// Snapshots: ids, or unique starts of them
    #[arg(required = true, value_name = "ID", add = ArgValueCompleter::new(complete::snapshots))]
    ids: Vec<String>,
    #[command(flatten)]
    form: DeleteFormat,
}

/// Deletes each snapshot. A failure does not stop the others.
pub async fn delete(args: DeleteSnapshotArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let client = connect(global)?;
    let delete = async |name: &str| {
        let id = FoundKind::Snapshot.find(&client, name).await?;
        client.delete_snapshot(&id).await.map_err(advise)?;
        Ok(id)
    };
    args.form.each(global, args.ids, delete).await
}
