//! The client against the stand-in, over real HTTP on loopback.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use pandastack_kit::{Clock, Scope};
use serde_json::json;

use super::*;
use crate::{
    calendar::UtcHour,
    limits::STRIPE_ANSWER_MAX,
    plans::PlanName,
    posting::{BeforePosting, ClaimedRow, DeadReason, PostingPlan},
    stand_in::{LoopbackTransport, StripeFault, StripeStandIn},
};

const KEY: &str = "sk_test_right";
pub(crate) const HOUR_S: u64 = 1_772_323_200;
/// A few minutes after the hour.
pub(crate) const NOW_S: u64 = HOUR_S + 3600 + 300;

/// A clock that tests move.
struct SetClock(AtomicU64);

impl Clock for SetClock {
    fn now_ns(&self) -> u64 {
        self.0.load(Ordering::SeqCst) * 1_000_000_000
    }
}

/// A client and its stand-in.
pub(crate) struct StripeRig {
    pub stripe: StripeStandIn,
    clock: Arc<SetClock>,
    pub client: StripeClient,
}

fn settings(key: &str) -> Arc<StripeSettings> {
    let settings = StripeSettings::read(|name| {
        let value = match name {
            "STRIPE_SECRET_KEY" => key,
            "STRIPE_METER_EVENT_NAME" => "usage",
            "STRIPE_PRICE_PRO_MONTHLY" => "price_pm",
            "STRIPE_PRICE_OVERAGE" => "price_over",
            "STRIPE_PORTAL_CONFIG" => "bpc_1",
            _ => return None,
        };
        Some(value.to_owned())
    });
    Arc::new(settings.unwrap().unwrap())
}

impl StripeRig {
    pub async fn start() -> Self {
        let clock = Arc::new(SetClock(AtomicU64::new(NOW_S)));
        let stripe = StripeStandIn::start(KEY, clock.clone()).await;
        let client = StripeClient::new(Arc::new(stripe.transport(STRIPE_ANSWER_MAX)), settings(KEY));
        Self { stripe, clock, client }
    }

    fn now_s(&self) -> u64 {
        self.clock.now_ns() / 1_000_000_000
    }

    pub async fn post(&self, event: &MeterEvent, key_turn: u32) -> PostOutcome {
        self.client.post_meter_event(event, key_turn, self.now_s()).await
    }

    /// Makes a client whose transport differs.
    fn client_with(&self, transport: LoopbackTransport) -> StripeClient {
        StripeClient::new(Arc::new(transport), settings(KEY))
    }
}

pub(crate) fn event(value: u64) -> MeterEvent {
    MeterEvent::new("org-1", "usage", "cus_1", UtcHour::starting_at(HOUR_S).unwrap(), value).unwrap()
}

pub(crate) fn retried(outcome: &PostOutcome) -> (RetryReason, Recorded) {
    let PostOutcome::Retry(advice) = outcome else { panic!("{outcome:?}") };
    (advice.reason, advice.recorded)
}

#[tokio::test]
async fn an_event_is_posted_as_stripe_documents_it() {
    let rig = StripeRig::start().await;
    let outcome = rig.post(&event(77), 0).await;
    assert_eq!(outcome, PostOutcome::Posted { request_id: Some("req_1".to_owned()) });
    let counted = rig.stripe.counted();
    assert_eq!((counted.len(), counted[0].value, counted[0].timestamp_s), (1, 77, HOUR_S + 3599));
    let request = &rig.stripe.requests()[0];
    assert_eq!(request.idempotency_key.as_deref(), Some(counted[0].identifier.as_str()));
    assert_eq!(
        (request.path.as_str(), request.version.as_deref()),
        ("/v1/billing/meter_events", Some(STRIPE_API_VERSION))
    );
    rig.stripe.stop().await;
}

#[tokio::test]
async fn a_repetition_is_never_counted_twice() {
    let rig = StripeRig::start().await;
    assert!(matches!(rig.post(&event(5), 0).await, PostOutcome::Posted { .. }));
    // The same key: Stripe replays its answer. Another key: Stripe knows the identifier.
    assert!(matches!(rig.post(&event(5), 0).await, PostOutcome::Posted { .. }));
    assert_eq!(rig.post(&event(5), 1).await, PostOutcome::Duplicate);
    assert_eq!(rig.stripe.billed("cus_1", "usage"), 5);
    // The same key with other fields would be a defect of ours.
    let PostOutcome::Refused(refusal) = rig.post(&event(6), 0).await else { panic!() };
    assert_eq!(refusal.kind.as_deref(), Some("idempotency_error"));
}

