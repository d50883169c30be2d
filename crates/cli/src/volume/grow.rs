//! `pandastack volume grow`

use std::process::ExitCode;

use crate::{GlobalArgs, advice::advise, connect::connect, output, size::mebibytes, spinner::Spinner};

/// Arguments of `volume grow`.
#[derive(Debug, clap::Args)]
pub struct GrowArgs {
    /// Name of the volume
    name: String,
    /// New size in mebibytes, or with M or G
    #[arg(value_parser = mebibytes)]
    size: i64,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// Grows a volume.
pub async fn grow(args: GrowArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let client = connect(global)?;
    let spinner = Spinner::start("growing volume");
    let volume = client.grow_volume(&args.name, args.size).await.map_err(advise)?;
    drop(spinner);
    if args.json {
        output::json(&volume)?;
    } else {
        output::line(&format!("{}  {} MiB", volume.name, volume.size_mb))?;
    }
    Ok(ExitCode::SUCCESS)
}
