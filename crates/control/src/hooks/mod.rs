//! How an event reaches a receiver: which addresses may be reached, how a delivery is signed, and one POST. Knows no database.

mod address;
mod flights;
mod send;
mod sign;
mod target;

pub use flights::{Flight, Flights};
pub use send::{Letter, Roots, Sender, Sent};
pub use sign::{secret_text, signatures};
pub use target::Target;

/// Which addresses deliveries may go to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// Only those of the public internet.
    #[default]
    Public,
    /// Loopback and private networks too. The operator's choice: every tenant may then speak to what is near the server.
    Private,
}

/// What the operator decides about webhooks.
#[derive(Clone, Debug, Default)]
pub struct WebhookSettings {
    pub reach: Reach,
    pub roots: Roots,
}
