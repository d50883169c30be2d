//! `pandastack volume delete`

use std::process::ExitCode;

use crate::{GlobalArgs, connect::connect, many::DeleteFormat};

/// Arguments of `volume delete`.
#[derive(Debug, clap::Args)]
pub struct DeleteVolumeArgs {
    /// Volume names
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    #[command(flatten)]
    form: DeleteFormat,
}

/// Deletes each volume and its data. A failure does not stop the others.
pub async fn delete(args: DeleteVolumeArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let client = connect(global)?;
    args.form.each(args.names, async |name| client.delete_volume(name).await).await
}
