//! Section 9 of the contract: metered billing. Stripe is a stand-in on loopback.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use pandastack_billing::{
    CalendarWindow, UtcHour,
    stand_in::{ReceivedRequest, StripeFault, StripeStandIn},
    stripe::meter_identifier,
};
use pandastack_control::{ControlSettings, PlanName, QuotaOverrides, StripeSettings};
use pandastack_kit::{Clock, Secret};
use pandastack_wire_fleet::{MachineEvent, MachineFact, stub::StubHost};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    billing::{HOUR, NOON_S, S, StillClock, Teller, in_org, rig},
    people::{self, Somebody},
    quotas::{AT_MOST, limit, send},
    rig::{OTHER_KEY, Rig, answer, wait_for},
    stripe::{STRIPE_KEY, WEBHOOK_SECRET, billing},
};

/// What a machine of the tests costs in an hour, and the credit of plan pro, in micro-dollars.
const HOUR_MICROS: u128 = 90_000;
const CREDIT_MICROS: u128 = 20_000_000;

/// A server that is connected to a stand-in for Stripe, and an organisation that is a customer.
pub struct Shop {
    pub rig: Rig,
    pub stripe: StripeStandIn,
    pub clock: Arc<StillClock>,
    owner: Somebody,
    customer: String,
}

impl Shop {
    pub async fn open() -> Self {
        let clock = StillClock::at(NOON_S);
        let stripe = StripeStandIn::start(STRIPE_KEY, clock.clone() as Arc<dyn Clock>).await;
        let parts = (tempfile::tempdir().unwrap(), Arc::new(StubHost::default()), clock.clone() as Arc<dyn Clock>);
        let plans = ControlSettings { default_plan: PlanName::Free, ..ControlSettings::default() };
        let settings = billing(&stripe);
        let rig = Rig::start_prepared(parts, |control| control.with_settings(plans).with_billing(settings)).await;
        let root = people::operator(&rig).await;
        let owner = people::owner(&rig, &root, "ada").await;
        let path = format!("/v1/orgs/{}/billing/checkout", owner.org);
        assert_eq!(owner.send(&rig, Method::POST, &path, json!({"plan": "pro"})).await.0, 200);
        let customer = stripe.requests().pop().unwrap().field("customer").unwrap().to_owned();
        Self { rig, stripe, clock, owner, customer }
    }

    /// Tells the server about the subscription, as Stripe does.
    pub async fn tell(&self, id: &str, status: &str) -> u16 {
        let subscription = json!({
            "id": "sub_1", "object": "subscription", "customer": self.customer, "status": status, "created": NOON_S,
            "cancel_at_period_end": false, "metadata": {"pandastack_org": self.owner.org},
            "items": {"data": [{"price": {"id": "price_pro"}, "current_period_end": NOON_S + 30 * 24 * HOUR}]},
        });
        let event = self.stripe.event(id, "customer.subscription.updated", subscription);
        let to = self.rig.url.strip_prefix("http://").unwrap().parse().unwrap();
        let secret = Secret::new(WEBHOOK_SECRET.to_owned());
        self.stripe.send_webhook(to, "/v1/webhooks/stripe", &event, &[&secret]).await
    }

    pub async fn bill(&self) -> Value {
        let (status, bill) = self.owner.get(&self.rig, &format!("/v1/orgs/{}/billing", self.owner.org)).await;
        assert_eq!(status, 200, "{bill}");
        bill
    }

    /// Starts a machine in the organisation.
    async fn machine(&self) -> Teller<'_> {
        let ask = json!({"template": "mini"});
        let (status, made) = in_org(&self.rig, &self.owner, Method::POST, "/v1/sandboxes", ask).await;
        assert_eq!(status, 201, "{made}");
        Teller::start(&self.rig, &self.clock, made["id"].as_str().unwrap())
    }

    /// Buys plan pro and lets a machine run for 240 hours, which cost more than the credit. They
    /// are complete, but not yet counted.
    async fn run(&self) -> Teller<'_> {
        assert_eq!(self.tell("evt_1", "active").await, 200);
        let mut machine = self.machine().await;
        machine.beat(240 * HOUR);
        self.clock.pass(700);
        machine
    }

    async fn meter(&self) {
        self.rig.control.meter_usage().await.unwrap();
    }

    /// Returns the meter events as they arrived, refused ones included.
    fn posts(&self) -> Vec<ReceivedRequest> {
        let all = self.stripe.requests().into_iter();
        all.filter(|request| request.path == "/v1/billing/meter_events").collect()
    }

    async fn assert_billed_once(&self) {
        let bill = self.bill().await;
        assert_eq!((&bill["meter_events_pending"], &bill["meter_events_dead"]), (&json!(0), &json!(0)), "{bill}");
        assert_eq!(self.stripe.billed(&self.customer, "usage"), 240 * HOUR_MICROS - CREDIT_MICROS);
    }
}

