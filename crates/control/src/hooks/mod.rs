//! Sends events to receivers: checks addresses, signs deliveries, and makes one POST. Does not use
//! the database.

mod in_flight;
mod send;
mod sign;
mod target;

pub use in_flight::{DeliveriesInFlight, DeliveryInFlight};
pub use send::{WebhookRequest, WebhookResponse, WebhookSender};
pub use sign::{secret_text, signatures};
pub use target::HttpTarget;

use crate::dial::{AddressPolicy, TrustRoots};

/// The operator's settings for webhooks.
#[derive(Clone, Debug, Default)]
pub struct WebhookSettings {
    pub reach: AddressPolicy,
    pub roots: TrustRoots,
}
