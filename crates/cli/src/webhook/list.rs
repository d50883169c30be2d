//! `pandastack webhook list`

use std::process::ExitCode;

use pandastack_client::wire::Webhook;

use crate::{GlobalArgs, advice::advise, connect::connect, output};

/// Arguments of `webhook list`.
#[derive(Debug, clap::Args)]
pub struct ListArgs {
    /// Print as JSON
    #[arg(long, conflicts_with = "quiet")]
    json: bool,
    /// Print only ids
    #[arg(long, short)]
    quiet: bool,
}

/// Lists webhooks.
pub async fn list(args: ListArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let webhooks = connect(global)?.webhooks().await.map_err(advise)?;
    if args.json {
        output::json(&webhooks)?;
    } else if args.quiet {
        for webhook in &webhooks {
            output::line(&webhook.id)?;
        }
    } else if webhooks.is_empty() {
        eprintln!("no webhooks; make one with: pandastack webhook create URL");
    } else {
        let rows: Vec<_> = webhooks.iter().map(row).collect();
        output::table(&["ID", "STATE", "EVENTS", "URL"], &rows)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn row(webhook: &Webhook) -> Vec<String> {
    vec![webhook.id.clone(), state(webhook).to_owned(), webhook.events.join(","), webhook.url.clone()]
}

/// How a webhook is, in one word.
pub fn state(webhook: &Webhook) -> &'static str {
    match (webhook.enabled, &webhook.failing_since) {
        (false, _) => "off",
        (true, Some(_)) => "failing",
        (true, None) => "on",
    }
}
