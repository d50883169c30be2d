//! `pandastack volume list`

use std::process::ExitCode;

use pandastack_client::wire::Volume;

use crate::{
    GlobalArgs,
    connect::connect,
    many::{ListFormat, TableFormat},
};

/// Arguments of `volume list`.
#[derive(Debug, clap::Args)]
pub struct ListVolumesArgs {
    #[command(flatten)]
    form: ListFormat,
}

/// Lists volumes.
pub async fn list(args: ListVolumesArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let client = connect(global)?;
    let head = &["NAME", "SIZE", "USED BY", "CREATED"];
    let listing = TableFormat { head, row, empty: "no volumes; create one with: pandastack volume create NAME" };
    args.form.print(global, listing, async || client.volumes().await).await
}

fn row(volume: &Volume) -> Vec<String> {
    let users = match volume.attached_to.len() {
        0 => "nobody".to_owned(),
        1 => "1 sandbox".to_owned(),
        more => format!("{more} sandboxes"),
    };
    vec![volume.name.clone(), format!("{} MiB", volume.size_mb), users, volume.created_at.clone()]
}
