//! Prices, bills, usage and budgets. Amounts are dollars.

use serde::{Deserialize, Serialize};

/// What usage costs, and the plans.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pricing {
    /// Prices under the plan that a new workspace gets.
    pub rates: UsageRates,
    /// All plans, the smallest first.
    pub tiers: Vec<PricingTier>,
}

/// Prices of usage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct UsageRates {
    /// One CPU for a second.
    pub vcpu_usd_per_second: f64,
    /// One GiB of memory for a second.
    pub memory_usd_per_gib_second: f64,
    /// One GiB of disk, volume or database for a month.
    pub volume_usd_per_gib_month: f64,
}

/// A plan. A limit of null means that there is none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct PricingTier {
    pub name: String,
    /// The basic price of a month.
    pub monthly_usd: f64,
    /// Usage of a month that costs nothing.
    pub credit_usd: f64,
    /// Whether usage above the credit is charged. Otherwise sandboxes stop.
    pub overage: bool,
    /// Storage that costs nothing.
    pub storage_included_gib: u64,
    pub rates: UsageRates,
    pub max_sandboxes: Option<u64>,
    pub max_cpu_total: Option<u64>,
    pub max_memory_mb_total: Option<u64>,
    pub max_volumes: Option<u64>,
    pub max_volume_size_gib: Option<u64>,
    pub max_volume_total_gib: Option<u64>,
    pub hourly_create_limit: Option<u64>,
    pub ttl_seconds_max: Option<u64>,
}

/// What a workspace used and costs in this calendar month (UTC).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Bill {
    pub workspace: String,
    pub plan: String,
    /// First and last day of the month.
    pub period_start: String,
    pub period_end: String,
    pub mtd_vcpu_seconds: f64,
    pub mtd_memory_gib_seconds: f64,
    pub mtd_storage_gib_seconds: f64,
    /// All usage of the month so far, storage included.
    pub mtd_cost_usd: f64,
    pub mtd_vcpu_cost_usd: f64,
    pub mtd_memory_cost_usd: f64,
    /// Only storage above the amount that the plan includes.
    pub mtd_storage_cost_usd: f64,
    /// The plan's credit for a month, and how much of it is used.
    pub credit_usd: f64,
    pub credit_used_usd: f64,
    /// What is charged: cost minus credit.
    pub mtd_charged_usd: f64,
    pub budget: Option<WorkspaceBudget>,
    /// Why nothing new may start: `billing.budget` or `billing.unpaid`. Null if it may.
    pub hold: Option<String>,
    /// The same as text.
    pub hold_reason: Option<String>,
    /// Null without a subscription.
    pub subscription: Option<BilledSubscription>,
    /// Whether the server is connected to Stripe.
    pub billing_enabled: bool,
    /// Hours of usage that are not yet posted to Stripe, and those that need the operator.
    pub meter_events_pending: u64,
    pub meter_events_dead: u64,
}

/// A subscription at Stripe.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct BilledSubscription {
    /// Stripe's word, such as `active` or `past_due`.
    pub status: String,
    pub plan: Option<String>,
    /// End of the paid period.
    pub period_end: Option<String>,
    pub cancel_at_period_end: bool,
    /// When an unpaid subscription makes the workspace read-only.
    pub grace_until: Option<String>,
}

/// A workspace's own limit for the cost of a month.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkspaceBudget {
    /// What may be charged in a month.
    pub monthly_usd: f64,
    /// Share of the budget from which an alert is sent, in percent. 80 if it is not named.
    #[serde(default = "alert_percent")]
    pub alert_percent: u8,
    /// Whether sandboxes are put to sleep, and nothing new starts, when the budget is used up.
    #[serde(default)]
    pub hard_cap: bool,
}

fn alert_percent() -> u8 {
    80
}

/// Usage in some days, split by day, template, sandbox or member.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct UsageReport {
    pub workspace: String,
    /// `day`, `template`, `sandbox` or `member`.
    pub by: String,
    /// First and last day.
    pub from: String,
    pub to: String,
    /// At most 10,000 rows, those with the highest cost. Days are in order.
    pub rows: Vec<UsageRow>,
    pub total: UsageRow,
}

/// One row of a report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct UsageRow {
    /// A day, the name of a template, or the id of a sandbox, volume or member. The volume of a
    /// database or fork counts with it.
    pub key: String,
    /// What the id stands for: the template of a sandbox, the e-mail address of a member.
    pub label: String,
    pub vcpu_seconds: f64,
    pub memory_gib_seconds: f64,
    pub storage_gib_seconds: f64,
    /// At the prices of the plan, before credit and included storage.
    pub cost_usd: f64,
}

/// Asks for a page at Stripe to buy a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BuyPlan {
    /// `pro` or `team`.
    pub plan: String,
    /// `month` (default) or `year`.
    #[serde(default)]
    pub interval: Option<String>,
}

/// A page at Stripe for a browser.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BillingPage {
    pub url: String,
}

/// What a flush of the meter queue did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct MeterFlush {
    pub posted: u64,
    pub pending: u64,
}
