//! Reads any bytes as a webhook of Stripe: its signature header, its event, and the subscription
//! after it. Also reads them as a plan file. Run: `cargo xtask fuzz stripe_webhook`.
#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use pandastack_billing::{
    Plans, StripeEvent, Subscription,
    stripe::StripePrices,
    stripe_events::{BadSignature, signature_header, verify_signature},
};
use pandastack_kit::Secret;

fuzz_target!(|bytes: &[u8]| {
    // The first byte says where the header ends.
    let Some((cut, bytes)) = bytes.split_first() else { return };
    let (header, body) = bytes.split_at(usize::from(*cut).min(bytes.len()));
    let secret = Secret::new("whsec_fuzz".to_owned());
    if let Ok(header) = std::str::from_utf8(header) {
        let _ = verify_signature(header, body, &secret, 1_772_323_200);
    }
    let signed = signature_header(body, &[&secret], 1_772_323_200);
    let checked = verify_signature(&signed, body, &secret, 1_772_323_200);
    assert!(matches!(checked, Ok(()) | Err(BadSignature::TooLong)));
    if let Ok(event) = StripeEvent::parse(body) {
        let prices = StripePrices { pro_monthly: Some("price_pro".to_owned()), ..StripePrices::default() };
        let once = Subscription::default().after(&event, &prices);
        assert_eq!(once.after(&event, &prices), once, "a repeated event changes nothing");
        let _ = once.standing(event.created_s, Duration::from_secs(60));
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = Plans::parse(text);
    }
});
