//! `pandastack volume list`

use std::process::ExitCode;

use pandastack_client::wire::Volume;

use crate::{
    GlobalArgs,
    advice::advise,
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
    let volumes = connect(global)?.volumes().await.map_err(advise)?;
    let head = &["NAME", "SIZE", "USED BY", "CREATED"];
    args.form
        .print(&volumes, TableFormat { head, row, empty: "no volumes; create one with: pandastack volume create NAME" })
}

fn row(volume: &Volume) -> Vec<String> {
    let users = match volume.attached_to.len() {
        0 => "nobody".to_owned(),
        1 => "1 sandbox".to_owned(),
        more => format!("{more} sandboxes"),
    };
    vec![volume.name.clone(), format!("{} MiB", volume.size_mb), users, volume.created_at.clone()]
}
