//! `pandastack sandbox delete`

use std::process::ExitCode;

use crate::{GlobalArgs, connect::connect, many::DeleteFormat};

/// Arguments of `sandbox delete`.
#[derive(Debug, clap::Args)]
pub struct DeleteSandboxArgs {
    /// Sandbox ids
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    #[command(flatten)]
    form: DeleteFormat,
}

/// Deletes each sandbox. A failure does not stop the others.
pub async fn delete(args: DeleteSandboxArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let client = connect(global)?;
    args.form.each(args.ids, async |id| client.delete(id).await).await
}
