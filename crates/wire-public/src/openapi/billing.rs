//! Routes about prices, usage and bills.

use serde_json::{Value, json};

use super::operation::{Operation, ours, query, route};
use crate::{Bill, BillingPage, BuyPlan, MeterFlush, Pricing, UsageReport, WorkspaceBudget};

const BILLING: &str = "Billing";

pub fn operations() -> Vec<Operation> {
    vec![
        route(BILLING, "GET", "/v1/pricing", "Show the prices and the plans").open().gives::<Pricing>(200),
        route(BILLING, "GET", "/v1/billing", "Show what the workspace used and costs in this month")
            .ours()
            .gives::<Bill>(200),
        report(route(BILLING, "GET", "/v1/usage", "Usage of the workspace by day, template, sandbox or member"))
            .gives::<UsageReport>(200),
        report(route(BILLING, "GET", "/v1/usage/export", "The same usage as a table in CSV")).gives_content(
            200,
            "text/csv",
            json!({"type": "string"}),
        ),
        route(BILLING, "GET", "/v1/orgs/{org}/billing", "Show what an organisation used and costs in this month")
            .person()
            .gives::<Bill>(200),
        report(route(BILLING, "GET", "/v1/orgs/{org}/usage", "Usage of an organisation, split in the same ways"))
            .person()
            .gives::<UsageReport>(200),
        report(route(BILLING, "GET", "/v1/orgs/{org}/usage/export", "Usage of an organisation as a table in CSV"))
            .person()
            .gives_content(200, "text/csv", json!({"type": "string"})),
        route(BILLING, "PUT", "/v1/orgs/{org}/budget", "Limit what an organisation may cost in a month")
            .least("admin")
            .ours()
            .notes("Webhooks get an event at the share of the alert, and when the budget is used up.")
            .refuses(&[403])
            .takes::<WorkspaceBudget>(json!({"monthly_usd": 50.0, "alert_percent": 80, "hard_cap": true}))
            .gives::<WorkspaceBudget>(200),
        route(BILLING, "DELETE", "/v1/orgs/{org}/budget", "Remove the budget of an organisation")
            .least("admin")
            .ours()
            .refuses(&[403])
            .gives_nothing(204),
        route(BILLING, "POST", "/v1/orgs/{org}/billing/checkout", "Make a page at Stripe to buy a plan")
            .least("owner")
            .ours()
            .refuses(&[403, 409, 502])
            .takes::<BuyPlan>(json!({"plan": "pro", "interval": "month"}))
            .gives::<BillingPage>(200),
        route(BILLING, "POST", "/v1/orgs/{org}/billing/portal", "Make a page at Stripe to manage the subscription")
            .least("owner")
            .ours()
            .refuses(&[403, 409, 502])
            .gives::<BillingPage>(200),
        route(BILLING, "POST", "/v1/billing/sync", "Post the usage of the workspace to Stripe now")
            .person()
            .notes("Whole hours only. Answers with the number of events that were posted, and of those that wait.")
            .refuses(&[502])
            .gives::<MeterFlush>(200),
        route(BILLING, "POST", "/v1/webhooks/stripe", "Receive an event of Stripe")
            .open()
            .ours()
            .notes("For Stripe only: the header `Stripe-Signature` is checked.")
            .refuses(&[400, 409, 413])
            .takes_content(json!({"application/json": {"schema": {"type": "object"}}}), true)
            .gives_nothing(200),
    ]
}

fn report(operation: Operation) -> Operation {
    let day = |name, text| ours(query(name, json!({"type": "string", "format": "date"}), text));
    operation
        .ours()
        .with(ours(query("by", one_of(&["day", "template", "sandbox", "member"]), "How to split; `day` by default.")))
        .with(day("from", "First day (UTC); the first of this month by default."))
        .with(day("to", "Last day (UTC); today by default."))
        .refuses(&[400])
}

fn one_of(words: &[&str]) -> Value {
    json!({"type": "string", "enum": words})
}
