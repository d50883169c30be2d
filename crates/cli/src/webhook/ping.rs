//! `pandastack webhook ping`

use std::process::ExitCode;

use crate::{GlobalArgs, advice::advise, connect::connect, output, spinner::Spinner};

/// Arguments of `webhook ping`.
#[derive(Debug, clap::Args)]
pub struct PingArgs {
    /// Webhook id
    id: String,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// Sends a test event. Fails if it was not delivered.
pub async fn ping(args: PingArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let client = connect(global)?;
    let spinner = Spinner::start("waiting for the receiver");
    let ping = client.ping_webhook(&args.id).await.map_err(advise)?;
    drop(spinner);
    if args.json {
        output::json(&ping)?;
    } else {
        let status = ping.attempt.status.map_or_else(|| "no response".to_owned(), |status| status.to_string());
        output::line(&format!("{status}  {} ms  {}", ping.attempt.latency_ms, ping.attempt.answer.trim_end()))?;
        if let Some(error) = &ping.attempt.error {
            eprintln!("error: {error}");
        }
    }
    Ok(if ping.delivered { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
