//! `pandastack webhook create`

use std::process::ExitCode;

use pandastack_client::wire::CreateWebhook;

use crate::{GlobalArgs, advice::advise, connect::connect, output};

/// Arguments of `webhook create`.
#[derive(Debug, clap::Args)]
pub struct CreateWebhookArgs {
    /// URL that events are sent to
    url: String,
    /// Events to send: a kind, sandbox.* or *; may be repeated
    #[arg(long = "event", short, value_name = "KIND", default_value = "*")]
    events: Vec<String>,
    /// What the webhook is for
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Create it disabled
    #[arg(long)]
    disabled: bool,
}

/// Subscribes a URL to events.
pub async fn create(args: CreateWebhookArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let CreateWebhookArgs { url, events, description, disabled } = args;
    let ask = CreateWebhook { url, events, description, enabled: disabled.then_some(false) };
    let webhook = connect(global)?.create_webhook(&ask).await.map_err(advise)?;
    if global.is_structured() {
        global.print(&webhook)?;
    } else {
        output::line(&format!("{}  {}", webhook.id, webhook.secret.as_deref().unwrap_or_default()))?;
        eprintln!("the secret is shown only once; test the webhook with: pandastack webhook ping {}", webhook.id);
    }
    Ok(ExitCode::SUCCESS)
}
