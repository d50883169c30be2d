//! `pandastack snapshot get`

use std::process::ExitCode;

use super::mebibytes;
use crate::{GlobalArgs, advice::advise, output, pick::SnapshotArg};

/// Arguments of `snapshot get`.
#[derive(Debug, clap::Args)]
pub struct GetSnapshotArgs {
    #[command(flatten)]
    snapshot: SnapshotArg,
}

/// Shows one snapshot.
pub async fn get(args: GetSnapshotArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let (client, id) = args.snapshot.find(global).await?;
    let snapshot = client.get_snapshot(&id).await.map_err(advise)?;
    if global.is_structured() {
        global.print(&snapshot)?;
        return Ok(ExitCode::SUCCESS);
    }
    let rows = [
        vec!["sandbox".to_owned(), snapshot.sandbox_id],
        vec!["template".to_owned(), snapshot.template],
        vec!["size".to_owned(), mebibytes(snapshot.size_bytes)],
        vec!["created".to_owned(), snapshot.created_at],
    ];
    output::table(&["id", &snapshot.id], &rows)?;
    Ok(ExitCode::SUCCESS)
}
