//! `pandastack pricing`

use std::process::ExitCode;

use pandastack_client::wire::{PricingTier, UsageRates};

use super::amount::usd;
use crate::{GlobalArgs, advice::advise, connect::connect_stranger, output};

const HEAD: [&str; 10] =
    ["PLAN", "MONTH", "CREDIT", "ABOVE CREDIT", "STORAGE", "SANDBOXES", "CPUS", "MEMORY", "VOLUMES", "CREATES/HOUR"];
const HOUR_SECONDS: f64 = 3600.0;
const GIB_MB: f64 = 1024.0;

/// Shows prices and plans. Works without a key.
pub async fn pricing(global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let pricing = connect_stranger(global)?.pricing().await.map_err(advise)?;
    if global.is_structured() {
        global.print(&pricing)?;
        return Ok(ExitCode::SUCCESS);
    }
    output::table(&["USAGE", "PRICE", ""], &rates(&pricing.rates))?;
    output::line("")?;
    output::table(&HEAD, &pricing.tiers.iter().map(plan).collect::<Vec<_>>())?;
    Ok(ExitCode::SUCCESS)
}

/// The rows about prices. Prices of a second are shown for an hour.
pub fn rates(rates: &UsageRates) -> Vec<Vec<String>> {
    let row = |what: &str, price, unit: &str| vec![what.to_owned(), usd(price), unit.to_owned()];
    vec![
        row("CPU", rates.vcpu_usd_per_second * HOUR_SECONDS, "per vCPU hour"),
        row("memory", rates.memory_usd_per_gib_second * HOUR_SECONDS, "per GiB hour"),
        row("storage", rates.volume_usd_per_gib_month, "per GiB month"),
    ]
}

/// The row of a plan.
pub fn plan(tier: &PricingTier) -> Vec<String> {
    let most = |limit: Option<u64>| limit.map_or_else(|| "no limit".to_owned(), |limit| limit.to_string());
    let memory =
        tier.max_memory_mb_total.map_or_else(|| "no limit".to_owned(), |mb| format!("{} GiB", mb as f64 / GIB_MB));
    vec![
        tier.name.clone(),
        usd(tier.monthly_usd),
        usd(tier.credit_usd),
        if tier.overage { "charged" } else { "stops" }.to_owned(),
        format!("{} GiB", tier.storage_included_gib),
        most(tier.max_sandboxes),
        most(tier.max_cpu_total),
        memory,
        most(tier.max_volumes),
        most(tier.hourly_create_limit),
    ]
}
