//! Usage, bills, budgets, and what reaches Stripe. Facts come from the stub host, as a real one
//! tells them; Stripe is a stand-in on loopback that follows its documented rules.

use std::{
    collections::BTreeMap,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::Poll,
    time::Duration,
};

use pandastack_billing::stand_in::{StripeFault, StripeStandIn};
use pandastack_control::{BillingSettings, ControlSettings, PlanName, StripeSettings};
use pandastack_kit::{Clock, Secret};
use pandastack_wire_fleet::{MachineEvent, MachineFact, stub::StubHost};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    people::{self, Somebody},
    rig::{OTHER_KEY, Rig, answer},
};

pub const S: u64 = 1_000_000_000;
pub const HOUR: u64 = 3600;
/// 2026-03-10, noon.
pub const NOON_S: u64 = 1_773_144_000;
pub const STRIPE_KEY: &str = "sk_test_stand_in";
pub const WEBHOOK_SECRET: &str = "whsec_of_tests";

/// A clock that stands still until a test moves it.
pub struct StillClock(AtomicU64);

impl StillClock {
    pub fn at(second: u64) -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(second * S)))
    }

    pub fn pass(&self, seconds: u64) {
        self.0.fetch_add(seconds * S, Ordering::SeqCst);
    }

    pub fn now_s(&self) -> u64 {
        self.now_ns() / S
    }
}

impl Clock for StillClock {
    fn now_ns(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// What a host tells about one sandbox.
pub struct Teller<'a> {
    host: &'a StubHost,
    clock: &'a StillClock,
    fact: MachineFact,
}

impl<'a> Teller<'a> {
    /// Starts a machine with two CPUs, 2 GiB of memory and a disk of 1 GiB.
    pub fn start(rig: &'a Rig, clock: &'a StillClock, sandbox: &str) -> Self {
        let fact = MachineFact {
            sandbox: sandbox.parse().unwrap(),
            epoch: 0,
            sequence: 1,
            change: MachineEvent::Started,
            vcpus: 2,
            memory_mib: 2048,
            disk_bytes: 1 << 30,
            at_ns: clock.now_ns(),
            seen_ns: clock.now_ns(),
        };
        let teller = Self { host: &rig.host, clock, fact };
        teller.tell();
        teller
    }

    fn tell(&self) {
        self.host.machine_facts.lock().unwrap().push(self.fact);
    }

    fn change(&mut self, change: MachineEvent) {
        let now_ns = self.clock.now_ns();
        let epoch = self.fact.epoch + u32::from(change == MachineEvent::Woken);
        let sequence = self.fact.sequence + 1;
        self.fact = MachineFact { epoch, sequence, change, at_ns: now_ns, seen_ns: now_ns, ..self.fact };
        self.tell();
    }

