//! The `Stripe-Signature` header: HMAC-SHA256 over `time.body`, in hex, once for each secret that
//! is valid at the moment.

use std::fmt::Write;

use hmac::{Hmac, Mac};
use pandastack_kit::Secret;
use sha2::Sha256;

use crate::limits::{SIGNATURE_HEADER_BYTES_MAX, SIGNATURE_TOLERANCE, SIGNATURES_MAX, WEBHOOK_EVENT_BYTES_MAX};

/// Why a webhook is not from Stripe, or not from now. The answer is 400 in each case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSignature {
    #[error("the header Stripe-Signature is malformed")]
    Malformed,
    #[error("the body has more than {WEBHOOK_EVENT_BYTES_MAX} bytes")]
    TooLong,
    #[error("no signature matches; check that STRIPE_WEBHOOK_SECRET is the secret of this endpoint")]
    NoMatch,
    #[error("the signature is more than 5 minutes old or ahead; check this server's clock")]
    WrongTime,
}

/// Checks that a body was signed with the secret within the last five minutes. Takes the body as it
/// arrived. The signature is checked before the time, so that a stranger learns nothing of our
/// clock.
pub fn verify_signature(header: &str, body: &[u8], secret: &Secret<String>, now_s: u64) -> Result<(), BadSignature> {
    if body.len() > WEBHOOK_EVENT_BYTES_MAX {
        return Err(BadSignature::TooLong);
    }
    let (time, signatures) = read(header).ok_or(BadSignature::Malformed)?;
    let mac = mac_of(secret, time, body);
    // Looks at all of them, so that the time does not depend on which one matches.
    let matched = signatures.iter().fold(false, |matched, signature| {
        let fits = mac.clone().verify_slice(signature).is_ok();
        matched | fits
    });
    if !matched {
        return Err(BadSignature::NoMatch);
    }
    let signed_s: u64 = time.parse().map_err(|_| BadSignature::Malformed)?;
    if signed_s.abs_diff(now_s) > SIGNATURE_TOLERANCE.as_secs() { Err(BadSignature::WrongTime) } else { Ok(()) }
}

/// Returns the header that Stripe sends for a body. For tests of receivers.
pub fn signature_header(body: &[u8], secrets: &[&Secret<String>], signed_s: u64) -> String {
    let time = signed_s.to_string();
    let mut header = format!("t={time}");
    for secret in secrets {
        header.push_str(",v1=");
        for byte in mac_of(secret, &time, body).finalize().into_bytes() {
            let _ = write!(header, "{byte:02x}");
        }
    }
    header
}

fn mac_of(secret: &Secret<String>, time: &str, body: &[u8]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.reveal().as_bytes()).expect("HMAC takes a key of any length");
    mac.update(time.as_bytes());
    mac.update(b".");
    mac.update(body);
    mac
}

/// Splits `t=…,v1=…,v1=…` into the time and the signatures. Other schemes are ignored.
fn read(header: &str) -> Option<(&str, Vec<[u8; 32]>)> {
    if header.len() > SIGNATURE_HEADER_BYTES_MAX {
        return None;
    }
    let (mut time, mut signatures) = (None, Vec::new());
    for item in header.split(',') {
        match item.trim().split_once('=')? {
            ("t", _) if time.is_some() => return None,
            ("t", value) => time = Some(value),
            ("v1", _) if signatures.len() == SIGNATURES_MAX => return None,
            ("v1", value) => signatures.extend(read_hex(value)),
            _ => {}
        }
    }
    let time = time.filter(|time| (1..=15).contains(&time.len()) && time.bytes().all(|byte| byte.is_ascii_digit()))?;
    Some((time, signatures))
}

/// Reads 64 hex digits. Another text is no signature that could match.
fn read_hex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, at) in bytes.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(text.get(at..at + 2)?, 16).ok()?;
    }
    Some(bytes)
}