fn near(value: &Value, expected: f64) {
    let value = value.as_f64().unwrap();
    assert!((value - expected).abs() < 0.01, "{value} is not {expected}");
}

#[tokio::test]
async fn free_plan_includes_5_40_dollars_of_credit_a_month() {
    let shop = Shop::open().await;
    let bill = shop.bill().await;
    assert_eq!((&bill["plan"], &bill["credit_usd"]), (&json!("free"), &json!(5.4)), "{bill}");
    let mut machine = shop.machine().await;
    // 60 hours of this machine cost as much as the credit.
    for (hours, hold) in [(59, Value::Null), (2, json!("billing.budget"))] {
        machine.beat(hours * HOUR);
        shop.meter().await;
        assert_eq!(shop.bill().await["hold"], hold, "after {hours} hours more");
    }
    assert!(shop.posts().is_empty(), "the free plan is not charged");
    // The next month has a credit of its own.
    shop.clock.pass(25 * 24 * HOUR);
    shop.meter().await;
    assert_eq!(shop.bill().await["hold"], Value::Null);
}

#[tokio::test]
async fn a_worker_posts_stripe_meter_events_idempotently() {
    let shop = Shop::open().await;
    shop.run().await;
    for _ in 0..3 {
        shop.meter().await;
    }
    assert_eq!(shop.posts().len(), 1);
    assert!(shop.posts()[0].idempotency_key.is_some());
    shop.assert_billed_once().await;
}

#[tokio::test]
async fn stripe_call_is_post_v1_billing_meter_events_with_the_documented_form_fields() {
    let shop = Shop::open().await;
    shop.run().await;
    shop.meter().await;
    let posts = shop.posts();
    let names: Vec<_> = posts[0].fields.iter().map(|(name, _)| name.as_str()).collect();
    let expected = ["event_name", "payload[stripe_customer_id]", "payload[value]", "identifier", "timestamp"];
    assert!(names.len() == expected.len() && expected.iter().all(|name| names.contains(name)), "{names:?}");
    let field = |name: &str| posts[0].field(name).unwrap().to_owned();
    assert_eq!((field("event_name"), field("payload[stripe_customer_id]")), ("usage".into(), shop.customer.clone()));
    assert!(field("payload[value]").parse::<u64>().is_ok(), "a numeric string");
    assert!(field("event_name").len() <= 100 && field("identifier").len() <= 100);
    let (time_s, now_s) = (field("timestamp").parse::<u64>().unwrap(), shop.clock.now_s());
    assert!(time_s + 35 * 24 * HOUR >= now_s && time_s <= now_s + 300, "{time_s} at {now_s}");
    // Stripe forgets identifiers after 24 hours. The mark of the row is our own.
    shop.clock.pass(25 * HOUR);
    shop.meter().await;
    assert_eq!(shop.posts(), posts);
}

#[tokio::test]
async fn one_row_per_org_meter_and_window_has_a_deterministic_identifier() {
    let shop = Shop::open().await;
    let mut machine = shop.run().await;
    for _ in 0..3 {
        shop.meter().await;
        machine.beat(HOUR);
    }
    let counted = shop.stripe.counted();
    assert_eq!((counted.len(), shop.posts().len()), (3, 3));
    let workspace = shop.bill().await["workspace"].as_str().unwrap().to_owned();
    for event in counted {
        let hour = UtcHour::of(event.timestamp_s * S);
        assert_eq!(event.identifier, meter_identifier(&workspace, "usage", hour));
    }
}

#[tokio::test]
async fn an_event_that_is_not_taken_backs_off_and_keeps_its_identifier() {
    let shop = Shop::open().await;
    shop.run().await;
    shop.stripe.fail_next(StripeFault::RateLimited { retry_after_s: Some(5) });
    shop.meter().await;
    assert_eq!((shop.posts().len(), &shop.bill().await["meter_events_pending"]), (1, &json!(1)));
    shop.meter().await;
    assert_eq!(shop.posts().len(), 1, "not before its time");
    shop.clock.pass(2 * HOUR);
    shop.meter().await;
    let posts = shop.posts();
    assert_eq!((posts.len(), posts[0].field("identifier")), (2, posts[1].field("identifier")));
    shop.assert_billed_once().await;
}

#[tokio::test]
async fn a_duplicate_identifier_refusal_marks_the_event_posted() {
    let shop = Shop::open().await;
    shop.run().await;
    let error = json!({"message": "An event already exists with identifier pandastack-1."});
    shop.stripe.fail_next(StripeFault::Refuse { status: 400, error });
    for _ in 0..2 {
        shop.meter().await;
        shop.clock.pass(2 * HOUR);
    }
    assert_eq!(shop.posts().len(), 1);
    let bill = shop.bill().await;
    assert_eq!((&bill["meter_events_pending"], &bill["meter_events_dead"]), (&json!(0), &json!(0)), "{bill}");
}

