//! What reaches Stripe, and what its events change. Stripe is a stand-in on loopback that follows
//! its documented rules; `billing.rs` has usage and budgets.

use std::{collections::BTreeMap, pin::pin, sync::Arc, task::Poll, time::Duration};

use pandastack_billing::stand_in::{StripeFault, StripeStandIn};
use pandastack_control::{BillingSettings, ControlSettings, PlanName, StripeSettings};
use pandastack_kit::{Clock, Secret};
use pandastack_wire_fleet::stub::StubHost;
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    billing::{HOUR, NOON_S, StillClock, Teller, in_org, near},
    people::{self, Somebody},
    rig::{OTHER_KEY, Rig, answer},
};

pub const STRIPE_KEY: &str = "sk_test_stand_in";
pub const WEBHOOK_SECRET: &str = "whsec_of_tests";

/// A server that is connected to a stand-in for Stripe, and a customer with a running machine.
struct Shop {
    rig: Rig,
    clock: Arc<StillClock>,
    stripe: StripeStandIn,
    owner: Somebody,
    customer: String,
}

impl Shop {
    async fn open() -> Self {
        let clock = StillClock::at(NOON_S);
        let stripe = StripeStandIn::start(STRIPE_KEY, clock.clone() as Arc<dyn Clock>).await;
        let settings = billing(&stripe);
        let parts = (tempfile::tempdir().unwrap(), Arc::new(StubHost::default()), clock.clone() as Arc<dyn Clock>);
        let plans = ControlSettings { default_plan: PlanName::Free, ..ControlSettings::default() };
        let rig = Rig::start_prepared(parts, |control| control.with_settings(plans).with_billing(settings)).await;
        let root = people::operator(&rig).await;
        let owner = people::owner(&rig, &root, "ada").await;
        let path = format!("/v1/orgs/{}/billing/checkout", owner.org);
        let (status, page) = owner.send(&rig, Method::POST, &path, json!({"plan": "pro"})).await;
        assert_eq!(status, 200, "{page}");
        let checkout = stripe.requests().pop().unwrap();
        assert_eq!(checkout.field("client_reference_id"), Some(owner.org.as_str()));
        let customer = checkout.field("customer").unwrap().to_owned();
        Self { rig, clock, stripe, owner, customer }
    }

    /// Tells the server about the subscription, as Stripe does.
    async fn tell(&self, id: &str, kind: &str, object: Value) -> u16 {
        let event = self.stripe.event(id, kind, object);
        let to = self.rig.url.strip_prefix("http://").unwrap().parse().unwrap();
        let secret = Secret::new(WEBHOOK_SECRET.to_owned());
        self.stripe.send_webhook(to, "/v1/webhooks/stripe", &event, &[&secret]).await
    }

    fn subscription(&self, status: &str) -> Value {
        json!({
            "id": "sub_1", "object": "subscription", "customer": self.customer, "status": status, "created": NOON_S,
            "cancel_at_period_end": false, "metadata": {"pandastack_org": self.owner.org},
            "items": {"data": [{"price": {"id": "price_pro"}, "current_period_end": NOON_S + 30 * 24 * HOUR}]},
        })
    }

    async fn subscribe(&self) {
        let object = self.subscription("active");
        assert_eq!(self.tell("evt_1", "customer.subscription.created", object).await, 200);
    }

    async fn bill(&self) -> Value {
        self.owner.get(&self.rig, &format!("/v1/orgs/{}/billing", self.owner.org)).await.1
    }

    async fn create(&self) -> (u16, Value) {
        in_org(&self.rig, &self.owner, Method::POST, "/v1/sandboxes", json!({"template": "mini"})).await
    }

    fn micros(&self) -> u128 {
        self.stripe.billed(&self.customer, "usage")
    }
}

pub fn billing(stripe: &StripeStandIn) -> BillingSettings {
    let variables = BTreeMap::from([
        ("STRIPE_SECRET_KEY", STRIPE_KEY),
        ("STRIPE_METER_EVENT_NAME", "usage"),
        ("STRIPE_PRICE_PRO_MONTHLY", "price_pro"),
        ("STRIPE_PRICE_OVERAGE", "price_overage"),
        ("STRIPE_WEBHOOK_SECRET", WEBHOOK_SECRET),
    ]);
    let stripe_settings = StripeSettings::read(|name| variables.get(name).map(|value| (*value).to_owned()));
    BillingSettings { stripe: stripe_settings.unwrap().unwrap(), base: Some(stripe.base_url().parse().unwrap()) }
}

