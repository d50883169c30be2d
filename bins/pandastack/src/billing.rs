//! `pandastack admin billing`: usage that Stripe did not take, directly in the server's database.

use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::{Args, Subcommand};
use pandastack_client::wire::rfc3339;
use pandastack_control::{DeadFilter, DeadMeterEvent, DeadMeterEvents, RequeueReport};
use pandastack_kit::{Clock, SystemClock};
use serde_json::{Value, json};

use crate::{admin::FolderArgs, key::offline_database};

const SECOND_NS: u64 = 1_000_000_000;
const DOLLAR_MICROS: u64 = 1_000_000;

#[derive(Subcommand)]
pub enum AdminBillingCommand {
    /// List events that are not posted to Stripe any more, with the reason
    Dead(DeadArgs),
    /// Queue such events again after the cause was corrected; exit code 1 if any is left
    Requeue(RequeueArgs),
}

#[derive(Args)]
pub struct DeadArgs {
    /// List only events of this workspace
    #[arg(long, value_name = "WORKSPACE")]
    workspace: Option<String>,
    #[command(flatten)]
    folder: FolderArgs,
}

#[derive(Args)]
pub struct RequeueArgs {
    /// Identifier of one event; without it all events that Stripe refused are queued
    #[arg(conflicts_with = "workspace")]
    identifier: Option<String>,
    /// Queue only events of this workspace
    #[arg(long, value_name = "WORKSPACE")]
    workspace: Option<String>,
    #[command(flatten)]
    folder: FolderArgs,
}

impl AdminBillingCommand {
    pub async fn run(self) -> Result<ExitCode> {
        match self {
            AdminBillingCommand::Dead(args) => args.run().await,
            AdminBillingCommand::Requeue(args) => args.run().await,
        }
    }
}

impl DeadArgs {
    async fn run(self) -> Result<ExitCode> {
        let events = open(&self.folder).await?;
        let found = events.list(&self.workspace.map_or(DeadFilter::All, DeadFilter::Workspace)).await;
        events.close().await;
        let found = found.context("list events that are not posted")?;
        if self.folder.json {
            println!("{}", json!(found.iter().map(shown).collect::<Vec<_>>()));
        } else {
            found.iter().for_each(|dead| println!("{}", line(dead)));
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl RequeueArgs {
    async fn run(self) -> Result<ExitCode> {
        let filter = match (self.identifier, self.workspace) {
            (Some(identifier), _) => DeadFilter::Identifier(identifier),
            (None, Some(workspace)) => DeadFilter::Workspace(workspace),
            (None, None) => DeadFilter::All,
        };
        let events = open(&self.folder).await?;
        let report = events.requeue(&filter, SystemClock.now_ns() / SECOND_NS).await;
        events.close().await;
        let RequeueReport { queued, left } = report.context("queue events again")?;
        if let DeadFilter::Identifier(identifier) = &filter {
            let is_known = !queued.is_empty() || !left.is_empty();
            ensure!(is_known, "no event {identifier} needs this; see \"pandastack admin billing dead\"");
        }
        if self.folder.json {
            let left_shown: Vec<_> = left
                .iter()
                .map(|(dead, why)| json!({"identifier": dead.identifier, "workspace": dead.workspace, "why": why}))
                .collect();
            println!("{}", json!({"queued": queued.iter().map(shown).collect::<Vec<_>>(), "left": left_shown}));
        } else {
            queued.iter().for_each(|dead| println!("queued {}", dead.identifier));
            left.iter().for_each(|(dead, why)| println!("left {}: {why}", dead.identifier));
            println!("queued: {}, left: {}", queued.len(), left.len());
        }
        Ok(if left.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

async fn open(folder: &FolderArgs) -> Result<DeadMeterEvents> {
    let database = offline_database(&folder.data_dir)?;
    DeadMeterEvents::open(&database, SystemClock.now_ns()).await.context("open the events for Stripe")
}

fn hour(dead: &DeadMeterEvent) -> String {
    rfc3339(dead.hour.start_s().saturating_mul(SECOND_NS))
}

fn shown(dead: &DeadMeterEvent) -> Value {
    json!({
        "workspace": dead.workspace,
        "identifier": dead.identifier,
        "hour": hour(dead),
        "value_micros": dead.value,
        "reason": dead.reason,
        "text": dead.text,
    })
}

fn line(dead: &DeadMeterEvent) -> String {
    let (whole, part) = (dead.value / DOLLAR_MICROS, dead.value % DOLLAR_MICROS);
    let hour = hour(dead);
    format!("{}  {}  {hour}  ${whole}.{part:06}  {}: {}", dead.workspace, dead.identifier, dead.reason, dead.text)
}
