//! `pandastack volume create`

use std::process::ExitCode;

use pandastack_client::wire::CreateVolume;

use crate::{GlobalArgs, advice::advise, connect::connect, output, size::mebibytes, spinner::Spinner};

/// Arguments of `volume create`.
#[derive(Debug, clap::Args)]
pub struct CreateVolumeArgs {
    /// Name of the volume
    name: String,
    /// Size in mebibytes, or with M or G
    #[arg(long, value_name = "SIZE", value_parser = mebibytes, default_value = "256")]
    size: i64,
}

/// Creates a volume.
pub async fn create(args: CreateVolumeArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let client = connect(global)?;
    let spinner = Spinner::start("creating volume");
    let ask = CreateVolume { name: args.name, size_mb: Some(args.size) };
    let volume = client.create_volume(&ask).await.map_err(advise)?;
    drop(spinner);
    if global.is_structured() {
        global.print(&volume)?;
    } else {
        output::line(&format!("{}  {} MiB", volume.name, volume.size_mb))?;
        eprintln!("use it with: pandastack sandbox create --volume {}", volume.name);
    }
    Ok(ExitCode::SUCCESS)
}