#[tokio::test]
async fn every_fault_is_sorted_and_a_retry_counts_once() {
    let lost = (RetryReason::ConnectionLost, Recorded::Unknown);
    for (fault, expected) in [
        (StripeFault::RateLimited { retry_after_s: Some(9) }, (RetryReason::RateLimited, Recorded::No)),
        (StripeFault::LockTimeout, (RetryReason::RateLimited, Recorded::No)),
        (StripeFault::ServerError(500), (RetryReason::ServerError(500), Recorded::Unknown)),
        (StripeFault::ServerErrorAfterCounting(503), (RetryReason::ServerError(503), Recorded::Unknown)),
        (StripeFault::LostRequest, lost),
        (StripeFault::LostAnswer, lost),
    ] {
        let rig = StripeRig::start().await;
        rig.stripe.fail_next(fault.clone());
        let row = ClaimedRow { timestamp_s: event(8).timestamp_s, ..ClaimedRow::default() };
        let first = rig.post(&event(8), row.key_turn).await;
        assert_eq!(retried(&first), expected, "{fault:?}");
        let PostingPlan::Again { key_turn, .. } = row.after(first, NOW_S, 0) else { panic!("{fault:?}") };
        let second = rig.post(&event(8), key_turn).await;
        assert!(matches!(second, PostOutcome::Posted { .. } | PostOutcome::Duplicate), "{fault:?}: {second:?}");
        assert_eq!(rig.stripe.billed("cus_1", "usage"), 8, "{fault:?}");
    }
}

#[tokio::test]
async fn a_stored_server_error_comes_back_until_the_key_changes() {
    let rig = StripeRig::start().await;
    rig.stripe.fail_next(StripeFault::ServerError(500));
    for _ in 0..2 {
        assert_eq!(retried(&rig.post(&event(3), 0).await).0, RetryReason::ServerError(500));
    }
    assert!(matches!(rig.post(&event(3), 1).await, PostOutcome::Posted { .. }));
}

#[tokio::test]
async fn stripe_is_asked_again_after_the_time_it_named() {
    let rig = StripeRig::start().await;
    rig.stripe.fail_next(StripeFault::RateLimited { retry_after_s: Some(90) });
    let PostOutcome::Retry(advice) = rig.post(&event(1), 0).await else { panic!() };
    assert_eq!(advice.retry_after, Some(Duration::from_secs(90)));
    let row = ClaimedRow::default();
    let PostingPlan::Again { next_try_s, .. } = row.after(PostOutcome::Retry(advice), NOW_S, 0) else { panic!() };
    assert_eq!(next_try_s, NOW_S + 90);
}

#[tokio::test]
async fn an_answer_that_never_comes_is_a_timeout_and_the_event_counts_once() {
    let rig = StripeRig::start().await;
    let impatient = rig.client_with(rig.stripe.transport(Duration::from_millis(200)));
    rig.stripe.fail_next(StripeFault::Slow(Duration::from_secs(3600)));
    let first = impatient.post_meter_event(&event(4), 0, NOW_S).await;
    assert_eq!(retried(&first), (RetryReason::Timeout, Recorded::Unknown));
    // While Stripe still works on the first request it refuses the second one.
    let settle = async {
        loop {
            match rig.post(&event(4), 0).await {
                PostOutcome::Retry(advice) => assert_eq!(advice.recorded, Recorded::No, "{advice:?}"),
                outcome => return outcome,
            }
        }
    };
    let outcome = tokio::time::timeout(Duration::from_secs(60), settle).await.expect("the first request ends");
    assert!(matches!(outcome, PostOutcome::Posted { .. }), "{outcome:?}");
    assert_eq!(rig.stripe.billed("cus_1", "usage"), 4);
    rig.stripe.stop().await;
}

#[tokio::test]
async fn a_server_that_is_not_there_was_not_reached() {
    let rig = StripeRig::start().await;
    let address = rig.stripe.address();
    rig.stripe.stop().await;
    drop(rig.stripe);
    let client =
        StripeClient::new(Arc::new(LoopbackTransport::new(address, STRIPE_ANSWER_MAX, Scope::new())), settings(KEY));
    let outcome = client.post_meter_event(&event(1), 0, NOW_S).await;
    assert_eq!(retried(&outcome), (RetryReason::NotSent, Recorded::No));
}

#[tokio::test]
async fn a_wrong_key_keeps_the_event_for_later() {
    let rig = StripeRig::start().await;
    let wrong = StripeClient::new(Arc::new(rig.stripe.transport(STRIPE_ANSWER_MAX)), settings("sk_test_wrong"));
    let outcome = wrong.post_meter_event(&event(1), 0, NOW_S).await;
    assert_eq!(retried(&outcome), (RetryReason::Unauthorized(401), Recorded::No));
    assert!(matches!(rig.post(&event(1), 0).await, PostOutcome::Posted { .. }));
}

