//! Incoming webhooks of Stripe: the signature, the events that matter, and the state of a
//! subscription after them. Pure: the server passes the body, the time and the stored state.
//!
//! Stripe repeats events and sends them in any order. So a stored event id is not enough, and every
//! decision uses the event's own time and the object's own status.

mod parse;
mod signature;
mod subscription;
#[cfg(test)]
mod tests;

pub use parse::{BadEvent, StripeEvent, StripeEventKind, SubscriptionChange, SubscriptionReport, SubscriptionStatus};
pub use signature::{BadSignature, signature_header, verify_signature};
pub use subscription::{Standing, Subscription};
