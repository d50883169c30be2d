//! `pandastack sandbox snapshot`

use std::process::ExitCode;

use crate::{GlobalArgs, advice::advise, connect::connect, output, snapshot::mebibytes, spinner::Spinner};

/// Arguments of `sandbox snapshot`.
#[derive(Debug, clap::Args)]
pub struct SnapshotArgs {
    /// Sandbox id
    id: String,
    /// Print the whole snapshot as JSON
    #[arg(long, conflicts_with = "quiet")]
    json: bool,
    /// Print only the snapshot's id
    #[arg(long, short)]
    quiet: bool,
}

/// Saves a sandbox's memory and disk.
pub async fn snapshot(args: SnapshotArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let client = connect(global)?;
    let spinner = Spinner::start("creating snapshot");
    let snapshot = client.snapshot(&args.id).await.map_err(advise)?;
    drop(spinner);
    if args.json {
        output::json(&snapshot)?;
    } else if args.quiet {
        output::line(&snapshot.id)?;
    } else {
        output::line(&format!("{}  {}", snapshot.id, mebibytes(snapshot.size_bytes)))?;
        eprintln!("start from it with: pandastack sandbox create --from-snapshot {}", snapshot.id);
    }
    Ok(ExitCode::SUCCESS)
}
