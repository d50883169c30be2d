//! The calls. Each builds one request, sends it once and sorts the answer.

use std::sync::Arc;

use form_urlencoded::Serializer;
use pandastack_kit::random_hex;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::{
    MeterEvent, ORG_METADATA, PostOutcome, STRIPE_API_VERSION, StripeCallError, StripeRequest, StripeResponse,
    StripeSettings, StripeTransport,
    answer::{self, request_id},
    classify_post,
    settings::is_token,
};
use crate::{
    limits::{METER_EVENT_AGE_MAX, METER_EVENT_AHEAD_MAX},
    plans::PlanName,
};

const METER_EVENTS: &str = "/v1/billing/meter_events";
const CUSTOMERS: &str = "/v1/customers";
const CHECKOUT_SESSIONS: &str = "/v1/checkout/sessions";
const PORTAL_SESSIONS: &str = "/v1/billing_portal/sessions";

/// Longest text from a caller: names, addresses, links.
const FIELD_BYTES_MAX: usize = 2048;

/// How often a subscription is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BillingInterval {
    Month,
    Year,
}

/// An org that becomes a customer.
#[derive(Clone, Copy, Debug)]
pub struct NewCustomer<'a> {
    pub org: &'a str,
    pub name: &'a str,
    pub email: Option<&'a str>,
}

/// A purchase of a plan.
#[derive(Clone, Copy, Debug)]
pub struct NewCheckout<'a> {
    pub org: &'a str,
    pub customer: &'a str,
    pub plan: PlanName,
    pub interval: BillingInterval,
    /// Where Stripe sends the browser afterwards.
    pub success_url: &'a str,
    pub cancel_url: &'a str,
}

/// A page on Stripe's site that the browser is sent to.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct HostedPage {
    pub id: String,
    pub url: String,
}

#[derive(Deserialize)]
struct CreatedObject {
    id: String,
}

/// A client with a key. Clones share the transport.
#[derive(Clone)]
pub struct StripeClient {
    transport: Arc<dyn StripeTransport>,
    settings: Arc<StripeSettings>,
}

impl StripeClient {
    pub fn new(transport: Arc<dyn StripeTransport>, settings: Arc<StripeSettings>) -> Self {
        Self { transport, settings }
    }

    pub fn settings(&self) -> &StripeSettings {
        &self.settings
    }

    /// Posts a meter event once. `key_turn` is that of the claimed row: it changes the idempotency
    /// key, never the identifier. An event outside Stripe's window of time is not sent.
    pub async fn post_meter_event(&self, event: &MeterEvent, key_turn: u32, now_s: u64) -> PostOutcome {
        if event.timestamp_s.saturating_add(METER_EVENT_AGE_MAX.as_secs()) < now_s {
            return PostOutcome::TooOld;
        }
        if event.timestamp_s > now_s.saturating_add(METER_EVENT_AHEAD_MAX.as_secs()) {
            return PostOutcome::TooNew;
        }
        let (value, timestamp) = (event.value.to_string(), event.timestamp_s.to_string());
        let fields = [
            ("event_name", event.event_name.as_str()),
            ("payload[stripe_customer_id]", event.customer.as_str()),
            ("payload[value]", value.as_str()),
            ("identifier", event.identifier.as_str()),
            ("timestamp", timestamp.as_str()),
        ];
        let key = match key_turn {
            0 => event.identifier.clone(),
            turn => format!("{}.{turn}", event.identifier),
        };
        classify_post(self.transport.send(self.request(METER_EVENTS, &fields, key)).await)
    }

    /// Creates the customer of an org and returns its id. Repeating the call within a day with the
    /// same values returns the same customer.
    pub async fn create_customer(&self, customer: NewCustomer<'_>) -> Result<String, StripeCallError> {
        let NewCustomer { org, name, email } = customer;
        check([("the org", org), ("the name", name), ("the email address", email.unwrap_or_default())])?;
        let org_field = format!("metadata[{ORG_METADATA}]");
        let mut fields = vec![("name", name), (org_field.as_str(), org)];
        fields.extend(email.map(|email| ("email", email)));
        let key = format!("customer-{}", digest(&fields));
        let created: CreatedObject = self.call(CUSTOMERS, &fields, key).await?;
        if is_token(&created.id) { Ok(created.id) } else { Err(StripeCallError::Unreadable { request_id: None }) }
    }

