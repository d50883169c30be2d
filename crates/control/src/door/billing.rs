//! Prices, usage, bills and budgets, and the events of Stripe.

use std::collections::BTreeMap;

use axum::{
    Json,
    body::Body,
    extract::{Path, State, rejection::PathRejection},
    http::{HeaderMap, HeaderValue, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use pandastack_billing::{
    CalendarWindow, OveragePolicy, PicoDollars, PlanPrices, Standing, UsageTotals, UtcDay, UtcMonth,
};
use pandastack_door::http::{Answer, json_body, public_base, query_value, whole_body};
use pandastack_model::{Fault, FaultKind};
use pandastack_wire_fleet::WorkspaceId;
use pandastack_wire_public::{
    Bill, BilledSubscription, BillingPage, BuyPlan, MeterFlush, Pricing, PricingTier, UsageRates, UsageReport,
    UsageRow, WorkspaceBudget, parse_rfc3339, rfc3339,
};

use serde::de::IgnoredAny;

use super::caller::{Authenticated, Person};
use crate::{
    Control,
    app::{DaysUsage, MonthBill, STRIPE_EVENT_BYTES_MAX, UsageQuestion, dollars, list_price},
    store::UsageSplit,
};

type OnePath = Result<Path<String>, PathRejection>;

const SECOND_NS: u64 = 1_000_000_000;

/// Shows the prices and the plans.
pub async fn pricing(State(control): State<Control>) -> Json<Pricing> {
    let plans = &control.settings.plans;
    let tiers = plans.all().iter().map(|plan| {
        let (limits, prices) = (&plan.limits, &plan.prices);
        PricingTier {
            name: plan.name.to_string(),
            monthly_usd: dollars(prices.monthly),
            credit_usd: dollars(prices.credit),
            overage: prices.overage == OveragePolicy::Bill,
            storage_included_gib: prices.storage_included_gib,
            rates: rates(prices),
            max_sandboxes: limits.max_sandboxes.number(),
            max_cpu_total: limits.max_cpu_total.number(),
            max_memory_mb_total: limits.max_memory_mb_total.number(),
            max_volumes: limits.max_volumes.number(),
            max_volume_size_gib: limits.max_volume_size_gib.number(),
            max_volume_total_gib: limits.max_volume_total_gib.number(),
            hourly_create_limit: limits.hourly_create_limit.number(),
            ttl_seconds_max: limits.ttl_seconds_max.number(),
        }
    });
    let rates = rates(&plans.get(control.settings.default_plan).prices);
    Json(Pricing { rates, tiers: tiers.collect() })
}

/// Shows the bill of the caller's workspace.
pub async fn show(State(control): State<Control>, Authenticated(caller): Authenticated) -> Answer<Json<Bill>> {
    bill(&control, caller.workspace).await
}

/// Shows the bill of an organisation.
pub async fn show_org(State(control): State<Control>, person: Person, path: OnePath) -> Answer<Json<Bill>> {
    let workspace = workspace_of(&control, &person, path).await?;
    bill(&control, workspace).await
}

/// Reports the usage of the caller's workspace.
pub async fn usage(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    uri: Uri,
) -> Answer<Json<UsageReport>> {
    Ok(Json(report(&control, caller.workspace, &uri).await?))
}

/// Reports the usage of the caller's workspace as CSV.
pub async fn export(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    uri: Uri,
) -> Answer<Response> {
    Ok(csv(&report(&control, caller.workspace, &uri).await?))
}

/// Reports the usage of an organisation.
pub async fn org_usage(
    State(control): State<Control>,
    person: Person,
    path: OnePath,
    uri: Uri,
) -> Answer<Json<UsageReport>> {
    let workspace = workspace_of(&control, &person, path).await?;
    Ok(Json(report(&control, workspace, &uri).await?))
}

/// Reports the usage of an organisation as CSV.
pub async fn export_org(State(control): State<Control>, person: Person, path: OnePath, uri: Uri) -> Answer<Response> {
    let workspace = workspace_of(&control, &person, path).await?;
    Ok(csv(&report(&control, workspace, &uri).await?))
}

/// Sets the budget of an organisation.
pub async fn set_budget(
    State(control): State<Control>,
    person: Person,
    path: OnePath,
    body: Body,
) -> Answer<Json<WorkspaceBudget>> {
    let ask: WorkspaceBudget = json_body(body).await?;
    control.set_budget(&person.user, &one(path)?, Some(ask)).await?;
    Ok(Json(ask))
}

/// Removes the budget of an organisation.
pub async fn remove_budget(State(control): State<Control>, person: Person, path: OnePath) -> Answer<StatusCode> {
    control.set_budget(&person.user, &one(path)?, None).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Makes a page at Stripe on which a plan can be bought.
pub async fn checkout(
    State(control): State<Control>,
    person: Person,
    path: OnePath,
    headers: HeaderMap,
    uri: Uri,
    body: Body,
) -> Answer<Json<BillingPage>> {
    let ask: BuyPlan = json_body(body).await?;
    let base = base(&control, &headers, &uri);
    Ok(Json(BillingPage { url: control.buy_plan(&person.user, &one(path)?, (ask, &base)).await? }))
}

/// Makes a page at Stripe on which the subscription can be managed.
pub async fn portal(
    State(control): State<Control>,
    person: Person,
    path: OnePath,
    headers: HeaderMap,
    uri: Uri,
) -> Answer<Json<BillingPage>> {
    let base = base(&control, &headers, &uri);
    Ok(Json(BillingPage { url: control.billing_portal(&person.user, &one(path)?, &base).await? }))
}

/// Posts the usage of the caller's workspace to Stripe now.
pub async fn sync(State(control): State<Control>, person: Person) -> Answer<Json<MeterFlush>> {
    Ok(Json(control.flush_usage(&person.caller.workspace).await?))
}

/// Receives an event of Stripe.
pub async fn stripe_event(State(control): State<Control>, headers: HeaderMap, body: Body) -> Answer<StatusCode> {
    let body = whole_body(body).await?;
    if body.len() > STRIPE_EVENT_BYTES_MAX {
        return Err(Fault::new(FaultKind::TooLarge, "body.too_large", "the event is too large").into());
    }
    if serde_json::from_slice::<BTreeMap<String, IgnoredAny>>(&body).is_err() {
        return Err(Fault::new(FaultKind::Caller, "body.bad_json", "bad JSON: this is no event of Stripe").into());
    }
    let signature = headers.get("stripe-signature").and_then(|value| value.to_str().ok()).unwrap_or_default();
    control.stripe_event(signature, &body).await?;
    Ok(StatusCode::OK)
}

async fn workspace_of(control: &Control, person: &Person, path: OnePath) -> Result<WorkspaceId, Fault> {
    Ok(control.org(&person.user, &one(path)?).await?.workspace)
}

/// Where links for people begin.
fn base(control: &Control, headers: &HeaderMap, uri: &Uri) -> String {
    control.sign_in.dashboard_url.as_deref().map_or_else(|| public_base(headers, uri), str::to_owned)
}

async fn bill(control: &Control, workspace: WorkspaceId) -> Answer<Json<Bill>> {
    let found: MonthBill = control.bill(&workspace).await?;
    let subscription = &found.account.subscription;
    let grace_until = match found.standing {
        Standing::Grace { until_s, .. } => Some(rfc3339(until_s.saturating_mul(SECOND_NS))),
        _ => None,
    };
    let subscription = subscription.id.is_some().then(|| BilledSubscription {
        status: subscription.status.as_str().to_owned(),
        plan: subscription.plan.map(|plan| plan.to_string()),
        period_end: subscription.period_end_s.map(|end_s| rfc3339(end_s.saturating_mul(SECOND_NS))),
        cancel_at_period_end: subscription.cancel_at_period_end,
        grace_until,
    });
    let (used, cost) = (&found.used, &found.cost);
    let (hold, hold_reason) = found.hold.unzip();
    Ok(Json(Bill {
        workspace: workspace.0,
        plan: found.plan.to_string(),
        period_start: UtcDay::of(found.month.start_ns()).to_string(),
        period_end: UtcDay::of(found.month.end_ns() - 1).to_string(),
        mtd_vcpu_seconds: vcpu_seconds(used),
        mtd_memory_gib_seconds: memory_gib_seconds(used),
        mtd_storage_gib_seconds: storage_gib_seconds(used),
        mtd_cost_usd: dollars(cost.gross),
        mtd_vcpu_cost_usd: dollars(cost.vcpu),
        mtd_memory_cost_usd: dollars(cost.memory),
        mtd_storage_cost_usd: dollars(cost.storage),
        credit_usd: dollars(found.prices.credit),
        credit_used_usd: dollars(cost.credit_applied),
        mtd_charged_usd: dollars(found.charged),
        budget: found.account.budget.map(|budget| WorkspaceBudget {
            monthly_usd: dollars(PicoDollars::from_micros(budget.monthly_micros)),
            alert_percent: budget.alert_percent,
            hard_cap: budget.hard_cap,
        }),
        hold,
        hold_reason,
        subscription,
        billing_enabled: control.stripe.is_some(),
        meter_events_pending: found.queue.pending,
        meter_events_dead: found.queue.dead,
    }))
}

async fn report(control: &Control, workspace: WorkspaceId, uri: &Uri) -> Result<UsageReport, Fault> {
    let split = match query_value(uri, "by").filter(|text| !text.is_empty()) {
        None => UsageSplit::Day,
        Some(word) => UsageSplit::ALL.into_iter().find(|split| split.as_str() == word).ok_or_else(|| {
            Fault::new(FaultKind::Caller, "usage.bad_split", "by must be day, template, sandbox or member")
        })?,
    };
    let asked = UsageQuestion { split, from: day(uri, "from")?, to: day(uri, "to")? };
    let found: DaysUsage = control.usage_report(&workspace, asked).await?;
    let month = UtcMonth::of(found.from.start_ns());
    let row = |key: String, label: String, used: &UsageTotals| UsageRow {
        key,
        label,
        vcpu_seconds: vcpu_seconds(used),
        memory_gib_seconds: memory_gib_seconds(used),
        storage_gib_seconds: storage_gib_seconds(used),
        cost_usd: dollars(list_price(&found.prices, used, month)),
    };
    Ok(UsageReport {
        workspace: workspace.0,
        by: found.split.as_str().to_owned(),
        from: found.from.to_string(),
        to: found.to.to_string(),
        total: row("total".to_owned(), String::new(), &found.total),
        rows: found.rows.iter().map(|one| row(one.key.clone(), one.label.clone(), &one.totals)).collect(),
    })
}

/// Reads a day such as `2026-11-17`. Bad ones are refused.
fn day(uri: &Uri, name: &'static str) -> Result<Option<UtcDay>, Fault> {
    let Some(text) = query_value(uri, name).filter(|text| !text.is_empty()) else { return Ok(None) };
    let midnight = (text.len() == "2026-11-17".len()).then(|| parse_rfc3339(&format!("{text}T00:00:00Z"))).flatten();
    let bad = || Fault::new(FaultKind::Caller, "usage.bad_day", format!("{name} must be a day such as 2026-11-17"));
    midnight.map(|at_ns| Some(UtcDay::of(at_ns))).ok_or_else(bad)
}

/// Writes a report as a table. Texts are quoted, and none begins a formula in a spreadsheet.
fn csv(report: &UsageReport) -> Response {
    let quoted = |text: &str| {
        let safe =
            if text.starts_with(['=', '+', '-', '@', '\t', '\r']) { format!("'{text}") } else { text.to_owned() };
        format!("\"{}\"", safe.replace('"', "\"\""))
    };
    let mut table = format!("{},label,vcpu_seconds,memory_gib_seconds,storage_gib_seconds,cost_usd\r\n", report.by);
    for row in &report.rows {
        let (key, label) = (quoted(&row.key), quoted(&row.label));
        let UsageRow { vcpu_seconds, memory_gib_seconds, storage_gib_seconds, cost_usd, .. } = row;
        let numbers = format!("{vcpu_seconds:.3},{memory_gib_seconds:.3},{storage_gib_seconds:.3},{cost_usd:.6}");
        table.push_str(&format!("{key},{label},{numbers}\r\n"));
    }
    let name = format!("attachment; filename=\"usage-{}-{}-{}.csv\"", report.by, report.from, report.to);
    let name = HeaderValue::from_str(&name).unwrap_or(HeaderValue::from_static("attachment"));
    let kind = HeaderValue::from_static("text/csv");
    ([(header::CONTENT_TYPE, kind), (header::CONTENT_DISPOSITION, name)], table).into_response()
}

fn rates(prices: &PlanPrices) -> UsageRates {
    // Prices of a second need more digits than micro-dollars have.
    let exact = |price: PicoDollars| price.pico() as f64 / 1e12;
    UsageRates {
        vcpu_usd_per_second: exact(prices.vcpu_second),
        memory_usd_per_gib_second: exact(prices.memory_gib_second),
        volume_usd_per_gib_month: exact(prices.storage_gib_month),
    }
}

fn vcpu_seconds(used: &UsageTotals) -> f64 {
    used.vcpu_ns as f64 / 1e9
}

fn memory_gib_seconds(used: &UsageTotals) -> f64 {
    used.memory_mib_ns as f64 / 1024e9
}

fn storage_gib_seconds(used: &UsageTotals) -> f64 {
    used.storage_byte_ns as f64 / (1u64 << 30) as f64 / 1e9
}

fn one(path: OnePath) -> Result<String, Fault> {
    let missing = |_| Fault::new(FaultKind::Missing, "org.not_found", "not found or not a member");
    path.map(|Path(name)| name).map_err(missing)
}
