//! `pandastack volume delete`

use std::process::ExitCode;

use crate::{GlobalArgs, connect::connect, many::DeleteForm};

/// Arguments of `volume delete`.
#[derive(Debug, clap::Args)]
pub struct DeleteArgs {
    /// Volume names
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    #[command(flatten)]
    form: DeleteForm,
}

/// Deletes each volume and its data. A failure does not stop the others.
pub async fn delete(args: DeleteArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let client = connect(global)?;
    args.form.each(args.names, async |name| client.delete_volume(name).await).await
}