/// What a machine of the tests costs in an hour, in micro-dollars: two CPUs and 2 GiB.
const HOUR_MICROS: u128 = 90_000;
/// The credit of the plan.
const CREDIT_MICROS: u128 = 20_000_000;

#[tokio::test]
async fn usage_above_the_credit_is_posted_once_for_each_hour() {
    let shop = Shop::open().await;
    assert_eq!(shop.bill().await["plan"], json!("free"));
    shop.subscribe().await;
    let bill = shop.bill().await;
    assert_eq!((&bill["plan"], &bill["subscription"]["status"]), (&json!("pro"), &json!("active")), "{bill}");
    let (status, made) = shop.create().await;
    assert_eq!(status, 201, "{made}");
    let mut machine = Teller::start(&shop.rig, &shop.clock, made["id"].as_str().unwrap());
    // 223 hours cost 20.07 dollars. The storage of 1 GiB is included.
    let mut expected = 0;
    for _ in 0..230 {
        machine.beat(HOUR);
        shop.clock.pass(700);
        shop.rig.control.meter_usage().await.unwrap();
        machine.beat(0);
        let seconds = u128::from(shop.clock.now_s() - NOON_S);
        let whole_hours = (seconds - 700) / u128::from(HOUR) * HOUR_MICROS;
        expected = whole_hours.saturating_sub(CREDIT_MICROS).max(expected);
        shop.rig.control.meter_usage().await.unwrap();
    }
    assert!(expected > 0);
    let billed = shop.micros();
    assert!(billed.abs_diff(expected) <= HOUR_MICROS, "{billed} and {expected}");
    let mut identifiers: Vec<_> = shop.stripe.counted().into_iter().map(|event| event.identifier).collect();
    let all = identifiers.len();
    identifiers.sort();
    identifiers.dedup();
    assert_eq!((identifiers.len(), shop.stripe.requests().len()), (all, all + 2), "no event was sent twice");
    assert_eq!(shop.bill().await["meter_events_pending"], json!(0));
}

#[tokio::test]
async fn a_failing_stripe_delays_an_event_and_never_doubles_it() {
    let shop = Shop::open().await;
    shop.subscribe().await;
    let (_, made) = shop.create().await;
    let mut machine = Teller::start(&shop.rig, &shop.clock, made["id"].as_str().unwrap());
    machine.beat(240 * HOUR);
    let faults = [
        StripeFault::RateLimited { retry_after_s: Some(2) },
        StripeFault::LockTimeout,
        StripeFault::ServerError(500),
        StripeFault::ServerErrorAfterCounting(503),
        StripeFault::LostRequest,
        StripeFault::LostAnswer,
        StripeFault::LostAnswer,
    ];
    for fault in faults.clone() {
        shop.stripe.fail_next(fault);
    }
    shop.clock.pass(700);
    for _ in 0..=faults.len() {
        shop.rig.control.meter_usage().await.unwrap();
        shop.clock.pass(2 * HOUR);
    }
    let counted = shop.stripe.counted();
    let first = counted.iter().map(|event| &event.identifier).min().unwrap();
    assert_eq!(counted.iter().filter(|event| event.identifier == *first).count(), 1);
    assert_eq!(shop.micros(), 240 * HOUR_MICROS - CREDIT_MICROS);
    assert_eq!(shop.bill().await["meter_events_pending"], json!(0));
}

