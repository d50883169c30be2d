//! Prices, usage, bills and budgets. `org` is the id of an organisation; without one, a call is
//! about the workspace of the credential.

use std::time::Duration;

use pandastack_wire_public::{Bill, BillingPage, BuyPlan, MeterFlush, Pricing, UsageReport, WorkspaceBudget};
use reqwest::{Method, RequestBuilder};

use crate::{Client, ClientError, client::ANSWER_MAX};

/// Timeout of a flush, which posts one event after the other to Stripe.
const FLUSH_MAX: Duration = Duration::from_secs(600);

/// Which usage is reported. This month by day, if nothing is chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageQuery {
    /// `day`, `template`, `sandbox` or `member`.
    pub by: Option<String>,
    /// First day (UTC), such as `2026-11-01`.
    pub from: Option<String>,
    /// Last day.
    pub to: Option<String>,
}

impl Client {
    /// Shows prices and plans. Needs no credential.
    pub async fn pricing(&self) -> Result<Pricing, ClientError> {
        self.json(self.request(Method::GET, &["pricing"])?.timeout(ANSWER_MAX)).await
    }

    /// Shows the bill of this month.
    pub async fn bill(&self, org: Option<&str>) -> Result<Bill, ClientError> {
        self.json(self.request(Method::GET, &below(org, &["billing"]))?.timeout(ANSWER_MAX)).await
    }

    /// Reports usage.
    pub async fn usage(&self, org: Option<&str>, query: &UsageQuery) -> Result<UsageReport, ClientError> {
        self.json(self.usage_request(&below(org, &["usage"]), query)?).await
    }

    /// Reports usage as a table in CSV.
    pub async fn usage_csv(&self, org: Option<&str>, query: &UsageQuery) -> Result<String, ClientError> {
        let request = self.usage_request(&below(org, &["usage", "export"]), query)?;
        let text = self.send(request).await?.text().await;
        text.map_err(|cause| ClientError::sending(self.url(), cause))
    }

    /// Sets the budget of an organisation. It replaces the present one.
    pub async fn set_budget(&self, org: &str, budget: &WorkspaceBudget) -> Result<WorkspaceBudget, ClientError> {
        self.json(self.request(Method::PUT, &["orgs", org, "budget"])?.timeout(ANSWER_MAX).json(budget)).await
    }

    /// Removes the budget of an organisation.
    pub async fn remove_budget(&self, org: &str) -> Result<(), ClientError> {
        self.send(self.request(Method::DELETE, &["orgs", org, "budget"])?.timeout(ANSWER_MAX)).await.map(drop)
    }

    /// Makes a page at Stripe on which a plan can be bought.
    pub async fn buy_plan(&self, org: &str, ask: &BuyPlan) -> Result<BillingPage, ClientError> {
        let path = ["orgs", org, "billing", "checkout"];
        self.json(self.request(Method::POST, &path)?.timeout(ANSWER_MAX).json(ask)).await
    }

    /// Makes a page at Stripe on which the subscription can be managed.
    pub async fn billing_portal(&self, org: &str) -> Result<BillingPage, ClientError> {
        self.json(self.request(Method::POST, &["orgs", org, "billing", "portal"])?.timeout(ANSWER_MAX)).await
    }

    /// Posts the usage of the workspace to Stripe now.
    pub async fn sync_billing(&self) -> Result<MeterFlush, ClientError> {
        self.json(self.request(Method::POST, &["billing", "sync"])?.timeout(FLUSH_MAX)).await
    }

    fn usage_request(&self, path: &[&str], query: &UsageQuery) -> Result<RequestBuilder, ClientError> {
        let UsageQuery { by, from, to } = query;
        let values = [("by", by), ("from", from), ("to", to)];
        let values: Vec<_> = values.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?))).collect();
        let request = match values.as_slice() {
            [] => self.request(Method::GET, path)?,
            values => self.query_request(Method::GET, path, values)?,
        };
        Ok(request.timeout(ANSWER_MAX))
    }
}

