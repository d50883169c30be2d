//! Signatures as Stripe makes them, events as Stripe sends them, and their orders of arrival.

use std::time::Duration;

use pandastack_kit::Secret;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{
    limits::{GRACE_DEFAULT, SIGNATURE_HEADER_BYTES_MAX, WEBHOOK_EVENT_BYTES_MAX},
    plans::PlanName,
    stripe::{StripeMode, StripePrices},
};

const SIGNED_S: u64 = 1_772_323_200;

fn secret(text: &str) -> Secret<String> {
    Secret::new(text.to_owned())
}

#[test]
fn a_signature_is_the_one_that_openssl_gives() {
    // printf '1772323200.{"id":"evt_1"}' | openssl dgst -sha256 -hmac whsec_test
    let header = "t=1772323200,v1=f9a5071ec36dd6f9832869639fa6e4d864fdff87d9082a502f23a8295ae2537a";
    let key = secret("whsec_test");
    assert_eq!(signature_header(br#"{"id":"evt_1"}"#, &[&key], SIGNED_S), header);
    assert_eq!(verify_signature(header, br#"{"id":"evt_1"}"#, &key, SIGNED_S), Ok(()));
}

#[test]
fn the_body_the_time_and_the_secret_must_be_the_signed_ones() {
    let key = secret("whsec_a");
    let header = signature_header(b"body", &[&key], SIGNED_S);
    let check = |body: &[u8], key: &Secret<String>, now_s| verify_signature(&header, body, key, now_s);
    for now_s in [SIGNED_S - 300, SIGNED_S, SIGNED_S + 300] {
        assert_eq!(check(b"body", &key, now_s), Ok(()));
    }
    for now_s in [SIGNED_S - 301, SIGNED_S + 301, 0, u64::MAX] {
        assert_eq!(check(b"body", &key, now_s), Err(BadSignature::WrongTime));
    }
    assert_eq!(check(b"Body", &key, SIGNED_S), Err(BadSignature::NoMatch));
    assert_eq!(check(b"body", &secret("whsec_b"), SIGNED_S), Err(BadSignature::NoMatch));
    let moved = header.replace("t=1772323200", "t=1772323201");
    assert_eq!(verify_signature(&moved, b"body", &key, SIGNED_S), Err(BadSignature::NoMatch));
    let long = vec![b' '; WEBHOOK_EVENT_BYTES_MAX + 1];
    assert_eq!(check(&long, &key, SIGNED_S), Err(BadSignature::TooLong));
}

#[test]
fn one_of_several_signatures_is_enough_while_a_secret_is_rolled() {
    let (old, new) = (secret("whsec_old"), secret("whsec_new"));
    let header = signature_header(b"body", &[&old, &new], SIGNED_S);
    assert_eq!(verify_signature(&header, b"body", &old, SIGNED_S), Ok(()));
    assert_eq!(verify_signature(&header, b"body", &new, SIGNED_S), Ok(()));
    let with_others = format!("v0=aa, {header},v1=zz,v1=");
    assert_eq!(verify_signature(&with_others, b"body", &new, SIGNED_S), Ok(()));
    let only_v0 = header.replace("v1=", "v0=");
    assert_eq!(verify_signature(&only_v0, b"body", &new, SIGNED_S), Err(BadSignature::NoMatch));
}

#[test]
fn a_malformed_header_is_refused() {
    let key = secret("whsec_a");
    let fine = signature_header(b"", &[&key], SIGNED_S);
    let many = format!("t=1,{}", vec![format!("v1={}", "a".repeat(64)); 17].join(","));
    let long = format!("{fine},{}", "x=y,".repeat(SIGNATURE_HEADER_BYTES_MAX));
    for bad in
        ["", "t", "t=", "v1=aa", "t=-1,v1=aa", "t=1 2", "t=1,t=1,v1=aa", "t=１", &many, &long, "t=9999999999999999"]
    {
        assert_eq!(verify_signature(bad, b"", &key, SIGNED_S), Err(BadSignature::Malformed), "{bad:.40}");
    }
}

fn subscription_event(change: &str, created: u64, status: &str, price: &str) -> Value {
    json!({
        "id": format!("evt_{change}_{created}"), "object": "event", "api_version": "2025-09-30.clover",
        "created": created, "livemode": false, "type": format!("customer.subscription.{change}"),
        "data": { "object": {
            "id": "sub_1", "object": "subscription", "customer": "cus_1", "status": status, "created": 5,
            "cancel_at_period_end": false, "metadata": { "pandastack_org": "org-1" },
            "items": { "object": "list", "data": [
                { "id": "si_0", "price": { "id": "price_over" }, "current_period_end": 900 },
                { "id": "si_1", "price": { "id": price }, "current_period_end": 1000 },
            ] },
        } },
    })
}

fn invoice_event(kind: &str, created: u64) -> Value {
    json!({
        "id": format!("evt_{kind}_{created}"), "created": created, "livemode": false, "type": format!("invoice.{kind}"),
        "data": { "object": {
            "id": "in_1", "customer": "cus_1",
            "parent": { "type": "subscription_details", "subscription_details": { "subscription": "sub_1" } },
        } },
    })
}

fn parse(event: &Value) -> StripeEvent {
    StripeEvent::parse(event.to_string().as_bytes()).unwrap()
}

fn prices() -> StripePrices {
    StripePrices {
        pro_monthly: Some("price_pro".into()),
        team_annual: Some("price_team".into()),
        overage: Some("price_over".into()),
        ..StripePrices::default()
    }
}

#[test]
fn events_are_read_in_both_shapes_of_the_api() {
    let new = parse(&subscription_event("updated", 70, "active", "price_pro"));
    let StripeEventKind::Subscription(report) = &new.kind else { panic!("{new:?}") };
    assert_eq!((report.id.as_str(), new.customer(), new.org()), ("sub_1", Some("cus_1"), Some("org-1")));
    assert_eq!((report.period_end_s, report.prices.len(), new.mode), (Some(1000), 2, StripeMode::Test));
    let mut old = subscription_event("updated", 70, "active", "price_pro");
    old["data"]["object"]["current_period_end"] = json!(777);
    old["data"]["object"]["customer"] = json!({ "id": "cus_1", "object": "customer" });
    old["livemode"] = json!(true);
    let old = parse(&old);
    let StripeEventKind::Subscription(report) = &old.kind else { panic!("{old:?}") };
    assert_eq!((report.period_end_s, old.customer(), old.mode), (Some(777), Some("cus_1"), StripeMode::Live));

    let mut invoice = invoice_event("paid", 9);
    let about = |event: &Value| match parse(event).kind {
        StripeEventKind::InvoicePaid { subscription, .. } => subscription,
        other => panic!("{other:?}"),
    };
    assert_eq!(about(&invoice).as_deref(), Some("sub_1"));
    invoice["data"]["object"] = json!({ "id": "in_1", "customer": "cus_1", "subscription": "sub_old" });
    assert_eq!(about(&invoice).as_deref(), Some("sub_old"));

    let checkout = json!({ "id": "evt_1", "created": 1, "type": "checkout.session.completed", "data": { "object": {
        "id": "cs_1", "mode": "subscription", "client_reference_id": "org-1",
        "customer": "cus_1", "subscription": "sub_1",
    } } });
    assert_eq!((parse(&checkout).org(), parse(&checkout).customer()), (Some("org-1"), Some("cus_1")));
    for (field, value) in [("type", json!("charge.refunded")), ("type", json!("x".repeat(9999)))] {
        let mut other = checkout.clone();
        other[field] = value;
        assert_eq!(parse(&other).kind, StripeEventKind::Ignored);
    }
    let mut payment = checkout;
    payment["data"]["object"]["mode"] = json!("payment");
    assert_eq!(parse(&payment).kind, StripeEventKind::Ignored);
}

#[test]
fn a_body_that_is_no_event_is_refused() {
    let whole = subscription_event("updated", 1, "active", "price_pro");
    for (path, field) in [
        (vec!["id"], "id"),
        (vec!["type"], "type"),
        (vec!["created"], "created"),
        (vec!["data", "object", "id"], "subscription"),
        (vec!["data", "object", "customer"], "customer"),
        (vec!["data", "object", "status"], "status"),
    ] {
        for bad in [Value::Null, json!(-1), json!("x".repeat(300)), json!("a\nb")] {
            let mut broken = whole.clone();
            let slot = path.iter().fold(&mut broken, |at, key| &mut at[*key]);
            *slot = bad.clone();
            let read = StripeEvent::parse(broken.to_string().as_bytes());
            // Any text is a type or a status, only an unknown one.
            if !bad.is_string() || !matches!(field, "type" | "status") {
                assert_eq!(read, Err(BadEvent::Field(field)), "{path:?} {bad}");
            } else {
                assert!(read.is_ok(), "{path:?} {bad}");
            }
        }
    }
    assert_eq!(StripeEvent::parse(b"{"), Err(BadEvent::NotJson));
    assert_eq!(StripeEvent::parse("[".repeat(5000).as_bytes()), Err(BadEvent::NotJson));
    assert_eq!(StripeEvent::parse(&vec![b' '; WEBHOOK_EVENT_BYTES_MAX + 1]), Err(BadEvent::TooLong));
}

/// Applies events in the given order of arrival.
fn applied(events: &[Value]) -> Subscription {
    events.iter().fold(Subscription::default(), |state, event| state.after(&parse(event), &prices()))
}

#[test]
fn a_subscription_goes_from_paid_over_grace_to_read_only_and_back() {
    let day = 86_400;
    let grace = Duration::from_secs(10 * day);
    let mut events = vec![subscription_event("created", 100, "active", "price_pro")];
    assert_eq!(applied(&events).standing(100, grace), Standing::Paid { plan: PlanName::Pro });
    events.push(subscription_event("updated", 100 + 30 * day, "past_due", "price_pro"));
    let since_s = 100 + 30 * day;
    let until_s = since_s + 10 * day;
    let late = applied(&events);
    assert_eq!(late.standing(since_s + 1, grace), Standing::Grace { plan: PlanName::Pro, until_s });
    assert_eq!(late.standing(until_s, grace), Standing::ReadOnly { plan: PlanName::Pro, since_s: until_s });
    // Reminders do not start the grace period again.
    events.push(invoice_event("payment_failed", since_s + 5 * day));
    events.push(subscription_event("updated", since_s + 6 * day, "unpaid", "price_pro"));
    assert_eq!(applied(&events).standing(since_s + 7 * day, grace), Standing::Grace { plan: PlanName::Pro, until_s });
    // A paid invoice counts before the subscription's own event arrives.
    events.push(invoice_event("paid", since_s + 8 * day));
    assert_eq!(applied(&events).standing(until_s, grace), Standing::Paid { plan: PlanName::Pro });
    events.push(subscription_event("updated", since_s + 8 * day, "active", "price_team"));
    assert_eq!(applied(&events).standing(until_s, grace), Standing::Paid { plan: PlanName::Team });
    events.push(subscription_event("deleted", since_s + 9 * day, "canceled", "price_team"));
    assert_eq!(applied(&events).standing(until_s, grace), Standing::Free);
    assert_eq!(applied(&events).standing(until_s, grace).plan(), PlanName::Free);
}

#[test]
fn a_second_failure_has_its_own_grace_period() {
    let events = [(100, "past_due"), (200, "active"), (300, "past_due"), (310, "unpaid")]
        .map(|(at, status)| subscription_event("updated", at, status, "price_pro"));
    let grace = Duration::from_secs(50);
    let expected = Standing::Grace { plan: PlanName::Pro, until_s: 350 };
    assert_eq!(applied(&events).standing(349, grace), expected);
    let late_good_news = [0, 2, 3, 1].map(|at| events[at].clone());
    assert_eq!(applied(&late_good_news).standing(349, grace), expected);
}

#[test]
fn a_deleted_subscription_never_comes_back() {
    let events = [
        subscription_event("deleted", 50, "canceled", "price_pro"),
        subscription_event("updated", 60, "active", "price_pro"),
    ];
    assert_eq!(applied(&events).standing(70, GRACE_DEFAULT), Standing::Free);
    let reversed = [events[1].clone(), events[0].clone()];
    assert_eq!(applied(&reversed).standing(70, GRACE_DEFAULT), Standing::Free);
    let mut bought_again = subscription_event("created", 80, "active", "price_team");
    bought_again["data"]["object"]["id"] = json!("sub_2");
    bought_again["data"]["object"]["created"] = json!(80);
    let state = applied(&[events[0].clone(), bought_again.clone(), events[1].clone(), events[0].clone()]);
    assert_eq!((state.id.as_deref(), state.standing(90, GRACE_DEFAULT).plan()), (Some("sub_2"), PlanName::Team));
}

#[test]
fn a_subscription_without_payment_or_known_price_gives_no_plan() {
    for (status, price) in [("incomplete", "price_pro"), ("incomplete_expired", "price_pro"), ("active", "price_other")]
    {
        let state = applied(&[subscription_event("created", 10, status, price)]);
        assert_eq!(state.standing(20, GRACE_DEFAULT), Standing::Free, "{status} {price}");
    }
    let mut contract = subscription_event("created", 10, "active", "price_other");
    contract["data"]["object"]["metadata"]["pandastack_plan"] = json!("custom");
    assert_eq!(applied(&[contract]).standing(20, GRACE_DEFAULT), Standing::Paid { plan: PlanName::Custom });
    let paused = applied(&[subscription_event("updated", 10, "paused", "price_pro")]);
    assert_eq!(paused.standing(20, GRACE_DEFAULT), Standing::ReadOnly { plan: PlanName::Pro, since_s: 10 });
    let strange = [
        subscription_event("created", 10, "active", "price_pro"),
        subscription_event("updated", 11, "dancing", "price_pro"),
    ];
    assert_eq!(applied(&strange), applied(&strange[..1]), "an unknown status changes nothing");
}

#[test]
fn every_status_is_read_back() {
    for status in SubscriptionStatus::ALL {
        assert_eq!(SubscriptionStatus::read(status.as_str()), status);
    }
}

fn event() -> impl Strategy<Value = Value> {
    let time = 100_u64..112;
    let statuses = ["incomplete", "active", "trialing", "past_due", "unpaid", "paused"];
    let status = prop::sample::select(statuses.to_vec());
    let price = prop::sample::select(vec!["price_pro", "price_team", "price_other"]);
    let change = prop::sample::select(vec!["created", "updated", "updated", "updated"]);
    let invoice = prop::sample::select(vec!["paid", "payment_failed"]);
    prop_oneof![
        6 => (change, time.clone(), status, price)
            .prop_map(|(change, at, status, price)| subscription_event(change, at, status, price)),
        1 => time.clone().prop_map(|at| subscription_event("deleted", at, "canceled", "price_pro")),
        2 => (invoice, time).prop_map(|(kind, at)| invoice_event(kind, at)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn the_order_and_number_of_events_have_no_effect(
        events in prop::collection::vec(event(), 1..12),
        keys in prop::collection::vec(any::<u64>(), 24),
    ) {
        let straight = applied(&events);
        let mut keyed: Vec<_> = events.iter().chain(&events).zip(keys).collect();
        keyed.sort_by_key(|(_, key)| *key);
        let shuffled: Vec<_> = keyed.into_iter().map(|(event, _)| event.clone()).collect();
        prop_assert_eq!(applied(&shuffled), straight);
    }

    #[test]
    fn no_bytes_panic(header in ".{0,200}", body in prop::collection::vec(any::<u8>(), 0..300), now_s: u64) {
        let _ = verify_signature(&header, &body, &secret("whsec_a"), now_s);
        let _ = StripeEvent::parse(&body);
    }
}
