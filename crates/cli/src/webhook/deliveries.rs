//! `pandastack webhook deliveries`

use std::process::ExitCode;

use clap_complete::ArgValueCompleter;
use pandastack_client::wire::Delivery;

use crate::{
    GlobalArgs, complete,
    connect::connect,
    find::FoundKind,
    many::{ListFormat, TableFormat},
};

/// Arguments of `webhook deliveries`.
#[derive(Debug, clap::Args)]
pub struct DeliveriesArgs {
    /// Webhook: its id, a unique start of it, its URL or its description
    #[arg(required_unless_present = "dead_letters", add = ArgValueCompleter::new(complete::webhooks))]
    id: Option<String>,
    /// Show only deliveries that are pending, failed (to be retried), delivered or dead
    #[arg(long, value_name = "STATUS")]
    status: Option<String>,
    /// Show the failed deliveries of all webhooks that are no longer retried
    #[arg(long, conflicts_with_all = ["id", "status"])]
    dead_letters: bool,
    #[command(flatten)]
    form: ListFormat,
}

/// Lists deliveries, newest first.
pub async fn deliveries(args: DeliveriesArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let client = connect(global)?;
    let id = match &args.id {
        Some(id) => Some(FoundKind::Webhook.find(&client, id).await?),
        None => None,
    };
    let head = &["ID", "EVENT", "STATUS", "TRIES", "LAST", "CREATED"];
    let list = async || match &id {
        Some(id) => client.deliveries(id, args.status.as_deref()).await,
        None => client.dead_letters().await,
    };
    args.form.print(global, TableFormat { head, row, empty: "no deliveries" }, list).await
}

fn row(delivery: &Delivery) -> Vec<String> {
    let last = delivery.attempts.last().map_or_else(String::new, |attempt| match (&attempt.error, attempt.status) {
        (Some(error), _) => error.chars().take(60).collect(),
        (None, status) => status.map(|status| status.to_string()).unwrap_or_default(),
    });
    let tries = delivery.attempts.len().to_string();
    let Delivery { id, kind, status, created_at, .. } = delivery.clone();
    vec![id, kind, status, tries, last, created_at]
}
