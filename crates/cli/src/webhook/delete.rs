//! `pandastack webhook delete`

use std::process::ExitCode;

use clap_complete::ArgValueCompleter;

use crate::{GlobalArgs, advice::advise, complete, connect::connect, find::FoundKind, many::DeleteFormat};

/// Arguments of `webhook delete`.
#[derive(Debug, clap::Args)]
pub struct DeleteWebhookArgs {
    /// Webhooks: ids, unique starts of them, URLs or descriptions
    #[arg(required = true, value_name = "ID", add = ArgValueCompleter::new(complete::webhooks))]
    ids: Vec<String>,
    #[command(flatten)]
    form: DeleteFormat,
}

/// Deletes each webhook. A failure does not stop the others.
pub async fn delete(args: DeleteWebhookArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let client = connect(global)?;
    let delete = async |name: &str| {
        let id = FoundKind::Webhook.find(&client, name).await?;
        client.delete_webhook(&id).await.map_err(advise)?;
        Ok(id)
    };
    args.form.each(global, args.ids, delete).await
}
