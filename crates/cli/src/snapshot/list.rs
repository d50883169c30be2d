//! `pandastack snapshot list`

use std::process::ExitCode;

use pandastack_client::wire::Snapshot;

use super::mebibytes;
use crate::{GlobalArgs, advice::advise, connect::connect, output};

/// Arguments of `snapshot list`.
#[derive(Debug, clap::Args)]
pub struct ListArgs {
    /// Only those of this sandbox
    #[arg(long, value_name = "ID")]
    sandbox: Option<String>,
    /// Print as JSON
    #[arg(long, conflicts_with = "quiet")]
    json: bool,
    /// Print only ids
    #[arg(long, short)]
    quiet: bool,
}

/// Lists snapshots.
pub async fn list(args: ListArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let snapshots = connect(global)?.snapshots(args.sandbox.as_deref()).await.map_err(advise)?;
    if args.json {
        output::json(&snapshots)?;
    } else if args.quiet {
        for snapshot in &snapshots {
            output::line(&snapshot.id)?;
        }
    } else if snapshots.is_empty() {
        eprintln!("no snapshots; make one with: pandastack sandbox snapshot ID");
    } else {
        let rows: Vec<_> = snapshots.iter().map(row).collect();
        output::table(&["ID", "SANDBOX", "TEMPLATE", "SIZE", "CREATED"], &rows)?;
    }
    Ok(ExitCode::SUCCESS)
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