#[tokio::test]
async fn a_crash_between_post_and_mark_does_not_double_bill() {
    let shop = Shop::open().await;
    shop.run().await;
    // Stripe counts the event, and the worker is gone before the answer.
    shop.stripe.fail_next(StripeFault::Slow(Duration::from_secs(60)));
    tokio::select! {
        ended = shop.rig.control.meter_usage() => panic!("the answer takes a minute: {ended:?}"),
        () = wait_for("the event is counted", || async { shop.stripe.counted().len() == 1 }) => {}
    }
    assert_eq!(shop.bill().await["meter_events_pending"], json!(1));
    wait_for("the row is marked", || async {
        shop.clock.pass(700);
        shop.meter().await;
        shop.bill().await["meter_events_pending"] == json!(0)
    })
    .await;
    assert!(shop.posts().len() > 1, "it was sent again");
    shop.assert_billed_once().await;
}

#[tokio::test]
async fn rows_are_claimed_so_that_two_workers_post_none_twice() {
    let shop = Shop::open().await;
    shop.run().await;
    let worker = || shop.rig.control.meter_usage();
    let (one, two) = tokio::join!(worker(), worker());
    assert!(one.is_ok() && two.is_ok());
    assert_eq!(shop.posts().len(), 1);
    shop.assert_billed_once().await;
}

#[tokio::test]
async fn hibernated_sandboxes_accrue_no_compute() {
    let clock = StillClock::at(NOON_S);
    let rig = rig(&clock).await;
    let id = rig.created().await;
    Teller::start(&rig, &clock, &id).beat(HOUR);
    let told = *rig.host.machine_facts.lock().unwrap().last().unwrap();
    let (sequence, at_ns) = (told.sequence + 1, clock.now_ns());
    let asleep = MachineFact { sequence, change: MachineEvent::Hibernated, at_ns, seen_ns: at_ns, ..told };
    rig.host.machine_facts.lock().unwrap().push(asleep);
    clock.pass(10 * HOUR);
    rig.control.meter_usage().await.unwrap();
    let (_, bill) = rig.get("/v1/billing").await;
    near(&bill["mtd_vcpu_seconds"], (2 * HOUR) as f64);
    near(&bill["mtd_memory_gib_seconds"], (2 * HOUR) as f64);
    near(&bill["mtd_storage_gib_seconds"], (11 * HOUR) as f64);
}

#[tokio::test]
async fn provisioned_volume_storage_accrues_always_at_0_15_dollars_per_gib_month_over_the_plan_quota() {
    // The first of March. The month has 31 days.
    let clock = StillClock::at(NOON_S - 9 * 24 * HOUR - 12 * HOUR);
    let rig = rig(&clock).await;
    let own =
        QuotaOverrides { max_volume_size_gib: AT_MOST(11), max_volume_total_gib: AT_MOST(11), ..Default::default() };
    limit(&rig, "free", own).await;
    let (status, made) = send(&rig, Method::POST, "/v1/volumes", json!({"name": "v", "size_mb": 11 * 1024})).await;
    assert_eq!(status, 201, "{made}");
    clock.pass(31 * 24 * HOUR - 1);
    rig.control.meter_usage().await.unwrap();
    let (_, bill) = rig.stranger(Method::GET, "/v1/billing").await;
    // 1 GiB is included, and nobody used the other 10.
    near(&bill["mtd_storage_cost_usd"], 1.5);
    near(&bill["mtd_cost_usd"], 1.5);
}

