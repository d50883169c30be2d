//! The client of Stripe's API. It sends through a [`StripeTransport`], which the server implements
//! over its own guarded connections, and sorts every answer by what to do next. It never retries by
//! itself: `posting` decides that for meter events.

mod answer;
mod client;
mod meter_event;
mod settings;
#[cfg(test)]
pub(crate) mod tests;
mod transport;

pub use answer::{
    PostOutcome, Recorded, RetryAdvice, RetryReason, StripeCallError, StripeRefusal, classify_post, retry_delay,
};
pub use client::{BillingInterval, HostedPage, NewCheckout, NewCustomer, StripeClient};
pub use meter_event::{MeterEvent, MeterEventError, meter_identifier};
pub use settings::{StripeMode, StripePrices, StripeSettings, StripeSettingsError};
pub use transport::{StripeRequest, StripeResponse, StripeTransport, StripeTransportError};

/// Where Stripe answers. Tests send to a stand-in instead.
pub const STRIPE_API_BASE: &str = "https://api.stripe.com";
/// The version of the API that this client was written for. Without the header, an account's
/// default version would decide the shape of answers.
pub const STRIPE_API_VERSION: &str = "2025-09-30.clover";
/// Key of the metadata that names our org, on customers and subscriptions.
pub const ORG_METADATA: &str = "pandastack_org";
/// Key of the metadata that names a plan for prices that are not in the settings.
pub const PLAN_METADATA: &str = "pandastack_plan";
