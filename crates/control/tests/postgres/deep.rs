//! Ten minutes of mixed load on a PostgreSQL server of its own, which crashes twice meanwhile.
//! Nothing that was confirmed is lost, and nothing is billed twice. An hour passes in ten seconds.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use pandastack_billing::{
    PlanName, Plans, UsageFact, UsageTotals, UtcMonth, fold_usage, month_cost, stand_in::StripeStandIn,
};
use pandastack_control::{Control, ControlPlace, WorkspacePlans, usage_fact};
use pandastack_database::{Database, DatabaseAddress, PoolSettings, query_as, query_scalar, server::PostgresServer};
use pandastack_kit::{Clock, Scope, Secret};
use pandastack_wire_fleet::{MachineEvent, MachineFact, stub::StubHost};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::{
    billing::{NOON_S, S, in_org},
    people::{self, Somebody},
    rig::{Rig, long, sign_in},
    stripe::{STRIPE_KEY, WEBHOOK_SECRET, billing},
};

const LOAD: Duration = Duration::from_secs(600);
/// How much faster the server's clock is.
const FASTER: u64 = 360;
const CREATORS: usize = 6;
const HELD_MAX: usize = 4;

/// A clock that began at a fixed time and runs faster.
struct FastClock(Instant);

impl Clock for FastClock {
    fn now_ns(&self) -> u64 {
        NOON_S * S + self.0.elapsed().as_nanos() as u64 * FASTER
    }
}

/// What the server has confirmed.
#[derive(Default)]
struct Confirmed {
    sandboxes: BTreeSet<String>,
    deleted: BTreeSet<String>,
    /// A delete that got no answer may have happened.
    perhaps_deleted: BTreeSet<String>,
    keys: BTreeSet<String>,
    invites: BTreeSet<String>,
    refused: BTreeMap<u16, usize>,
}

struct Load {
    rig: Rig,
    clock: Arc<dyn Clock>,
    owner: Somebody,
    confirmed: Mutex<Confirmed>,
    /// The machines that the host runs, each with its last fact.
    machines: Mutex<BTreeMap<String, MachineFact>>,
    until: Instant,
}

impl Load {
    /// Sends a request. `None` if the server could not answer now.
    async fn send(&self, method: Method, path: &str, body: Value) -> Option<(u16, Value)> {
        let request = self.owner.request(&self.rig, method, path).header("x-pandastack-org", &self.owner.org);
        let answer = request.json(&body).timeout(Duration::from_secs(60)).send().await.ok()?;
        let status = answer.status();
        let said = answer.json().await.unwrap_or(Value::Null);
        if status.is_client_error() || status == StatusCode::INTERNAL_SERVER_ERROR {
            panic!("{path}: {status} {said}");
        }
        if !status.is_success() {
            *self.confirmed.lock().unwrap().refused.entry(status.as_u16()).or_default() += 1;
            return None;
        }
        Some((status.as_u16(), said))
    }

    fn tell(&self, id: &str, change: Option<MachineEvent>) {
        let now_ns = self.clock.now_ns();
        let mut machines = self.machines.lock().unwrap();
        let fact = machines.entry(id.to_owned()).or_insert_with(|| MachineFact {
            sandbox: id.parse().unwrap(),
            epoch: 0,
            sequence: 0,
            change: MachineEvent::Started,
            vcpus: 2,
            memory_mib: 2048,
            disk_bytes: 1 << 30,
            at_ns: now_ns,
            seen_ns: now_ns,
        });
        if let Some(change) = change {
            let epoch = fact.epoch + u32::from(change == MachineEvent::Woken);
            *fact = MachineFact { epoch, sequence: fact.sequence + 1, change, at_ns: now_ns, ..*fact };
        }
        fact.seen_ns = now_ns;
        self.rig.host.machine_facts.lock().unwrap().push(*fact);
        if change == Some(MachineEvent::Ended) {
            machines.remove(id);
        }
    }

    async fn create(&self) {
        let mut own = Vec::new();
        while Instant::now() < self.until {
            tokio::time::sleep(Duration::from_millis(100)).await;
            if own.len() < HELD_MAX {
                let made = self.send(Method::POST, "/v1/sandboxes", json!({"template": "mini"})).await;
                if let Some((201, made)) = made {
                    let id = made["id"].as_str().unwrap().to_owned();
                    self.tell(&id, None);
                    self.confirmed.lock().unwrap().sandboxes.insert(id.clone());
                    own.push(id);
                }
                continue;
            }
            let id: String = own.remove(0);
            let path = format!("/v1/sandboxes/{id}");
            if self.send(Method::POST, &format!("{path}/hibernate"), json!({})).await.is_some() {
                self.tell(&id, Some(MachineEvent::Hibernated));
                tokio::time::sleep(Duration::from_millis(200)).await;
                if self.send(Method::POST, &format!("{path}/wake"), json!({})).await.is_some() {
                    self.tell(&id, Some(MachineEvent::Woken));
                }
            }
            self.tell(&id, Some(MachineEvent::Ended));
            let deleted = self.send(Method::DELETE, &path, json!({})).await.is_some();
            let mut confirmed = self.confirmed.lock().unwrap();
            if deleted {
                confirmed.deleted.insert(id)
            } else {
                confirmed.perhaps_deleted.insert(id)
            };
        }
    }

