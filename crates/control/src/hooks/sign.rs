//! Signatures in the format of Standard Webhooks: HMAC-SHA256 over `id.timestamp.body`. So none of
//! these can be changed, and an old delivery cannot be replayed as a new one.

use base64::{Engine, engine::general_purpose::STANDARD};
use hmac::{Hmac, Mac};
use pandastack_model::EventId;
use sha2::Sha256;

use crate::store::{WebhookRow, WebhookSecret};

/// Prefix of every secret.
const SECRET_PREFIX: &str = "whsec_";

/// Returns a secret as its owner sees it.
pub fn secret_text(secret: &WebhookSecret) -> String {
    format!("{SECRET_PREFIX}{}", STANDARD.encode(secret.reveal()))
}

/// Returns the value of `webhook-signature`: one signature with the current secret, and one with
/// the old secret while it is valid.
pub fn signatures(webhook: &WebhookRow, id: EventId, at_ns: u64, body: &str) -> String {
    let seconds = at_ns / 1_000_000_000;
    let present = sign(&webhook.secret, id, seconds, body);
    match &webhook.old_secret {
        Some((old, until_ns)) if at_ns < *until_ns => format!("{present} {}", sign(old, id, seconds, body)),
        _ => present,
    }
}

fn sign(secret: &WebhookSecret, id: EventId, seconds: u64, body: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.reveal()).expect("HMAC takes a key of any length");
    mac.update(format!("{id}.{seconds}.").as_bytes());
    mac.update(body.as_bytes());
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

#[cfg(test)]
mod tests {
    use pandastack_kit::Secret;

    use super::*;

    #[test]
    fn a_signature_is_the_one_that_openssl_gives() {
        // printf '%s' 'evt_00000000-0000-4000-8000-000000000000.1700000000.{}' | openssl dgst
        // -sha256 -mac HMAC \ -macopt hexkey:0707…07 -binary | base64
        let id: EventId = "evt_00000000-0000-4000-8000-000000000000".parse().unwrap();
        let secret = Secret::new([7; 32]);
        assert_eq!(sign(&secret, id, 1_700_000_000, "{}"), "v1,Z9i5BNBBKJnelvOPkwe1XhKfZs5nVj+z9TQnvTHDGig=");
        assert_eq!(secret_text(&secret), "whsec_BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=");
    }
}
