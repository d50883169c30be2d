//! How an event reaches a receiver: which addresses may be reached, how a delivery is signed, and
//! one POST. Knows no database.

mod flights;
mod send;
mod sign;
mod target;

pub use flights::{Flight, Flights};
pub use send::{Letter, Sender, Sent};
pub use sign::{secret_text, signatures};
pub use target::Target;

use crate::dial::{Reach, Roots};

/// What the operator decides about webhooks.
#[derive(Clone, Debug, Default)]
pub struct WebhookSettings {
    pub reach: Reach,
    pub roots: Roots,
}