/// Polls a future so many times and drops it, as a killed process would leave it.
async fn killed_after(polls: usize, work: impl Future) -> bool {
    let mut work = pin!(work);
    for _ in 0..polls {
        let step = std::future::poll_fn(|context| Poll::Ready(work.as_mut().poll(context).is_ready()));
        if step.await {
            return true;
        }
        // Lets the database and the socket answer.
        tokio::time::sleep(Duration::from_micros(300)).await;
    }
    false
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_killed_at_any_step_bills_every_second_once() {
    let shop = Shop::open().await;
    shop.subscribe().await;
    let (_, made) = shop.create().await;
    let mut machine = Teller::start(&shop.rig, &shop.clock, made["id"].as_str().unwrap());
    machine.beat(230 * HOUR);
    let (mut polls, mut hours) = (1, 230_u64);
    loop {
        // Every turn has an hour to count, to queue and to post.
        machine.beat(HOUR);
        shop.clock.pass(700);
        hours += 1;
        let ended = killed_after(polls, shop.rig.control.meter_usage()).await;
        // A claim of the killed worker ends by itself. The next worker does the rest.
        machine.beat(HOUR - 700);
        hours += 1;
        shop.rig.control.meter_usage().await.unwrap();
        if ended {
            break;
        }
        polls += 1 + polls / 16;
    }
    assert!(polls > 10, "the worker was killed in {polls} places only");
    shop.clock.pass(HOUR);
    for _ in 0..3 {
        shop.rig.control.meter_usage().await.unwrap();
        shop.clock.pass(700);
    }
    let (expected, billed) = (u128::from(hours) * HOUR_MICROS - CREDIT_MICROS, shop.micros());
    assert!(expected - billed < HOUR_MICROS, "{billed} of {expected}");
    let bill = shop.bill().await;
    assert_eq!((&bill["meter_events_pending"], &bill["meter_events_dead"]), (&json!(0), &json!(0)), "{bill}");
    near(&bill["mtd_vcpu_seconds"], (hours * 2 * HOUR) as f64);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_post_every_event_once() {
    let shop = Shop::open().await;
    shop.subscribe().await;
    let (_, made) = shop.create().await;
    let mut machine = Teller::start(&shop.rig, &shop.clock, made["id"].as_str().unwrap());
    machine.beat(223 * HOUR);
    let (scope, settings) = (pandastack_kit::Scope::new(), billing(&shop.stripe));
    let place = crate::backend::place(shop.rig.folder.path()).await;
    let clock = shop.clock.clone() as Arc<dyn Clock>;
    let other = pandastack_control::Control::open(&place, shop.rig.host.clone(), scope.clone(), clock).await.unwrap();
    let other = other.with_billing(settings);
    for _ in 0..20 {
        machine.beat(HOUR);
        shop.clock.pass(700);
        let (one, two) = tokio::join!(shop.rig.control.meter_usage(), other.meter_usage());
        one.unwrap();
        two.unwrap();
        machine.beat(0);
    }
    let counted = shop.stripe.counted();
    assert_eq!(shop.stripe.requests().len(), counted.len() + 2, "no event was sent twice");
    let last_s = counted.iter().map(|event| event.timestamp_s + 1).max().unwrap();
    let until_last = u128::from(last_s - NOON_S) / u128::from(HOUR) * HOUR_MICROS;
    assert_eq!(shop.micros(), until_last - CREDIT_MICROS);
    scope.close(Duration::from_secs(5)).await;
    other.close().await;
}

#[tokio::test]
async fn an_unpaid_subscription_leads_to_read_only_and_a_payment_back() {
    let shop = Shop::open().await;
    shop.subscribe().await;
    let (status, made) = shop.create().await;
    assert_eq!(status, 201, "{made}");
    shop.clock.pass(24 * HOUR);
    assert_eq!(shop.tell("evt_2", "customer.subscription.updated", shop.subscription("past_due")).await, 200);
    let bill = shop.bill().await;
    assert_eq!((&bill["plan"], &bill["hold"]), (&json!("pro"), &Value::Null), "{bill}");
    assert!(bill["subscription"]["grace_until"].as_str().unwrap().starts_with("2026-03-25"), "{bill}");
    assert_eq!(shop.create().await.0, 201);
    shop.clock.pass(15 * 24 * HOUR);
    shop.rig.control.meter_usage().await.unwrap();
    let (status, refused) = shop.create().await;
    assert_eq!((status, &refused["code"]), (402, &json!("billing.unpaid")), "{refused}");
    let id = made["id"].as_str().unwrap();
    assert_eq!(shop.rig.host.state(id).as_str(), "hibernated");
    let path = format!("/v1/sandboxes/{id}");
    assert_eq!(in_org(&shop.rig, &shop.owner, Method::GET, &path, Value::Null).await.0, 200, "it can be read");
    let paid = json!({"id": "in_1", "object": "invoice", "customer": shop.customer, "subscription": "sub_1"});
    assert_eq!(shop.tell("evt_3", "invoice.paid", paid.clone()).await, 200);
    assert_eq!(shop.create().await.0, 201, "a payment counts at once");
    // An event that comes again changes nothing, and neither does an old one.
    assert_eq!(shop.tell("evt_2", "customer.subscription.updated", shop.subscription("unpaid")).await, 200);
    assert_eq!(shop.create().await.0, 201);
    // A canceled subscription leads to the free plan.
    shop.clock.pass(1);
    assert_eq!(shop.tell("evt_4", "customer.subscription.deleted", shop.subscription("canceled")).await, 200);
    assert_eq!(shop.bill().await["plan"], json!("free"));
}

#[tokio::test]
async fn only_stripe_itself_tells_about_subscriptions() {
    let shop = Shop::open().await;
    let event = shop.stripe.event("evt_9", "customer.subscription.created", shop.subscription("active"));
    let to = shop.rig.url.strip_prefix("http://").unwrap().parse().unwrap();
    let wrong = Secret::new("whsec_wrong".to_owned());
    assert_eq!(shop.stripe.send_webhook(to, "/v1/webhooks/stripe", &event, &[&wrong]).await, 400);
    let unsigned = shop.rig.http.post(format!("{}/v1/webhooks/stripe", shop.rig.url)).body(event);
    assert_eq!(unsigned.send().await.unwrap().status().as_u16(), 400);
    assert_eq!(shop.bill().await["plan"], json!("free"));
    let large = shop.rig.http.post(format!("{}/v1/webhooks/stripe", shop.rig.url)).body(vec![b'x'; 3 << 20]);
    assert_eq!(large.send().await.unwrap().status().as_u16(), 413);
    // Events about nobody here, or of a kind that is not used, are taken and change nothing.
    let nobody = json!({"id": "in_9", "object": "invoice", "customer": "cus_nobody", "subscription": "sub_9"});
    assert_eq!(shop.tell("evt_10", "invoice.paid", nobody).await, 200);
    assert_eq!(shop.tell("evt_11", "charge.refunded", json!({"id": "ch_1"})).await, 200);
}

#[tokio::test]
async fn pages_of_stripe_are_for_owners() {
    let shop = Shop::open().await;
    let (owner, rig) = (&shop.owner, &shop.rig);
    let (checkout, portal) =
        (format!("/v1/orgs/{}/billing/checkout", owner.org), format!("/v1/orgs/{}/billing/portal", owner.org));
    let (status, page) = owner.post(rig, &portal).await;
    assert_eq!(status, 200, "{page}");
    for (ask, expected) in [
        (json!({"plan": "free"}), 400),
        (json!({"plan": "gold"}), 400),
        (json!({"plan": "pro", "interval": "week"}), 400),
        (json!({"plan": "team"}), 409),
    ] {
        let (status, refused) = owner.send(rig, Method::POST, &checkout, ask).await;
        assert_eq!(status, expected, "{refused}");
    }
    shop.stripe.fail_next(StripeFault::ServerError(500));
    let (status, refused) = owner.post(rig, &portal).await;
    assert_eq!((status, &refused["code"]), (502, &json!("billing.stripe_unavailable")), "{refused}");
    shop.subscribe().await;
    let (status, refused) = owner.send(rig, Method::POST, &checkout, json!({"plan": "pro"})).await;
    assert_eq!((status, &refused["code"]), (409, &json!("billing.subscribed")), "{refused}");
    let admin = people::invited(rig, owner, "bob@example.com", "admin").await;
    assert_eq!(admin.post(rig, &portal).await.0, 403);
    // A flush answers with what was posted.
    let flushed = in_org(rig, owner, Method::POST, "/v1/billing/sync", json!({})).await;
    assert_eq!(flushed, (200, json!({"posted": 0, "pending": 0})));
    let key = rig.http.post(format!("{}/v1/billing/sync", rig.url)).bearer_auth(OTHER_KEY);
    assert_eq!(answer(key).await.0, 401);
}
