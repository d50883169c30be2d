//! `pandastack webhook rotate`

use std::process::ExitCode;

use pandastack_client::wire::RotateSecret;

use crate::{GlobalArgs, advice::advise, output, pick::WebhookArg};

/// Arguments of `webhook rotate`.
#[derive(Debug, clap::Args)]
pub struct RotateArgs {
    #[command(flatten)]
    webhook: WebhookArg,
    /// How many seconds the old secret stays valid; one day by default
    #[arg(long, value_name = "SECONDS")]
    grace: Option<i64>,
}

/// Creates a new secret.
pub async fn rotate(args: RotateArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let ask = RotateSecret { grace_seconds: args.grace };
    let (client, id) = args.webhook.find(global).await?;
    let webhook = client.rotate_webhook(&id, &ask).await.map_err(advise)?;
    if global.is_structured() {
        global.print(&webhook)?;
        return Ok(ExitCode::SUCCESS);
    }
    output::line(webhook.secret.as_deref().unwrap_or_default())?;
    if let Some(until) = webhook.old_secret_expires_at {
        eprintln!("deliveries are also signed with the old secret until {until}");
    }
    Ok(ExitCode::SUCCESS)
}
