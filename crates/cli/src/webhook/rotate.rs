//! `pandastack webhook rotate`

use std::process::ExitCode;

use pandastack_client::wire::RotateSecret;

use crate::{GlobalArgs, advice::advise, connect::connect, output};

/// Arguments of `webhook rotate`.
#[derive(Debug, clap::Args)]
pub struct RotateArgs {
    /// Webhook id
    id: String,
    /// How many seconds the old secret stays valid; one day by default
    #[arg(long, value_name = "SECONDS")]
    grace: Option<i64>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// Creates a new secret.
pub async fn rotate(args: RotateArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let ask = RotateSecret { grace_seconds: args.grace };
    let webhook = connect(global)?.rotate_webhook(&args.id, &ask).await.map_err(advise)?;
    if args.json {
        output::json(&webhook)?;
        return Ok(ExitCode::SUCCESS);
    }
    output::line(webhook.secret.as_deref().unwrap_or_default())?;
    if let Some(until) = webhook.old_secret_expires_at {
        eprintln!("deliveries are also signed with the old secret until {until}");
    }
    Ok(ExitCode::SUCCESS)
}
