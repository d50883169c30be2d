//! `pandastack webhook get`

use std::process::ExitCode;

use pandastack_client::wire::Webhook;

use super::list::state;
use crate::{GlobalArgs, advice::advise, output, pick::WebhookArg};

/// Arguments of `webhook get`.
#[derive(Debug, clap::Args)]
pub struct GetWebhookArgs {
    #[command(flatten)]
    webhook: WebhookArg,
}

/// Shows one webhook.
pub async fn get(args: GetWebhookArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let (client, id) = args.webhook.find(global).await?;
    let webhook = client.get_webhook(&id).await.map_err(advise)?;
    if global.is_structured() {
        global.print(&webhook)?;
    } else {
        show(&webhook)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints all fields of a webhook.
pub fn show(webhook: &Webhook) -> anyhow::Result<()> {
    let dropped = (webhook.dropped > 0).then(|| webhook.dropped.to_string());
    let description = Some(webhook.description.clone()).filter(|text| !text.is_empty());
    let rows = [
        ("url", Some(webhook.url.clone())),
        ("events", Some(webhook.events.join(", "))),
        ("state", Some(state(webhook).to_owned())),
        ("why", webhook.disabled_reason.clone()),
        ("about", description),
        ("failing since", webhook.failing_since.clone()),
        ("dropped", dropped),
        ("old secret until", webhook.old_secret_expires_at.clone()),
        ("created", Some(webhook.created_at.clone())),
    ];
    let row = |(name, value): (&str, Option<String>)| value.map(|value| vec![name.to_owned(), value]);
    output::table(&["id", &webhook.id], &rows.into_iter().filter_map(row).collect::<Vec<_>>())
}
