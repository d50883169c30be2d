//! `pandastack sandbox snapshot`

use std::process::ExitCode;

use crate::{GlobalArgs, advice::advise, output, pick::SandboxArg, snapshot::mebibytes, spinner::Spinner};

/// Arguments of `sandbox snapshot`.
#[derive(Debug, clap::Args)]
pub struct SnapshotArgs {
    #[command(flatten)]
    sandbox: SandboxArg,
    /// Print only the snapshot's id
    #[arg(long, short, conflicts_with_all = ["json", "output"])]
    quiet: bool,
}

/// Saves a sandbox's memory and disk.
pub async fn snapshot(args: SnapshotArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let (client, id) = args.sandbox.find(global).await?;
    let spinner = Spinner::start("creating snapshot");
    let snapshot = client.snapshot(&id).await.map_err(advise)?;
    drop(spinner);
    if global.is_structured() {
        global.print(&snapshot)?;
    } else if args.quiet {
        output::line(&snapshot.id)?;
    } else {
        output::line(&format!("{}  {}", snapshot.id, mebibytes(snapshot.size_bytes)))?;
        eprintln!("start from it with: pandastack sandbox create --from-snapshot {}", snapshot.id);
    }
    Ok(ExitCode::SUCCESS)
}