/// Returns the path of an organisation's resource, or of the same one of the workspace.
fn below<'a>(org: Option<&'a str>, path: &[&'a str]) -> Vec<&'a str> {
    org.map(|org| ["orgs", org]).into_iter().flatten().chain(path.iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stand_in::StandIn;

    #[tokio::test]
    async fn an_organisation_has_an_address_of_its_own() {
        let server = StandIn::listen().await;
        let client = Client::new(server.config()).unwrap();
        let body = r#"{"workspace":"w","mtd_cost_usd":1.5,"new_field":1}"#;
        let (bill, seen) = tokio::join!(client.bill(None), server.answer(200, body));
        assert_eq!((bill.unwrap().mtd_cost_usd, seen.first.as_str()), (1.5, "GET /v1/billing"));
        let (bill, seen) = tokio::join!(client.bill(Some("a/b")), server.answer(200, body));
        assert_eq!((bill.unwrap().workspace.as_str(), seen.first.as_str()), ("w", "GET /v1/orgs/a%2Fb/billing"));
    }

    #[tokio::test]
    async fn only_chosen_values_of_a_report_are_sent() {
        let server = StandIn::listen().await;
        let client = Client::new(server.config()).unwrap();
        let query = UsageQuery::default();
        let (report, seen) = tokio::join!(client.usage(None, &query), server.answer(200, "{}"));
        assert_eq!((report.unwrap(), seen.first.as_str()), (UsageReport::default(), "GET /v1/usage"));
        let query = UsageQuery { by: Some("member".into()), from: None, to: Some("2026-11-17&by=day".into()) };
        let (report, seen) = tokio::join!(client.usage(Some("o"), &query), server.answer(200, "{}"));
        report.unwrap();
        assert_eq!(seen.first, "GET /v1/orgs/o/usage?by=member&to=2026-11-17%26by%3Dday");
        let (table, seen) = tokio::join!(client.usage_csv(Some("o"), &query), server.answer(200, "day,label\r\n"));
        assert_eq!(table.unwrap(), "day,label\r\n");
        assert!(seen.first.starts_with("GET /v1/orgs/o/usage/export?by=member&"), "{}", seen.first);
    }

    #[tokio::test]
    async fn a_budget_is_set_and_removed() {
        let server = StandIn::listen().await;
        let client = Client::new(server.config()).unwrap();
        let budget = WorkspaceBudget { monthly_usd: 50.0, alert_percent: 90, hard_cap: true };
        let body = r#"{"monthly_usd":50.0,"alert_percent":90,"hard_cap":true}"#;
        let (set, seen) = tokio::join!(client.set_budget("o", &budget), server.answer(200, body));
        assert_eq!(set.unwrap(), budget);
        assert_eq!((seen.first.as_str(), seen.body.as_str()), ("PUT /v1/orgs/o/budget", body));
        let (done, seen) = tokio::join!(client.remove_budget("o"), server.answer(204, ""));
        done.unwrap();
        assert_eq!(seen.first, "DELETE /v1/orgs/o/budget");
    }

    #[tokio::test]
    async fn pages_and_flushes_are_posted() {
        let server = StandIn::listen().await;
        let client = Client::new(server.config()).unwrap();
        let page = r#"{"url":"https://pay.example/1"}"#;
        let ask = BuyPlan { plan: "pro".into(), interval: Some("year".into()) };
        let (bought, seen) = tokio::join!(client.buy_plan("o", &ask), server.answer(200, page));
        assert_eq!(bought.unwrap().url, "https://pay.example/1");
        assert_eq!(seen.first, "POST /v1/orgs/o/billing/checkout");
        assert_eq!(seen.body, r#"{"plan":"pro","interval":"year"}"#);
        let (opened, seen) = tokio::join!(client.billing_portal("o"), server.answer(200, page));
        assert_eq!(
            (opened.unwrap().url.as_str(), seen.first.as_str()),
            ("https://pay.example/1", "POST /v1/orgs/o/billing/portal")
        );
        let (flushed, seen) = tokio::join!(client.sync_billing(), server.answer(200, r#"{"posted":2,"pending":1}"#));
        assert_eq!(
            (flushed.unwrap(), seen.first.as_str()),
            (MeterFlush { posted: 2, pending: 1 }, "POST /v1/billing/sync")
        );
        let refusal = r#"{"error":"billing is not set up on this server","code":"billing.off"}"#;
        let (refused, _) = tokio::join!(client.billing_portal("o"), server.answer(503, refusal));
        assert_eq!(refused.unwrap_err().code(), Some("billing.off"));
    }

    #[tokio::test]
    async fn prices_need_no_key() {
        let server = StandIn::listen().await;
        let client = Client::new(server.config().without_key()).unwrap();
        let body = r#"{"rates":{"vcpu_usd_per_second":0.00001},"tiers":[{"name":"free"}]}"#;
        let (pricing, seen) = tokio::join!(client.pricing(), server.answer(200, body));
        assert_eq!((pricing.unwrap().tiers.len(), seen.first.as_str()), (1, "GET /v1/pricing"));
        assert!(!seen.head.contains("authorization"), "{}", seen.head);
    }
}