    /// Lets time pass and confirms that the state is still the same.
    pub fn beat(&mut self, seconds: u64) {
        self.clock.pass(seconds);
        self.fact.seen_ns = self.clock.now_ns();
        self.tell();
    }
}

pub async fn rig(clock: &Arc<StillClock>) -> Rig {
    let parts = (tempfile::tempdir().unwrap(), Arc::new(StubHost::default()), clock.clone() as Arc<dyn Clock>);
    Rig::start_prepared(parts, |control| control).await
}

fn near(value: &Value, expected: f64) {
    let value = value.as_f64().unwrap();
    assert!((value - expected).abs() < 1e-6, "{value} is not {expected}");
}

fn used(bill: &Value, vcpu: u64, memory: u64, storage: u64) {
    near(&bill["mtd_vcpu_seconds"], vcpu as f64);
    near(&bill["mtd_memory_gib_seconds"], memory as f64);
    near(&bill["mtd_storage_gib_seconds"], storage as f64);
}

async fn billed(rig: &Rig) -> Value {
    rig.control.meter_usage().await.unwrap();
    let (status, bill) = rig.get("/v1/billing").await;
    assert_eq!(status, 200, "{bill}");
    bill
}

#[tokio::test]
async fn usage_is_billed_by_the_second_in_every_state() {
    let clock = StillClock::at(NOON_S);
    let rig = rig(&clock).await;
    let id = rig.created().await;
    let mut machine = Teller::start(&rig, &clock, &id);
    machine.beat(100);
    used(&billed(&rig).await, 200, 200, 100);
    // Nothing new was told, and what was told is told again.
    clock.pass(50);
    used(&billed(&rig).await, 200, 200, 100);
    machine.tell();
    machine.tell();
    used(&billed(&rig).await, 200, 200, 100);
    machine.beat(50);
    used(&billed(&rig).await, 400, 400, 200);
    // Paused: memory and storage. Asleep: storage, without any heartbeat.
    machine.change(MachineEvent::Paused);
    machine.beat(10);
    used(&billed(&rig).await, 400, 420, 210);
    machine.change(MachineEvent::Hibernated);
    clock.pass(2 * HOUR);
    used(&billed(&rig).await, 400, 420, 210 + 2 * HOUR);
    machine.change(MachineEvent::Woken);
    machine.beat(5);
    used(&billed(&rig).await, 410, 430, 215 + 2 * HOUR);
    // The host lost the machine: nothing is billed after its last sign of life, and a new one has
    // its own time.
    clock.pass(1000);
    machine.change(MachineEvent::Woken);
    machine.beat(5);
    used(&billed(&rig).await, 420, 440, 220 + 2 * HOUR);
    // A deleted sandbox costs nothing any more, even if its host still tells about it.
    assert_eq!(rig.delete(&format!("/v1/sandboxes/{id}")).await, 204);
    machine.beat(500);
    used(&billed(&rig).await, 420, 440, 220 + 2 * HOUR);
    clock.pass(8 * HOUR);
    let bill = billed(&rig).await;
    used(&bill, 420, 440, 220 + 2 * HOUR);
    near(&bill["mtd_vcpu_cost_usd"], 0.0042);
    near(&bill["mtd_memory_cost_usd"], 0.0011);
    assert_eq!((&bill["period_start"], &bill["period_end"]), (&json!("2026-03-01"), &json!("2026-03-31")));
    assert_eq!((&bill["billing_enabled"], &bill["hold"]), (&json!(false), &Value::Null));
}

#[tokio::test]
async fn a_create_that_failed_is_not_billed() {
    let clock = StillClock::at(NOON_S);
    let rig = rig(&clock).await;
    rig.host.fail_next("ensure", pandastack_model::Fault::bug("a test"));
    let (status, refused) = rig.create(json!({"template": "mini"})).await;
    assert!(status >= 400, "{refused}");
    let database = rig.database().await;
    let row: (String, i64) =
        pandastack_database::query_as("SELECT id, created_at FROM usage_subject").fetch_one(&database).await.unwrap();
    let mut machine = Teller::start(&rig, &clock, &row.0);
    machine.beat(1000);
    used(&billed(&rig).await, 0, 0, 0);
}

#[tokio::test]
async fn volumes_cost_storage_from_their_making_to_their_end() {
    let clock = StillClock::at(NOON_S);
    let rig = rig(&clock).await;
    assert_eq!(rig.send(Method::POST, "/v1/volumes", json!({"name": "data", "size_mb": 2048})).await.0, 201);
    clock.pass(HOUR);
    used(&billed(&rig).await, 0, 0, 2 * HOUR);
    clock.pass(HOUR / 2);
    assert_eq!(rig.send(Method::PATCH, "/v1/volumes/data", json!({"size_mb": 4096})).await.0, 200);
    clock.pass(HOUR / 2);
    used(&billed(&rig).await, 0, 0, 5 * HOUR);
    assert_eq!(rig.delete("/v1/volumes/data").await, 204);
    clock.pass(5 * HOUR);
    used(&billed(&rig).await, 0, 0, 5 * HOUR);
    let (_, report) = rig.get("/v1/usage?by=template").await;
    assert_eq!(report["rows"][0]["key"], json!("volumes"), "{report}");
}

#[tokio::test]
async fn usage_is_split_by_day_template_sandbox_and_member() {
    let clock = StillClock::at(NOON_S);
    let rig = rig(&clock).await;
    let root = people::operator(&rig).await;
    let (status, made) = root.send(&rig, Method::POST, "/v1/sandboxes", json!({"template": "mini"})).await;
    assert_eq!(status, 201, "{made}");
    let (first, second) = (made["id"].as_str().unwrap().to_owned(), rig.created().await);
    let (mut one, mut other) = (Teller::start(&rig, &clock, &first), Teller::start(&rig, &clock, &second));
    clock.pass(13 * HOUR);
    one.beat(0);
    other.change(MachineEvent::Ended);
    rig.control.meter_usage().await.unwrap();
    let report = async |by: &str| {
        let (status, report) = root.get(&rig, &format!("/v1/orgs/{}/usage?by={by}", root.org)).await;
        assert_eq!((status, &report["by"]), (200, &json!(by)), "{report}");
        near(&report["total"]["vcpu_seconds"], (4 * 13 * HOUR) as f64);
        let rows = report["rows"].as_array().unwrap().iter();
        let rows = rows.map(|row| (row["key"].as_str().unwrap().to_owned(), row["vcpu_seconds"].as_f64().unwrap()));
        rows.collect::<BTreeMap<_, _>>()
    };
    let hours = |hours: u64| (hours * HOUR) as f64;
    assert_eq!(
        report("day").await,
        BTreeMap::from([("2026-03-10".to_owned(), hours(48)), ("2026-03-11".to_owned(), hours(4))])
    );
    assert_eq!(report("template").await, BTreeMap::from([("mini".to_owned(), hours(52))]));
    assert_eq!(report("sandbox").await, BTreeMap::from([(first, hours(26)), (second.clone(), hours(26))]));
    let members = report("member").await;
    assert_eq!((members.len(), members[&root.id]), (2, hours(26)), "{members:?}");
    // The same as a table, and mistakes.
    let table = rig.call(Method::GET, "/v1/usage/export?by=sandbox&from=2026-03-11").send().await.unwrap();
    assert_eq!(table.headers()["content-type"], "text/csv");
    let table = table.text().await.unwrap();
    assert!(table.starts_with("sandbox,label,vcpu_seconds,"), "{table}");
    assert!(table.contains(&format!("\"{second}\",\"mini\",7200.000,")), "{table}");
    for bad in ["by=planet", "from=yesterday", "from=2026-03-11&to=2026-03-10", "from=1999-01-01", "to=2026-13-01"] {
        let (status, refused) = rig.get(&format!("/v1/usage?{bad}")).await;
        assert_eq!(status, 400, "{bad}: {refused}");
    }
    // Another workspace sees nothing of it.
    let (_, theirs) = rig.stranger(Method::GET, "/v1/usage").await;
    assert_eq!(theirs["rows"], json!([]), "{theirs}");
}

#[tokio::test]
async fn prices_are_public() {
    let rig = Rig::start().await;
    let (status, pricing) = answer(rig.http.get(format!("{}/v1/pricing", rig.url))).await;
    assert_eq!((status, &pricing["rates"]["volume_usd_per_gib_month"]), (200, &json!(0.15)), "{pricing}");
    let free = &pricing["tiers"][0];
    assert_eq!((&free["name"], &free["credit_usd"], &free["overage"]), (&json!("free"), &json!(5.4), &json!(false)));
    assert_eq!((&free["max_volumes"], &free["max_volume_size_gib"]), (&json!(1), &json!(1)), "{free}");
}

#[tokio::test]
async fn a_budget_warns_and_a_hard_one_stops() {
    let clock = StillClock::at(NOON_S);
    let rig = rig(&clock).await;
    let root = people::operator(&rig).await;
    let owner = people::owner(&rig, &root, "ada").await;
    let (_, org) = owner.get(&rig, &format!("/v1/orgs/{}", owner.org)).await;
    let slug = org["slug"].as_str().unwrap();
    let post = async |path: &str, body: Value| in_org(&rig, &owner, Method::POST, path, body).await;
    let hook = json!({"url": "https://example.com/hook", "events": ["billing.*"]});
    let (status, hook) = post("/v1/webhooks", hook).await;
    assert_eq!(status, 201, "{hook}");
    let (status, made) = post("/v1/sandboxes", json!({"template": "mini"})).await;
    assert_eq!(status, 201, "{made}");
    let id = made["id"].as_str().unwrap();
    let budget = json!({"monthly_usd": 0.25, "alert_percent": 50, "hard_cap": true});
    let path = format!("/v1/orgs/{}/budget", owner.org);
    assert_eq!(owner.send(&rig, Method::PUT, &path, budget.clone()).await, (200, budget));
    // An hour of this machine costs 0.09 dollars.
    let mut machine = Teller::start(&rig, &clock, id);
    for (hours, deliveries) in [(1, 0), (1, 1), (1, 2)] {
        machine.beat(hours * HOUR);
        rig.control.meter_usage().await.unwrap();
        let path = format!("/v1/webhooks/{}/deliveries", hook["id"].as_str().unwrap());
        let (_, sent) = in_org(&rig, &owner, Method::GET, &path, Value::Null).await;
        assert_eq!(sent.as_array().map_or(0, Vec::len), deliveries, "{sent}");
    }
    assert_eq!(rig.host.state(id).as_str(), "hibernated", "a hard budget stops what costs");
    machine.change(MachineEvent::Hibernated);
    for (path, body) in [
        ("/v1/sandboxes".to_owned(), json!({"template": "mini"})),
        (format!("/v1/sandboxes/{id}/wake"), json!({})),
        (format!("/v1/sandboxes/{id}/fork"), json!({})),
        ("/v1/volumes".to_owned(), json!({"name": "data", "size_mb": 16})),
    ] {
        let (status, refused) = post(&path, body).await;
        assert_eq!((status, &refused["code"]), (402, &json!("billing.budget")), "{path}: {refused}");
    }
    let (_, bill) = owner.get(&rig, &format!("/v1/orgs/{}/billing", owner.org)).await;
    assert_eq!((&bill["workspace"], &bill["hold"]), (&json!(slug), &json!("billing.budget")), "{bill}");
    // More money helps at once, and so does a new month.
    assert_eq!(owner.delete(&rig, &path).await.0, 204);
    assert_eq!(post(&format!("/v1/sandboxes/{id}/wake"), json!({})).await.0, 200);
    let tight = json!({"monthly_usd": 0.1, "hard_cap": true});
    assert_eq!(owner.send(&rig, Method::PUT, &path, tight).await.0, 200);
    assert_eq!(post("/v1/sandboxes", json!({"template": "mini"})).await.0, 402);
    clock.pass(22 * 24 * HOUR);
    rig.control.meter_usage().await.unwrap();
    assert_eq!(post("/v1/sandboxes", json!({"template": "mini"})).await.0, 201);
    for bad in [json!({"monthly_usd": -1}), json!({"monthly_usd": 1, "alert_percent": 0}), json!({"monthly_usd": 1e12})]
    {
        let (status, refused) = owner.send(&rig, Method::PUT, &path, bad).await;
        assert_eq!((status, &refused["code"]), (400, &json!("billing.bad_budget")), "{refused}");
    }
}

/// Sends a request of a person that acts in its own organisation.
pub async fn in_org(rig: &Rig, person: &Somebody, method: Method, path: &str, body: Value) -> (u16, Value) {
    let request = person.request(rig, method, path).header("x-pandastack-org", &person.org);
    answer(if body.is_null() { request } else { request.json(&body) }).await
}

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