    /// Opens a checkout for a plan and its metered usage.
    pub async fn create_checkout(&self, checkout: NewCheckout<'_>) -> Result<HostedPage, StripeCallError> {
        let NewCheckout { org, customer, plan, interval, success_url, cancel_url } = checkout;
        check([("the org", org), ("success_url", success_url), ("cancel_url", cancel_url)])?;
        if !is_token(customer) {
            return Err(StripeCallError::BadValue { what: "the customer" });
        }
        let prices = &self.settings.prices;
        let price = prices.of(plan, interval).ok_or_else(|| no_price(plan, interval))?;
        let org_field = format!("subscription_data[metadata][{ORG_METADATA}]");
        let mut fields = vec![
            ("mode", "subscription"),
            ("customer", customer),
            ("client_reference_id", org),
            (org_field.as_str(), org),
            ("success_url", success_url),
            ("cancel_url", cancel_url),
            ("line_items[0][price]", price),
            ("line_items[0][quantity]", "1"),
        ];
        // A metered price has no quantity.
        fields.extend(prices.overage.as_deref().map(|overage| ("line_items[1][price]", overage)));
        self.call(CHECKOUT_SESSIONS, &fields, random_hex::<16>()).await
    }

    /// Opens the page on which a customer changes cards, plans and addresses.
    pub async fn create_portal(&self, customer: &str, return_url: &str) -> Result<HostedPage, StripeCallError> {
        check([("return_url", return_url)])?;
        if !is_token(customer) {
            return Err(StripeCallError::BadValue { what: "the customer" });
        }
        let mut fields = vec![("customer", customer), ("return_url", return_url)];
        fields.extend(self.settings.portal_config.as_deref().map(|config| ("configuration", config)));
        self.call(PORTAL_SESSIONS, &fields, random_hex::<16>()).await
    }

    async fn call<T: for<'de> Deserialize<'de>>(
        &self,
        path: &'static str,
        fields: &[(&str, &str)],
        key: String,
    ) -> Result<T, StripeCallError> {
        let response: StripeResponse = answer::sort(self.transport.send(self.request(path, fields, key)).await)?;
        let unreadable = |_| StripeCallError::Unreadable { request_id: request_id(&response) };
        serde_json::from_slice(&response.body).map_err(unreadable)
    }

    fn request(&self, path: &'static str, fields: &[(&str, &str)], key: String) -> StripeRequest {
        let mut form = Serializer::new(String::new());
        form.extend_pairs(fields);
        let headers = vec![
            ("Authorization", format!("Bearer {}", self.settings.secret_key.reveal())),
            ("Content-Type", "application/x-www-form-urlencoded".to_owned()),
            ("Idempotency-Key", key),
            ("Stripe-Version", STRIPE_API_VERSION.to_owned()),
            ("User-Agent", concat!("pandastack/", env!("CARGO_PKG_VERSION")).to_owned()),
        ];
        StripeRequest { path, headers, body: form.finish() }
    }
}

/// Checks the length of values that come from callers.
fn check<const N: usize>(values: [(&'static str, &str); N]) -> Result<(), StripeCallError> {
    let long = values.into_iter().find(|(_, value)| value.len() > FIELD_BYTES_MAX);
    long.map_or(Ok(()), |(what, _)| Err(StripeCallError::BadValue { what }))
}

/// Names the setting that is missing.
fn no_price(plan: PlanName, interval: BillingInterval) -> StripeCallError {
    let variable = match (plan, interval) {
        (PlanName::Pro, BillingInterval::Month) => "STRIPE_PRICE_PRO_MONTHLY",
        (PlanName::Pro, BillingInterval::Year) => "STRIPE_PRICE_PRO_ANNUAL",
        (PlanName::Team, BillingInterval::Month) => "STRIPE_PRICE_TEAM_MONTHLY",
        (PlanName::Team, BillingInterval::Year) => "STRIPE_PRICE_TEAM_ANNUAL",
        (PlanName::Free | PlanName::Custom, _) => return StripeCallError::NotSold { plan },
    };
    StripeCallError::NoPrice { variable }
}

/// Returns a key that is the same for the same fields.
fn digest(fields: &[(&str, &str)]) -> String {
    let mut form = Serializer::new(String::new());
    form.extend_pairs(fields);
    Sha256::digest(form.finish()).iter().take(20).map(|byte| format!("{byte:02x}")).collect()
}