#[tokio::test]
async fn refusals_keep_stripes_words() {
    let rig = StripeRig::start().await;
    let error = json!({ "code": "resource_missing", "message": "No such customer: 'cus_1'" });
    rig.stripe.fail_next(StripeFault::Refuse { status: 404, error });
    let PostOutcome::Refused(refusal) = rig.post(&event(1), 0).await else { panic!() };
    assert_eq!((refusal.status, refusal.code.as_deref()), (404, Some("resource_missing")));
    assert_eq!((refusal.message.as_str(), refusal.request_id.as_deref()), ("No such customer: 'cus_1'", Some("req_1")));
    let unnamed = MeterEvent { event_name: String::new(), ..event(1) };
    let PostOutcome::Refused(refusal) = rig.post(&unnamed, 0).await else { panic!() };
    assert_eq!((refusal.code.as_deref(), refusal.param.as_deref()), (Some("parameter_missing"), Some("event_name")));
    let long = MeterEvent { identifier: "i".repeat(101), ..event(1) };
    assert!(matches!(rig.post(&long, 0).await, PostOutcome::Refused(_)));
    assert!(rig.stripe.counted().is_empty());
}

#[tokio::test]
async fn events_outside_the_window_are_known_here_and_there() {
    let rig = StripeRig::start().await;
    let at = |timestamp_s| MeterEvent { timestamp_s, ..event(1) };
    let (oldest, newest) = (NOW_S - 35 * 86_400, NOW_S + 300);
    assert_eq!(rig.post(&at(oldest - 1), 0).await, PostOutcome::TooOld);
    assert_eq!(rig.post(&at(newest + 1), 0).await, PostOutcome::TooNew);
    assert!(rig.stripe.requests().is_empty(), "not even sent");
    // Stripe's clock may differ from ours.
    let client = rig.client_with(rig.stripe.transport(STRIPE_ANSWER_MAX));
    assert_eq!(client.post_meter_event(&at(oldest - 1), 0, NOW_S - 60).await, PostOutcome::TooOld);
    assert_eq!(client.post_meter_event(&at(newest + 1), 0, NOW_S + 60).await, PostOutcome::TooNew);
    assert!(rig.stripe.counted().is_empty());
    assert!(matches!(rig.post(&at(oldest), 0).await, PostOutcome::Posted { .. }));
}

/// The whole way of a row: claim, post, crash, claim again. `mark` is what the claim stored.
#[tokio::test]
async fn a_crash_between_posting_and_marking_never_bills_twice() {
    let rig = StripeRig::start().await;
    let row = ClaimedRow { timestamp_s: event(9).timestamp_s, ..ClaimedRow::default() };
    let mark = row.claim_mark(rig.now_s());
    assert!(matches!(rig.post(&event(9), 0).await, PostOutcome::Posted { .. }));
    // The process dies here. What is stored is the claim.
    let row = ClaimedRow { unsure_since_s: Some(mark), ..row };
    rig.clock.0.fetch_add(3600, Ordering::SeqCst);
    assert_eq!(row.before(rig.now_s()), BeforePosting::Post);
    let outcome = rig.post(&event(9), row.key_turn).await;
    assert_eq!(row.after(outcome, rig.now_s(), 0), PostingPlan::Posted { at_s: rig.now_s() });
    assert_eq!(rig.stripe.billed("cus_1", "usage"), 9);
    // A day later Stripe has forgotten the identifier, and would count the event again.
    rig.clock.0.fetch_add(24 * 3600, Ordering::SeqCst);
    assert_eq!(row.before(rig.now_s()), BeforePosting::Dead(DeadReason::OutcomeUnknown));
    assert!(matches!(rig.post(&event(9), row.key_turn).await, PostOutcome::Posted { .. }));
    assert_eq!(rig.stripe.billed("cus_1", "usage"), 18, "why the plan forbids it");
}

