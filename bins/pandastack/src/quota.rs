//! `pandastack admin quota`: plans and limits of workspaces, directly in the server's database.

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use pandastack_control::{BUILT_IN_PLANS, PlanName, QuotaLimit, RequestRate, WorkspacePlan, WorkspacePlans};
use pandastack_kit::{Clock, SystemClock};
use serde_json::{Value, json};

use crate::{admin::FolderArgs, key::offline_database};

#[derive(Subcommand)]
pub enum AdminQuotaCommand {
    /// List workspaces with their plans and own limits
    List(FolderArgs),
    /// Change the plan or limits of a workspace; a running server uses them within half a minute
    Set(Box<SetQuotaArgs>),
    /// Print the built-in plans, to be edited and given to "pandastack up --plans"
    Plans,
}

#[derive(Args)]
pub struct SetQuotaArgs {
    /// The workspace, which is the slug of its organisation
    workspace: String,
    /// Plan: free, pro, team, custom, or default for that of the server
    #[arg(long)]
    plan: Option<String>,
    /// Forget all limits that replace those of the plan
    #[arg(long)]
    reset: bool,
    /// Sandboxes at the same time; a number or unlimited
    #[arg(long, value_name = "COUNT", value_parser = parse_limit)]
    max_sandboxes: Option<QuotaLimit>,
    /// CPUs of all sandboxes that are not asleep
    #[arg(long, value_name = "COUNT", value_parser = parse_limit)]
    max_cpu_total: Option<QuotaLimit>,
    /// Memory of all sandboxes that are not asleep, in MiB
    #[arg(long, value_name = "MIB", value_parser = parse_limit)]
    max_memory_mb_total: Option<QuotaLimit>,
    /// Disks of all sandboxes, in GiB
    #[arg(long, value_name = "GIB", value_parser = parse_limit)]
    max_disk_gib_total: Option<QuotaLimit>,
    /// Template builds at the same time
    #[arg(long, value_name = "COUNT", value_parser = parse_limit)]
    builds_concurrent_max: Option<QuotaLimit>,
    /// Requests and streams at the same time
    #[arg(long, value_name = "COUNT", value_parser = parse_limit)]
    connections_max: Option<QuotaLimit>,
    /// Requests per second in the long run, and at once after a pause, as 50,100
    #[arg(long, value_name = "PER_SECOND,BURST", value_parser = parse_rate)]
    rate: Option<RequestRate>,
    /// Sandboxes that may be created in 60 minutes
    #[arg(long, value_name = "COUNT", value_parser = parse_limit)]
    hourly_create_limit: Option<QuotaLimit>,
    /// Volumes
    #[arg(long, value_name = "COUNT", value_parser = parse_limit)]
    max_volumes: Option<QuotaLimit>,
    /// Size of one volume, in GiB
    #[arg(long, value_name = "GIB", value_parser = parse_limit)]
    max_volume_size_gib: Option<QuotaLimit>,
    /// Size of all volumes together, in GiB
    #[arg(long, value_name = "GIB", value_parser = parse_limit)]
    max_volume_total_gib: Option<QuotaLimit>,
    /// Longest idle time of a sandbox, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = parse_limit)]
    ttl_seconds_max: Option<QuotaLimit>,
    #[command(flatten)]
    folder: FolderArgs,
}

fn parse_limit(text: &str) -> Result<QuotaLimit> {
    match text {
        "unlimited" => Ok(QuotaLimit::Unlimited),
        number => Ok(QuotaLimit::AtMost(number.parse().context("write a whole number, or unlimited")?)),
    }
}

fn parse_rate(text: &str) -> Result<RequestRate> {
    let (per_second, burst) = text.split_once(',').context("write two numbers, such as 50,100")?;
    let number = |text: &str| text.trim().parse().context("write two whole numbers, such as 50,100");
    Ok(RequestRate { per_second: number(per_second)?, burst: number(burst)? })
}

impl AdminQuotaCommand {
    pub async fn run(self) -> Result<ExitCode> {
        match self {
            AdminQuotaCommand::List(folder) => list(&folder).await,
            AdminQuotaCommand::Set(args) => args.run().await,
            AdminQuotaCommand::Plans => {
                print!("{BUILT_IN_PLANS}");
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

async fn open(folder: &FolderArgs) -> Result<WorkspacePlans> {
    let database = offline_database(&folder.data_dir)?;
    WorkspacePlans::open(&database, SystemClock.now_ns()).await.context("open the plans of workspaces")
}

async fn list(folder: &FolderArgs) -> Result<ExitCode> {
    let plans = open(folder).await?;
    let found = plans.list().await;
    plans.close().await;
    let found = found.context("list the plans of workspaces")?;
    if folder.json {
        println!("{}", json!(found.iter().map(shown).collect::<Vec<_>>()));
    } else {
        found.iter().for_each(|plan| println!("{}", line(plan)));
    }
    Ok(ExitCode::SUCCESS)
}

impl SetQuotaArgs {
    async fn run(self) -> Result<ExitCode> {
        let plan = match self.plan.as_deref() {
            None => None,
            Some("default") => Some(None),
            Some(name) => Some(Some(name.parse::<PlanName>()?.to_string())),
        };
        let plans = open(&self.folder).await?;
        let changed = plans
            .change(&self.workspace, |stored| {
                if let Some(plan) = plan {
                    stored.plan = plan;
                }
                if self.reset {
                    stored.own = Default::default();
                }
                let own = &mut stored.own;
                own.max_sandboxes = self.max_sandboxes.or(own.max_sandboxes);
                own.max_cpu_total = self.max_cpu_total.or(own.max_cpu_total);
                own.max_memory_mb_total = self.max_memory_mb_total.or(own.max_memory_mb_total);
                own.max_disk_gib_total = self.max_disk_gib_total.or(own.max_disk_gib_total);
                own.builds_concurrent_max = self.builds_concurrent_max.or(own.builds_concurrent_max);
                own.connections_max = self.connections_max.or(own.connections_max);
                own.rate = self.rate.or(own.rate);
                own.hourly_create_limit = self.hourly_create_limit.or(own.hourly_create_limit);
                own.max_volumes = self.max_volumes.or(own.max_volumes);
                own.max_volume_size_gib = self.max_volume_size_gib.or(own.max_volume_size_gib);
                own.max_volume_total_gib = self.max_volume_total_gib.or(own.max_volume_total_gib);
                own.ttl_seconds_max = self.ttl_seconds_max.or(own.ttl_seconds_max);
            })
            .await;
        plans.close().await;
        let changed = changed.context("change the limits of a workspace")?;
        if self.folder.json {
            println!("{}", shown(&changed));
        } else {
            println!("{}", line(&changed));
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn shown(plan: &WorkspacePlan) -> Value {
    json!({"workspace": plan.workspace, "plan": plan.plan, "limits": plan.own})
}

fn line(plan: &WorkspacePlan) -> String {
    let own = json!(plan.own);
    let own: Vec<_> = own.as_object().into_iter().flatten().map(|(name, limit)| format!("{name}={limit}")).collect();
    format!("{}  {}  {}", plan.workspace, plan.plan.as_deref().unwrap_or("default"), own.join(" "))
}
