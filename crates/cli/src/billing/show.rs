//! `pandastack billing show`

use std::process::ExitCode;

use pandastack_client::wire::{Bill, BilledSubscription, WorkspaceBudget};

use super::{
    UsageOwner,
    amount::{hours, usd, used_of},
};
use crate::{GlobalArgs, advice::advise, output};

/// Shows the bill of this month.
pub async fn show(global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let UsageOwner { client, org } = UsageOwner::find(global).await?;
    let bill = client.bill(org.as_deref()).await.map_err(advise)?;
    if global.is_structured() {
        global.print(&bill)?;
        return Ok(ExitCode::SUCCESS);
    }
    let Bill { workspace, plan, period_start, period_end, .. } = &bill;
    output::line(&format!("workspace {workspace}, plan {plan}, {period_start} to {period_end}"))?;
    output::table(&["PART", "USED", "COST"], &parts(&bill))?;
    output::line("")?;
    output::table(&["credit", &credit(&bill)], &facts(&bill))?;
    Ok(ExitCode::SUCCESS)
}

/// The rows about usage.
pub fn parts(bill: &Bill) -> Vec<Vec<String>> {
    let row = |part: &str, used: String, cost| vec![part.to_owned(), used, usd(cost)];
    let used = |seconds, unit| format!("{} {unit} hours", hours(seconds));
    vec![
        row("CPU", used(bill.mtd_vcpu_seconds, "vCPU"), bill.mtd_vcpu_cost_usd),
        row("memory", used(bill.mtd_memory_gib_seconds, "GiB"), bill.mtd_memory_cost_usd),
        row("storage", used(bill.mtd_storage_gib_seconds, "GiB"), bill.mtd_storage_cost_usd),
        row("total", String::new(), bill.mtd_cost_usd),
    ]
}

/// How much of the plan's credit is used.
pub fn credit(bill: &Bill) -> String {
    if bill.credit_usd > 0.0 { used_of(bill.credit_used_usd, bill.credit_usd) } else { "none".to_owned() }
}

/// The rows below the credit.
pub fn facts(bill: &Bill) -> Vec<Vec<String>> {
    let subscription = match &bill.subscription {
        Some(subscription) => Some(subscribed(subscription)),
        None if bill.billing_enabled => Some("none; buy a plan with: pandastack billing buy PLAN".to_owned()),
        None => None,
    };
    let rows = [
        ("charged", Some(usd(bill.mtd_charged_usd))),
        ("budget", Some(budgeted(bill))),
        ("subscription", subscription),
        ("hold", bill.hold.as_ref().map(|code| held(code, bill.hold_reason.as_deref()))),
        ("Stripe", stripe(bill)),
    ];
    rows.into_iter().filter_map(|(name, value)| Some(vec![name.to_owned(), value?])).collect()
}

/// Writes the terms of a budget.
pub fn terms(budget: &WorkspaceBudget) -> String {
    let at_limit = if budget.hard_cap { "hard cap" } else { "no hard cap" };
    format!("alert at {}%, {at_limit}", budget.alert_percent)
}

fn budgeted(bill: &Bill) -> String {
    let Some(budget) = &bill.budget else {
        return "none; set one with: pandastack billing budget --monthly USD".to_owned();
    };
    // The server compares all cost above the credit, also from before a subscription.
    let counted = (bill.mtd_cost_usd - bill.credit_used_usd).max(0.0);
    format!("{}, {}", used_of(counted, budget.monthly_usd), terms(budget))
}

fn subscribed(subscription: &BilledSubscription) -> String {
    let BilledSubscription { status, plan, period_end, cancel_at_period_end, grace_until } = subscription;
    let change = if *cancel_at_period_end { "ends" } else { "paid until" };
    [
        Some(status.clone()),
        plan.as_ref().map(|plan| format!("plan {plan}")),
        period_end.as_ref().map(|end| format!("{change} {end}")),
        grace_until.as_ref().map(|until| format!("unpaid: read-only from {until}; use: pandastack billing portal")),
    ]
    .into_iter()
    .flatten()
    .collect::<Vec<_>>()
    .join(", ")
}

fn held(code: &str, reason: Option<&str>) -> String {
    format!("nothing new starts: {} ({code})", reason.unwrap_or("the server gave no reason"))
}

fn stripe(bill: &Bill) -> Option<String> {
    if !bill.billing_enabled {
        return Some("not connected: no payments on this server".to_owned());
    }
    let (pending, dead) = (bill.meter_events_pending, bill.meter_events_dead);
    match (pending, dead) {
        (0, 0) => None,
        (pending, 0) => Some(format!("events to post: {pending}")),
        (pending, dead) => Some(format!("events to post: {pending}; events that need the operator: {dead}")),
    }
}