/// A worker that posts 48 hours of one org through every kind of fault, and crashes now and then.
#[tokio::test]
async fn a_worker_bills_every_event_exactly_once_whatever_happens() {
    let rig = StripeRig::start().await;
    let faults = [
        StripeFault::LostAnswer,
        StripeFault::RateLimited { retry_after_s: Some(1) },
        StripeFault::ServerErrorAfterCounting(500),
        StripeFault::LostRequest,
        StripeFault::ServerError(502),
        StripeFault::LockTimeout,
    ];
    let mut expected = 0;
    for number in 0_u64..48 {
        let hour = UtcHour::starting_at(HOUR_S - number * 3600).unwrap();
        let event = MeterEvent::new("org-1", "usage", "cus_1", hour, 1000 + number).unwrap();
        let mut row = ClaimedRow { timestamp_s: event.timestamp_s, ..ClaimedRow::default() };
        let mut crash = number % 3 == 0;
        let trouble = [&faults[number as usize % 6], &faults[number as usize / 6 % 6]];
        trouble.into_iter().for_each(|fault| rig.stripe.fail_next(fault.clone()));
        loop {
            assert_eq!(row.before(rig.now_s()), BeforePosting::Post);
            let mark = row.claim_mark(rig.now_s());
            let outcome = rig.post(&event, row.key_turn).await;
            if std::mem::take(&mut crash) {
                row.unsure_since_s = Some(mark);
                continue;
            }
            match row.after(outcome, rig.now_s(), 7) {
                PostingPlan::Posted { .. } => break,
                PostingPlan::Again { next_try_s, tries, key_turn, unsure_since_s, .. } => {
                    row = ClaimedRow { tries, key_turn, unsure_since_s, ..row };
                    rig.clock.0.store(next_try_s, Ordering::SeqCst);
                }
                other => panic!("{other:?}"),
            }
        }
        expected += u128::from(event.value);
    }
    assert_eq!(rig.stripe.billed("cus_1", "usage"), expected);
    assert_eq!(rig.stripe.counted().len(), 48);
}

#[tokio::test]
async fn customers_checkouts_and_portals_are_created() {
    let rig = StripeRig::start().await;
    let new = NewCustomer { org: "org-1", name: "Ann & Bob", email: Some("a+b@example.com") };
    let customer = rig.client.create_customer(new).await.unwrap();
    assert_eq!(rig.client.create_customer(new).await.unwrap(), customer, "a repetition makes no second customer");
    let checkout = NewCheckout {
        org: "org-1",
        customer: &customer,
        plan: PlanName::Pro,
        interval: BillingInterval::Month,
        success_url: "https://app.example/ok?s={CHECKOUT_SESSION_ID}",
        cancel_url: "https://app.example/no",
    };
    let page = rig.client.create_checkout(checkout).await.unwrap();
    assert!(page.id.starts_with("cs_test_") && page.url.starts_with("https://checkout.stripe.com/"), "{page:?}");
    let portal = rig.client.create_portal(&customer, "https://app.example/").await.unwrap();
    assert!(portal.url.starts_with("https://billing.stripe.com/"));
    let requests = rig.stripe.requests();
    assert_eq!(requests[0].field("name"), Some("Ann & Bob"));
    assert_eq!(requests[0].field("metadata[pandastack_org]"), Some("org-1"));
    let sold = &requests[2];
    assert_eq!((sold.field("mode"), sold.field("client_reference_id")), (Some("subscription"), Some("org-1")));
    assert_eq!(
        (sold.field("line_items[0][price]"), sold.field("line_items[0][quantity]")),
        (Some("price_pm"), Some("1"))
    );
    assert_eq!((sold.field("line_items[1][price]"), sold.field("line_items[1][quantity]")), (Some("price_over"), None));
    assert_eq!(sold.field("subscription_data[metadata][pandastack_org]"), Some("org-1"));
    assert_eq!(requests[3].field("configuration"), Some("bpc_1"));

    let annual = NewCheckout { interval: BillingInterval::Year, ..checkout };
    let error = rig.client.create_checkout(annual).await.unwrap_err();
    assert!(error.to_string().contains("STRIPE_PRICE_PRO_ANNUAL"), "{error}");
    let free = NewCheckout { plan: PlanName::Free, ..checkout };
    assert_eq!(rig.client.create_checkout(free).await, Err(StripeCallError::NotSold { plan: PlanName::Free }));
    let bad = NewCheckout { customer: "cus 1", ..checkout };
    assert_eq!(rig.client.create_checkout(bad).await, Err(StripeCallError::BadValue { what: "the customer" }));
    rig.stripe.fail_next(StripeFault::Refuse { status: 400, error: json!({ "message": "no" }) });
    assert!(matches!(rig.client.create_portal("cus_1", "x").await, Err(StripeCallError::Refused(_))));
    rig.stripe.fail_next(StripeFault::LostAnswer);
    assert!(matches!(rig.client.create_portal("cus_1", "x").await, Err(StripeCallError::Retry(_))));
}

#[test]
fn requests_never_show_their_secrets() {
    let request = StripeRequest {
        path: "/v1/customers",
        headers: vec![("Authorization", "Bearer sk_live_hidden".to_owned())],
        body: "email=hidden".to_owned(),
    };
    let shown = format!("{request:?}");
    assert!(!shown.contains("hidden") && shown.contains("Authorization"), "{shown}");
}