    async fn invite(&self) {
        let mut number = 0;
        while Instant::now() < self.until {
            tokio::time::sleep(Duration::from_millis(700)).await;
            number += 1;
            let email = format!("guest-{number}@example.com");
            let path = format!("/v1/orgs/{}/members", self.owner.org);
            if self.send(Method::POST, &path, json!({"email": email})).await.is_some() {
                self.confirmed.lock().unwrap().invites.insert(email);
            }
            if number % 10 == 0 {
                let key = self.send(Method::POST, "/v1/me/tokens", json!({"label": format!("key-{number}")})).await;
                if let Some((_, key)) = key {
                    self.confirmed.lock().unwrap().keys.insert(key["prefix"].as_str().unwrap().to_owned());
                }
            }
            self.send(Method::GET, "/v1/usage?by=sandbox", Value::Null).await;
        }
    }

    /// The host's heartbeat, and the worker of the server.
    async fn meter(&self) {
        while Instant::now() < self.until {
            let living: Vec<String> = self.machines.lock().unwrap().keys().cloned().collect();
            living.iter().filter(|id| self.machines.lock().unwrap().contains_key(*id)).for_each(|id| self.beat(id));
            if let Err(fault) = self.rig.control.meter_usage().await {
                assert_ne!(fault.kind, pandastack_model::FaultKind::Bug, "{fault:?}");
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    fn beat(&self, id: &str) {
        let is_up = self.machines.lock().unwrap().get(id).is_some_and(|fact| fact.change != MachineEvent::Hibernated);
        if is_up {
            self.tell(id, None);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn load_with_two_crashes_of_the_database_loses_nothing_and_bills_nothing_twice() {
    let mut server = PostgresServer::start().unwrap();
    let address = DatabaseAddress::Server(server.url("postgres"));
    let clock: Arc<dyn Clock> = Arc::new(FastClock(Instant::now()));
    let stripe = StripeStandIn::start(STRIPE_KEY, clock.clone()).await;
    let (folder, scope, host) = (tempfile::tempdir().unwrap(), Scope::new(), Arc::new(StubHost::default()));
    let place = ControlPlace::in_folder(folder.path()).with_database(address.clone());
    let control = Control::open(&place, host.clone(), scope.clone(), clock.clone()).await.unwrap();
    let control = control.with_billing(billing(&stripe)).with_sign_in(sign_in()).unwrap();
    let rig = Rig::served(control, host, folder, scope).await;
    let root = people::operator(&rig).await;
    let owner = people::owner(&rig, &root, "ada").await;
    let customer = subscribe(&rig, &stripe, &owner).await;
    let plans = WorkspacePlans::open(&address, 1).await.unwrap();
    plans.change("ada", |stored| stored.plan = Some("custom".to_owned())).await.unwrap();
    plans.close().await;

    let until = Instant::now() + LOAD;
    let load = Load { rig, clock, owner, confirmed: Mutex::default(), machines: Mutex::default(), until };
    let crashes = async {
        for _ in 0..2 {
            tokio::time::sleep(LOAD / 3).await;
            server = tokio::task::spawn_blocking(move || {
                server.restart().unwrap();
                server
            })
            .await
            .unwrap();
        }
        server
    };
    let creators = join_all((0..CREATORS).map(|_| load.create()));
    let (_, (), (), server) = tokio::join!(creators, load.invite(), load.meter(), crashes);
    check(&load, &stripe, (&address, &customer)).await;
    drop(server);
}

async fn subscribe(rig: &Rig, stripe: &StripeStandIn, owner: &Somebody) -> String {
    let path = format!("/v1/orgs/{}/billing/checkout", owner.org);
    assert_eq!(owner.send(rig, Method::POST, &path, json!({"plan": "pro"})).await.0, 200);
    let customer = stripe.requests().pop().unwrap().field("customer").unwrap().to_owned();
    let object = json!({
        "id": "sub_1", "object": "subscription", "customer": customer, "status": "active", "created": NOON_S - 3600,
        "metadata": {"pandastack_org": owner.org}, "items": {"data": [{"price": {"id": "price_pro"}}]},
    });
    let event = stripe.event("evt_1", "customer.subscription.created", object);
    let (to, secret) = (rig.url.strip_prefix("http://").unwrap().parse().unwrap(), WEBHOOK_SECRET.to_owned());
    assert_eq!(stripe.send_webhook(to, "/v1/webhooks/stripe", &event, &[&Secret::new(secret)]).await, 200);
    customer
}

async fn check(load: &Load, stripe: &StripeStandIn, (address, customer): (&DatabaseAddress, &str)) {
    let names = |listed: &Value, name: &str| -> BTreeSet<String> {
        listed.as_array().unwrap().iter().map(|one| one[name].as_str().unwrap().to_owned()).collect()
    };
    let confirmed = std::mem::take(&mut *load.confirmed.lock().unwrap());
    let get = async |path: &str| in_org(&load.rig, &load.owner, Method::GET, path, Value::Null).await.1;
    let there = names(&get("/v1/sandboxes").await, "id");
    let gone: BTreeSet<_> = confirmed.deleted.union(&confirmed.perhaps_deleted).cloned().collect();
    let kept: BTreeSet<_> = confirmed.sandboxes.difference(&gone).cloned().collect();
    assert!(kept.is_subset(&there), "a confirmed sandbox is lost");
    assert!(confirmed.deleted.is_disjoint(&there), "a confirmed delete is lost");
    let keys = names(&get("/v1/me/tokens").await["items"], "prefix");
    assert!(confirmed.keys.is_subset(&keys), "a confirmed key is lost");
    let invites = names(&get(&format!("/v1/orgs/{}/invites", load.owner.org)).await, "email");
    assert!(confirmed.invites.is_subset(&invites), "a confirmed invite is lost");

    // What was counted is what the host told.
    load.rig.control.meter_usage().await.unwrap();
    let settings = PoolSettings { connections_max: 1, busy_max: long(), statement_max: long() };
    let database = Database::open(address, settings).await.unwrap();
    let counted: i64 = query_scalar("SELECT CAST(SUM(vcpu_ms) AS BIGINT) FROM usage_total WHERE workspace = 'ada'")
        .fetch_one(&database)
        .await
        .unwrap();
    let ended: Vec<(String, Option<i64>)> =
        query_as("SELECT id, ended_at FROM usage_subject").fetch_all(&database).await.unwrap();
    let ended: BTreeMap<String, Option<i64>> = ended.into_iter().collect();
    let mut lives: BTreeMap<String, Vec<UsageFact>> = BTreeMap::new();
    for fact in load.rig.host.machine_facts.lock().unwrap().iter() {
        lives.entry(fact.sandbox.to_string()).or_default().push(whole(fact));
    }
    let truth: i64 = lives.iter().map(|(id, facts)| vcpu_ms(facts, ended[id])).sum();
    assert_eq!(counted, truth, "usage was lost or counted twice");

    // What reached Stripe is the cost up to the last event, and no event came twice.
    let events = stripe.counted();
    let last_s = events.iter().map(|event| event.timestamp_s + 1).max().expect("something was charged");
    let sums: Vec<(i64, i64, i64)> =
        query_as("SELECT vcpu_ms, memory_mib_ms, storage_mib_ms FROM usage_total WHERE workspace = 'ada' AND hour < ?")
            .bind((last_s / 3600) as i64)
            .fetch_all(&database)
            .await
            .unwrap();
    let used: UsageTotals = sums.into_iter().map(totals).sum();
    let month: UtcMonth = "2026-03".parse().unwrap();
    let cost = month_cost(&Plans::default().get(PlanName::Custom).prices, &used, month).net.to_micros();
    assert_eq!(stripe.billed(customer, "usage"), u128::from(cost));
    let identifiers: BTreeSet<_> = events.iter().map(|event| &event.identifier).collect();
    assert_eq!(identifiers.len(), events.len());
    println!(
        "{} sandboxes, {} deleted, {} keys, {} invites, {} events with {cost} micro-dollars; refused: {:?}",
        confirmed.sandboxes.len(),
        confirmed.deleted.len(),
        confirmed.keys.len(),
        confirmed.invites.len(),
        events.len(),
        confirmed.refused
    );
    database.close().await;
}

fn totals((vcpu_ms, memory_mib_ms, storage_mib_ms): (i64, i64, i64)) -> UsageTotals {
    let ns = |ms: i64| ms as u128 * 1_000_000;
    let storage_byte_ns = ns(storage_mib_ms) << 20;
    UsageTotals { vcpu_ns: ns(vcpu_ms), memory_mib_ns: ns(memory_mib_ms), storage_byte_ns }
}

/// A fact in whole milliseconds, as control stores it.
fn whole(fact: &MachineFact) -> UsageFact {
    let ms = |ns: u64| ns / 1_000_000 * 1_000_000;
    let fact = usage_fact(fact);
    UsageFact { at_ns: ms(fact.at_ns), seen_ns: ms(fact.seen_ns), ..fact }
}

fn vcpu_ms(facts: &[UsageFact], ended_ns: Option<i64>) -> i64 {
    let end_ns = ended_ns.map_or(u64::MAX, |ns| ns as u64 / 1_000_000 * 1_000_000);
    let billed = fold_usage(facts.iter().copied(), end_ns).into_iter().filter_map(|one| one.until(end_ns));
    billed.map(|one| ((one.to_ns - one.from_ns) / 1_000_000) as i64 * i64::from(one.vcpus)).sum()
}
