//! Sends events to receivers: checks addresses, signs deliveries, and makes one POST. Does not use
//! the database.

mod flights;
mod send;
mod sign;
mod target;

pub use flights::{Flight, Flights};
pub use send::{Letter, Sender, Sent};
pub use sign::{secret_text, signatures};
pub use target::Target;

use crate::dial::{AddressPolicy, TrustRoots};

/// The operator's settings for webhooks.
#[derive(Clone, Debug, Default)]
pub struct WebhookSettings {
    pub reach: AddressPolicy,
    pub roots: TrustRoots,
}
