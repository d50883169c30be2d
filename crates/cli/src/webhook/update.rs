//! `pandastack webhook update`

use std::process::ExitCode;

use pandastack_client::wire::ChangeWebhook;

use super::get::show;
use crate::{GlobalArgs, advice::advise, pick::WebhookArg};

/// Arguments of `webhook update`.
#[derive(Debug, clap::Args)]
pub struct UpdateArgs {
    #[command(flatten)]
    webhook: WebhookArg,
    /// New URL that events are sent to
    #[arg(long)]
    url: Option<String>,
    /// New list of events; may be repeated
    #[arg(long = "event", short, value_name = "KIND")]
    events: Vec<String>,
    /// What the webhook is for
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Enable it
    #[arg(long, conflicts_with = "disable")]
    enable: bool,
    /// Disable it; waiting deliveries are kept
    #[arg(long)]
    disable: bool,
}

/// Changes a webhook.
pub async fn update(args: UpdateArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let UpdateArgs { webhook, url, events, description, enable, disable } = args;
    let events = (!events.is_empty()).then_some(events);
    let enabled = (enable || disable).then_some(enable);
    let ask = ChangeWebhook { url, events, description, enabled };
    let (client, id) = webhook.find(global).await?;
    let webhook = client.change_webhook(&id, &ask).await.map_err(advise)?;
    if global.is_structured() {
        global.print(&webhook)?;
    } else {
        show(&webhook)?;
    }
    Ok(ExitCode::SUCCESS)
}
