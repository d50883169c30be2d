//! `pandastack webhook list`

use std::process::ExitCode;

use pandastack_client::wire::Webhook;

use crate::{
    GlobalArgs,
    connect::connect,
    many::{ListFormat, TableFormat},
};

/// Arguments of `webhook list`.
#[derive(Debug, clap::Args)]
pub struct ListWebhooksArgs {
    #[command(flatten)]
    form: ListFormat,
}

/// Lists webhooks.
pub async fn list(args: ListWebhooksArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let client = connect(global)?;
    let head = &["ID", "STATE", "EVENTS", "URL"];
    let listing = TableFormat { head, row, empty: "no webhooks; create one with: pandastack webhook create URL" };
    args.form.print(global, listing, async || client.webhooks().await).await
}

fn row(webhook: &Webhook) -> Vec<String> {
    vec![webhook.id.clone(), state(webhook).to_owned(), webhook.events.join(","), webhook.url.clone()]
}

/// The state of a webhook.
pub fn state(webhook: &Webhook) -> &'static str {
    match (webhook.enabled, &webhook.failing_since) {
        (false, _) => "off",
        (true, Some(_)) => "failing",
        (true, None) => "on",
    }
}
