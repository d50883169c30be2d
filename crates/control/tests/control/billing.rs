//! Usage, bills and budgets. Facts come from the stub host, as a real one tells them. What reaches
//! Stripe is in `stripe.rs`.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use pandastack_kit::Clock;
use pandastack_wire_fleet::{MachineEvent, MachineFact, stub::StubHost};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    people::{self, Somebody},
    rig::{Rig, answer},
};

pub const S: u64 = 1_000_000_000;
pub const HOUR: u64 = 3600;
/// 2026-03-10, noon.
pub const NOON_S: u64 = 1_773_144_000;

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

pub fn near(value: &Value, expected: f64) {
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
async fn the_copied_volume_of_a_fork_is_reported_with_the_fork() {
    let clock = StillClock::at(NOON_S);
    let rig = rig(&clock).await;
    assert_eq!(rig.send(Method::POST, "/v1/volumes", json!({"name": "data", "size_mb": 2048})).await.0, 201);
    let (status, writer) = rig.create(json!({"template": "mini", "volumes": [{"name": "data"}]})).await;
    assert_eq!(status, 201, "{writer}");
    let (status, fork) = rig.post(&format!("/v1/sandboxes/{}/fork", writer["id"].as_str().unwrap())).await;
    assert_eq!(status, 201, "{fork}");
    clock.pass(HOUR);
    billed(&rig).await;
    let storage = async || {
        let (_, report) = rig.get("/v1/usage?by=sandbox").await;
        let rows = report["rows"].as_array().unwrap().iter();
        let rows = rows.map(|row| (row["key"].as_str().unwrap().to_owned(), row["storage_gib_seconds"].clone()));
        rows.collect::<BTreeMap<_, _>>()
    };
    let child = fork["sandbox"]["id"].as_str().unwrap();
    let reported = storage().await;
    assert_eq!(reported.len(), 2, "the fork and the volume of its parent: {reported:?}");
    near(&reported[child], (2 * HOUR) as f64);
    // The report stays as it is when both are gone.
    assert_eq!(rig.delete(&format!("/v1/sandboxes/{child}")).await, 204);
    billed(&rig).await;
    near(&storage().await[child], (2 * HOUR) as f64);
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
