//! Reads the events that matter into our own types, with every field bounded. Other events are
//! ignored, and unknown fields too: Stripe adds both at any time.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    limits::{STRIPE_ID_BYTES_MAX, SUBSCRIPTION_PRICES_MAX, WEBHOOK_EVENT_BYTES_MAX},
    plans::PlanName,
    stripe::{ORG_METADATA, PLAN_METADATA, StripeMode},
};

/// An event, checked and reduced to what is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StripeEvent {
    /// Unique. The same event may arrive several times.
    pub id: String,
    /// When it happened, in Unix time. Events of one second have no order.
    pub created_s: u64,
    /// Ignore an event of another mode than that of the settings.
    pub mode: StripeMode,
    pub kind: StripeEventKind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StripeEventKind {
    /// A checkout was paid. Links an org to its customer and subscription.
    CheckoutCompleted {
        org: Option<String>,
        customer: Option<String>,
        subscription: Option<String>,
    },
    Subscription(SubscriptionReport),
    InvoicePaid {
        customer: Option<String>,
        subscription: Option<String>,
    },
    InvoicePaymentFailed {
        customer: Option<String>,
        subscription: Option<String>,
    },
    /// An event that this server does not use. Answer 200, so that Stripe does not repeat it.
    Ignored,
}

/// A subscription as an event shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscriptionReport {
    pub change: SubscriptionChange,
    pub id: String,
    pub customer: String,
    /// Our org, from the metadata that the checkout set.
    pub org: Option<String>,
    pub status: SubscriptionStatus,
    /// When the subscription itself was made.
    pub started_s: u64,
    pub period_end_s: Option<u64>,
    pub cancel_at_period_end: bool,
    pub prices: Vec<String>,
    /// The plan that an operator wrote into the metadata, for prices of a contract.
    pub named_plan: Option<PlanName>,
}

/// Which event reported the subscription. Later ones win within a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubscriptionChange {
    Created,
    Updated,
    Deleted,
}

/// Stripe's status of a subscription. Within a second the larger one wins, in the customer's
/// favour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubscriptionStatus {
    /// There is no subscription, or Stripe sent a status that we do not know.
    #[default]
    None,
    /// The first payment is open.
    Incomplete,
    IncompleteExpired,
    Canceled,
    /// A trial ended without a card.
    Paused,
    /// Stripe has stopped trying.
    Unpaid,
    PastDue,
    Trialing,
    Active,
}

impl SubscriptionStatus {
    pub const ALL: [Self; 9] = [
        Self::None,
        Self::Incomplete,
        Self::IncompleteExpired,
        Self::Canceled,
        Self::Paused,
        Self::Unpaid,
        Self::PastDue,
        Self::Trialing,
        Self::Active,
    ];

    /// Returns Stripe's own word, also used in tables.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Incomplete => "incomplete",
            Self::IncompleteExpired => "incomplete_expired",
            Self::Canceled => "canceled",
            Self::Paused => "paused",
            Self::Unpaid => "unpaid",
            Self::PastDue => "past_due",
            Self::Trialing => "trialing",
            Self::Active => "active",
        }
    }

    /// Reads the word. An unknown one is `None`, which changes nothing.
    pub fn read(text: &str) -> Self {
        Self::ALL.into_iter().find(|status| status.as_str() == text).unwrap_or_default()
    }

    /// Tells whether the subscription gives its plan, paid or not.
    pub const fn is_live(self) -> bool {
        matches!(self, Self::Paused | Self::Unpaid | Self::PastDue | Self::Trialing | Self::Active)
    }

    /// Tells whether everything is paid.
    pub const fn is_paid(self) -> bool {
        matches!(self, Self::Trialing | Self::Active)
    }

    /// Tells whether a payment is overdue.
    pub const fn is_overdue(self) -> bool {
        matches!(self, Self::Unpaid | Self::PastDue)
    }
}

/// Why a body is no event. Its signature was right, so a person must look.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadEvent {
    #[error("the event has more than {WEBHOOK_EVENT_BYTES_MAX} bytes")]
    TooLong,
    #[error("the event is not JSON")]
    NotJson,
    #[error("the event's {0} is missing or too long")]
    Field(&'static str),
}

