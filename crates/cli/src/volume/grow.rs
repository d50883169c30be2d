//! `pandastack volume grow`

use std::process::ExitCode;

use crate::{
    GlobalArgs, connect::connect, find::FoundKind, output, pick::VolumeArg, size::mebibytes, spinner::Spinner,
};

/// Arguments of `volume grow`.
#[derive(Debug, clap::Args)]
pub struct GrowArgs {
    #[command(flatten)]
    volume: VolumeArg,
    /// New size in mebibytes, or with M or G
    #[arg(value_parser = mebibytes)]
    size: i64,
}

/// Grows a volume.
pub async fn grow(args: GrowArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let client = connect(global)?;
    let spinner = Spinner::start("growing volume");
    let grow = async |name: &str| client.grow_volume(name, args.size).await;
    let volume = FoundKind::Volume.call(&client, &args.volume.name, grow).await?;
    drop(spinner);
    if global.is_structured() {
        global.print(&volume)?;
    } else {
        output::line(&format!("{}  {} MiB", volume.name, volume.size_mb))?;
    }
    Ok(ExitCode::SUCCESS)
}