#[tokio::test]
async fn stripe_settings_have_the_env_names_that_upstream_deploys() {
    let set = BTreeMap::from([
        ("STRIPE_SECRET_KEY", "sk_test_a"),
        ("STRIPE_METER_EVENT_NAME", "usage"),
        ("STRIPE_PRICE_PRO_MONTHLY", "price_pm"),
        ("STRIPE_PRICE_PRO_ANNUAL", "price_pa"),
        ("STRIPE_PRICE_TEAM_MONTHLY", "price_tm"),
        ("STRIPE_PRICE_TEAM_ANNUAL", "price_ta"),
        ("STRIPE_PRICE_OVERAGE", "price_o"),
        ("STRIPE_PORTAL_CONFIG", "bpc_1"),
        ("STRIPE_WEBHOOK_SECRET", "whsec_1"),
        ("STRIPE_PUBLISHABLE_KEY", "pk_test_1"),
    ]);
    let read = StripeSettings::read(|name| set.get(name).map(|value| (*value).to_owned())).unwrap().unwrap();
    let prices = &read.prices;
    let found = [&prices.pro_monthly, &prices.pro_annual, &prices.team_monthly, &prices.team_annual, &prices.overage];
    assert_eq!(
        found.map(|price| price.as_deref().unwrap()),
        ["price_pm", "price_pa", "price_tm", "price_ta", "price_o"]
    );
    assert_eq!((read.meter_event_name.as_str(), read.portal_config.as_deref()), ("usage", Some("bpc_1")));
    assert!(read.webhook_secret.is_some() && read.publishable_key.as_deref() == Some("pk_test_1"));
    let alias = |name: &str| if name == "STRIPE_API_KEY" { Some("sk_test_a".to_owned()) } else { None };
    let both = |name: &str| alias(name).or_else(|| set.get(name).map(|value| (*value).to_owned()));
    assert!(StripeSettings::read(both).unwrap().is_some(), "both names with the same key");
    let renamed = |name: &str| if name == "STRIPE_SECRET_KEY" { None } else { both(name) };
    assert!(StripeSettings::read(renamed).unwrap().is_some(), "the other name alone");
}

#[tokio::test]
async fn without_stripe_settings_billing_is_off_and_the_api_still_starts() {
    assert!(StripeSettings::read(|_| None).unwrap().is_none());
    let rig = Rig::start().await;
    let root = people::operator(&rig).await;
    assert_eq!((rig.get("/healthz").await.0, rig.created().await.len()), (200, 36));
    assert_eq!(rig.get("/v1/billing").await.1["billing_enabled"], json!(false));
    let path = format!("/v1/orgs/{}/billing/checkout", root.org);
    let (status, refused) = root.send(&rig, Method::POST, &path, json!({"plan": "pro"})).await;
    assert_eq!((status, &refused["code"]), (409, &json!("billing.off")), "{refused}");
}

#[tokio::test]
async fn get_v1_pricing_is_public_with_rates_and_tiers() {
    let rig = Rig::start().await;
    let (status, pricing) = answer(rig.http.get(format!("{}/v1/pricing", rig.url))).await;
    assert_eq!((status, &pricing["rates"]["volume_usd_per_gib_month"]), (200, &json!(0.15)), "{pricing}");
    let tiers = pricing["tiers"].as_array().unwrap();
    let names: Vec<_> = tiers.iter().map(|tier| tier["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["free", "pro", "team", "custom"]);
    for tier in &tiers[..3] {
        for name in ["max_volumes", "max_volume_size_gib", "max_volume_total_gib"] {
            assert!(tier[name].is_u64(), "{name} of {tier}");
        }
    }
}

#[tokio::test]
async fn get_v1_orgs_id_billing_is_for_members_and_its_storage_cost_is_part_of_the_total() {
    let shop = Shop::open().await;
    let mut machine = shop.machine().await;
    machine.beat(HOUR);
    shop.meter().await;
    let bill = shop.bill().await;
    let usd = |name: &str| bill[name].as_f64().unwrap();
    assert!(usd("mtd_cost_usd") > 0.0 && usd("mtd_storage_gib_seconds") > 0.0, "{bill}");
    let parts = usd("mtd_vcpu_cost_usd") + usd("mtd_memory_cost_usd") + usd("mtd_storage_cost_usd");
    assert!((usd("mtd_cost_usd") - parts).abs() < 1e-5, "{bill}");
    let url = format!("{}/v1/orgs/{}/billing", shop.rig.url, shop.owner.org);
    assert_eq!(answer(shop.rig.http.get(&url).bearer_auth(OTHER_KEY)).await.0, 401, "a key is no login");
    assert_eq!(answer(shop.rig.http.get(&url)).await.0, 401);
    let (_, begun) = people::log_in(&shop.rig, "root@example.com", people::PASSWORD).await;
    let root = people::known(&shop.rig, begun).await;
    assert_eq!(root.get(&shop.rig, &format!("/v1/orgs/{}/billing", shop.owner.org)).await.0, 404, "not a member");
}

#[tokio::test]
async fn post_v1_billing_sync_flushes_the_meter_queue_now_and_answers_posted_and_pending() {
    let shop = Shop::open().await;
    shop.run().await;
    let sync = async || in_org(&shop.rig, &shop.owner, Method::POST, "/v1/billing/sync", Value::Null).await;
    assert_eq!(sync().await, (200, json!({"posted": 1, "pending": 0})));
    assert_eq!(sync().await, (200, json!({"posted": 0, "pending": 0})));
    shop.assert_billed_once().await;
    assert_eq!(shop.rig.stranger(Method::POST, "/v1/billing/sync").await.0, 401, "a key is no login");
}
