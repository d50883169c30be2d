//! `pandastack volume delete`

use std::process::ExitCode;

use clap_complete::ArgValueCompleter;

use crate::{GlobalArgs, complete, connect::connect, find::FoundKind, many::DeleteFormat};

/// Arguments of `volume delete`.
#[derive(Debug, clap::Args)]
pub struct DeleteVolumeArgs {
    /// Volumes: names, or unique starts of them
    #[arg(required = true, value_name = "NAME", add = ArgValueCompleter::new(complete::volumes))]
    names: Vec<String>,
    #[command(flatten)]
    form: DeleteFormat,
}

/// Deletes each volume and its data. A failure does not stop the others.
pub async fn delete(args: DeleteVolumeArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let client = connect(global)?;
    let delete = async |name: &str| {
        let delete = async |name: &str| client.delete_volume(name).await.map(|()| name.to_owned());
        FoundKind::Volume.call(&client, name, delete).await
    };
    args.form.each(global, args.names, delete).await
}
