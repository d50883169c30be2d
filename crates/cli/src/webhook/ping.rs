//! `pandastack webhook ping`

use std::process::ExitCode;

use crate::{GlobalArgs, advice::advise, output, pick::WebhookArg, spinner::Spinner};

/// Arguments of `webhook ping`.
#[derive(Debug, clap::Args)]
pub struct PingArgs {
    #[command(flatten)]
    webhook: WebhookArg,
}

/// Sends a test event. Fails if it was not delivered.
pub async fn ping(args: PingArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let (client, id) = args.webhook.find(global).await?;
    let spinner = Spinner::start("waiting for the receiver");
    let ping = client.ping_webhook(&id).await.map_err(advise)?;
    drop(spinner);
    if global.is_structured() {
        global.print(&ping)?;
    } else {
        let status = ping.attempt.status.map_or_else(|| "no response".to_owned(), |status| status.to_string());
        output::line(&format!("{status}  {} ms  {}", ping.attempt.latency_ms, ping.attempt.answer.trim_end()))?;
        if let Some(error) = &ping.attempt.error {
            eprintln!("error: {error}");
        }
    }
    Ok(if ping.delivered { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
