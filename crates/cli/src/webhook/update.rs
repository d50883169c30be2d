//! `pandastack webhook update`

use std::process::ExitCode;

use pandastack_client::wire::ChangeWebhook;

use super::get::show;
use crate::{GlobalArgs, advice::advise, connect::connect, output};

/// Arguments of `webhook update`.
#[derive(Debug, clap::Args)]
pub struct UpdateArgs {
    /// Webhook id
    id: String,
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
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// Changes a webhook.
pub async fn update(args: UpdateArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let UpdateArgs { id, url, events, description, enable, disable, json } = args;
    let events = (!events.is_empty()).then_some(events);
    let enabled = (enable || disable).then_some(enable);
    let ask = ChangeWebhook { url, events, description, enabled };
    let webhook = connect(global)?.change_webhook(&id, &ask).await.map_err(advise)?;
    if json {
        output::json(&webhook)?;
    } else {
        show(&webhook)?;
    }
    Ok(ExitCode::SUCCESS)
}
