//! `pandastack volume get`

use std::process::ExitCode;

use crate::{GlobalArgs, connect::connect, find::FoundKind, output, pick::VolumeArg};

/// Arguments of `volume get`.
#[derive(Debug, clap::Args)]
pub struct GetVolumeArgs {
    #[command(flatten)]
    volume: VolumeArg,
}

/// Shows one volume.
pub async fn get(args: GetVolumeArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let client = connect(global)?;
    let get = async |name: &str| client.get_volume(name).await;
    let volume = FoundKind::Volume.call(&client, &args.volume.name, get).await?;
    if global.is_structured() {
        global.print(&volume)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut rows =
        vec![vec!["size".to_owned(), format!("{} MiB", volume.size_mb)], vec!["created".to_owned(), volume.created_at]];
    let owner = volume.sandbox_id.map(|id| format!("sandbox {id}, with which it is deleted"));
    rows.extend(owner.map(|owner| vec!["belongs to".to_owned(), owner]));
    rows.extend(volume.attached_to.into_iter().map(|user| vec!["used by".to_owned(), user]));
    output::table(&["name", &volume.name], &rows)?;
    Ok(ExitCode::SUCCESS)
}
