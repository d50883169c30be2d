//! `pandastack volume get`

use std::process::ExitCode;

use crate::{GlobalArgs, advice::advise, connect::connect, output};

/// Arguments of `volume get`.
#[derive(Debug, clap::Args)]
pub struct GetVolumeArgs {
    /// Name of the volume
    name: String,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// Shows one volume.
pub async fn get(args: GetVolumeArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let volume = connect(global)?.get_volume(&args.name).await.map_err(advise)?;
    if args.json {
        output::json(&volume)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut rows =
        vec![vec!["size".to_owned(), format!("{} MiB", volume.size_mb)], vec!["created".to_owned(), volume.created_at]];
    rows.extend(volume.attached_to.into_iter().map(|user| vec!["used by".to_owned(), user]));
    output::table(&["name", &volume.name], &rows)?;
    Ok(ExitCode::SUCCESS)
}