impl StripeEvent {
    /// Reads an event. Check its signature first.
    pub fn parse(body: &[u8]) -> Result<Self, BadEvent> {
        if body.len() > WEBHOOK_EVENT_BYTES_MAX {
            return Err(BadEvent::TooLong);
        }
        let event: Value = serde_json::from_slice(body).map_err(|_| BadEvent::NotJson)?;
        let kind = event["type"].as_str().ok_or(BadEvent::Field("type"))?;
        let object = &event["data"]["object"];
        Ok(Self {
            id: text(&event["id"]).ok_or(BadEvent::Field("id"))?,
            created_s: event["created"].as_u64().ok_or(BadEvent::Field("created"))?,
            mode: if event["livemode"] == Value::Bool(true) { StripeMode::Live } else { StripeMode::Test },
            kind: match kind {
                "checkout.session.completed" => checkout(object),
                "customer.subscription.created" => report(SubscriptionChange::Created, object)?,
                "customer.subscription.updated" => report(SubscriptionChange::Updated, object)?,
                "customer.subscription.deleted" => report(SubscriptionChange::Deleted, object)?,
                "invoice.paid" => {
                    StripeEventKind::InvoicePaid { customer: id(&object["customer"]), subscription: billed_for(object) }
                }
                "invoice.payment_failed" => StripeEventKind::InvoicePaymentFailed {
                    customer: id(&object["customer"]),
                    subscription: billed_for(object),
                },
                _ => StripeEventKind::Ignored,
            },
        })
    }

    /// Returns the customer that the event is about.
    pub fn customer(&self) -> Option<&str> {
        match &self.kind {
            StripeEventKind::Subscription(report) => Some(&report.customer),
            StripeEventKind::CheckoutCompleted { customer, .. }
            | StripeEventKind::InvoicePaid { customer, .. }
            | StripeEventKind::InvoicePaymentFailed { customer, .. } => customer.as_deref(),
            StripeEventKind::Ignored => None,
        }
    }

    /// Returns the org that the event names itself. Events without one are found by their customer.
    pub fn org(&self) -> Option<&str> {
        match &self.kind {
            StripeEventKind::Subscription(report) => report.org.as_deref(),
            StripeEventKind::CheckoutCompleted { org, .. } => org.as_deref(),
            _ => None,
        }
    }
}

fn checkout(object: &Value) -> StripeEventKind {
    // Payments and card updates pass checkouts too.
    if object["mode"] != "subscription" {
        return StripeEventKind::Ignored;
    }
    StripeEventKind::CheckoutCompleted {
        org: text(&object["client_reference_id"]),
        customer: id(&object["customer"]),
        subscription: id(&object["subscription"]),
    }
}

fn report(change: SubscriptionChange, object: &Value) -> Result<StripeEventKind, BadEvent> {
    let items = object["items"]["data"].as_array().map(Vec::as_slice).unwrap_or_default();
    let prices = items.iter().take(SUBSCRIPTION_PRICES_MAX).filter_map(|item| id(&item["price"])).collect();
    // Newer versions of the API keep the period with the items.
    let period_end_s = object["current_period_end"]
        .as_u64()
        .or_else(|| items.iter().filter_map(|item| item["current_period_end"].as_u64()).max());
    let named_plan = object["metadata"][PLAN_METADATA].as_str().and_then(|plan| plan.parse().ok());
    let status = object["status"].as_str().map(SubscriptionStatus::read).ok_or(BadEvent::Field("status"))?;
    Ok(StripeEventKind::Subscription(SubscriptionReport {
        change,
        id: text(&object["id"]).ok_or(BadEvent::Field("subscription"))?,
        customer: id(&object["customer"]).ok_or(BadEvent::Field("customer"))?,
        org: text(&object["metadata"][ORG_METADATA]),
        // The object of a deletion may still carry its last status.
        status: if change == SubscriptionChange::Deleted { SubscriptionStatus::Canceled } else { status },
        started_s: object["created"].as_u64().unwrap_or(0),
        period_end_s,
        cancel_at_period_end: object["cancel_at_period_end"] == Value::Bool(true),
        prices,
        named_plan,
    }))
}

/// Returns the subscription of an invoice. Newer versions of the API keep it below `parent`.
fn billed_for(invoice: &Value) -> Option<String> {
    id(&invoice["parent"]["subscription_details"]["subscription"]).or_else(|| id(&invoice["subscription"]))
}

/// Returns an id that may be expanded to its object.
fn id(value: &Value) -> Option<String> {
    text(value).or_else(|| text(&value["id"]))
}

/// Returns a short text without control characters.
fn text(value: &Value) -> Option<String> {
    let fine = |text: &&str| (1..=STRIPE_ID_BYTES_MAX).contains(&text.len()) && !text.contains(char::is_control);
    value.as_str().filter(fine).map(str::to_owned)
}
