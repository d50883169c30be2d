//! `pandastack template delete`

use std::process::ExitCode;

use crate::{GlobalArgs, connect::connect, many::DeleteFormat};

/// Arguments of `template delete`.
#[derive(Debug, clap::Args)]
pub struct DeleteTemplateArgs {
    /// Template names
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    #[command(flatten)]
    form: DeleteFormat,
}

/// Deletes each template. A failure does not stop the others.
pub async fn delete(args: DeleteTemplateArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let client = connect(global)?;
    args.form.each(args.names, async |name| client.delete_template(name).await).await
}
