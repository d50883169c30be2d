//! `pandastack template delete`

use std::process::ExitCode;

use crate::{GlobalArgs, connect::connect, many::DeleteForm};

/// Arguments of `template delete`.
#[derive(Debug, clap::Args)]
pub struct DeleteArgs {
    /// Template names
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    #[command(flatten)]
    form: DeleteForm,
}

/// Deletes each template. A failure does not stop the others.
pub async fn delete(args: DeleteArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let client = connect(global)?;
    args.form.each(args.names, async |name| client.delete_template(name).await).await
}
