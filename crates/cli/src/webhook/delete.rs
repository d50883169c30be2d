//! `pandastack webhook delete`

use std::process::ExitCode;

use crate::{GlobalArgs, connect::connect, many::DeleteFormat};

/// Arguments of `webhook delete`.
#[derive(Debug, clap::Args)]
pub struct DeleteWebhookArgs {
    /// Webhook ids
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    #[command(flatten)]
    form: DeleteFormat,
}

/// Deletes each webhook. A failure does not stop the others.
pub async fn delete(args: DeleteWebhookArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let client = connect(global)?;
    args.form.each(args.ids, async |id| client.delete_webhook(id).await).await
}
