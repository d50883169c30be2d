//! `pandastack sandbox delete`

use std::process::ExitCode;

use clap_complete::ArgValueCompleter;

use crate::{GlobalArgs, advice::advise, complete, connect::connect, find::FoundKind, many::DeleteFormat};

/// Arguments of `sandbox delete`.
#[derive(Debug, clap::Args)]
pub struct DeleteSandboxArgs {
    /// Sandboxes: ids, unique starts of them, or names
    #[arg(required = true, value_name = "ID", add = ArgValueCompleter::new(complete::sandboxes))]
    ids: Vec<String>,
    #[command(flatten)]
    form: DeleteFormat,
}

/// Deletes each sandbox. A failure does not stop the others.
pub async fn delete(args: DeleteSandboxArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let client = connect(global)?;
    let delete = async |name: &str| {
        let id = FoundKind::Sandbox.find(&client, name).await?;
        client.delete(&id).await.map_err(advise)?;
        Ok(id)
    };
    args.form.each(global, args.ids, delete).await
}
