//! `pandastack snapshot get`

use std::process::ExitCode;

use super::mebibytes;
use crate::{GlobalArgs, advice::advise, connect::connect, output};

/// Arguments of `snapshot get`.
#[derive(Debug, clap::Args)]
pub struct GetSnapshotArgs {
    /// Snapshot id
    id: String,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// Shows one snapshot.
pub async fn get(args: GetSnapshotArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let snapshot = connect(global)?.get_snapshot(&args.id).await.map_err(advise)?;
    if args.json {
        output::json(&snapshot)?;
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
