//! Bills of a whole server whose wall clock is set while sandboxes run, sleep and are lost: the
//! host's heartbeats, control's metering and the usage report, compared with the true time. Only
//! the machines and both clocks are made up.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use pandastack_control::{Control, ControlPlace};
use pandastack_database::server::shared_schema;
use pandastack_edge::{ServeSettings, serve_with};
use pandastack_host::{ClockReading, ClockSource, HostSettings};
use pandastack_kit::{Clock, Scope};
use pandastack_model::MachineId;
use pandastack_testbed::{FakeBed, FakeHostState, wait_for};
use pandastack_wire_fleet::{HostPort, UsageCursor};
use reqwest::{Client, Method};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::{
    SOON,
    crash::{cut_off, runtime},
};

const KEY: &str = "pds_00000000000000000000000000000001";
const SECOND_NS: i64 = 1_000_000_000;
const HOUR: i64 = 3600;
/// Unix time of the boot: 2026-03-10, noon.
const BOOTED: i64 = 1_773_144_000;
/// Short, because the made-up time stands still until a heartbeat has seen it.
const HEARTBEAT: Duration = Duration::from_millis(5);
/// Sandboxes of one random life, besides the one that never stops.
const LIVES: usize = 3;
const STEPS: usize = 30;
/// Seconds that a sum of fractions may differ.
const EXACT: f64 = 0.001;

/// The wall clock and the time since boot, in seconds.
#[derive(Clone, Default)]
struct MovedClocks {
    boot: Arc<AtomicI64>,
    set: Arc<AtomicI64>,
}

impl MovedClocks {
    fn pass(&self, seconds: i64) {
        self.boot.fetch_add(seconds, Ordering::SeqCst);
    }

    /// Sets the wall clock so many seconds ahead.
    fn step(&self, seconds: i64) {
        self.set.fetch_add(seconds, Ordering::SeqCst);
    }

    fn reading(&self) -> ClockReading {
        let since = self.boot.load(Ordering::SeqCst);
        let wall = BOOTED + since + self.set.load(Ordering::SeqCst);
        ClockReading { wall_ns: wall * SECOND_NS, boot_ns: since * SECOND_NS }
    }

    fn settings(&self) -> HostSettings {
        let own = self.clone();
        let clocks = ClockSource::new("a boot", move || own.reading());
        HostSettings { heartbeat_every: HEARTBEAT, clocks, ..FakeBed::settings() }
    }
}

impl Clock for MovedClocks {
    fn now_ns(&self) -> u64 {
        self.reading().wall_ns.unsigned_abs()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LifeState {
    Running,
    Paused,
    Asleep,
    /// Its machine died while no host was there.
    Lost,
    Deleted,
}

/// A sandbox and the true time that it used.
#[derive(Debug)]
struct Life {
    id: String,
    machine: MachineId,
    state: LifeState,
    ran: i64,
    had_memory: i64,
    /// How far the wall clock was set back in its time.
    set_back: i64,
}

/// A running server: host, control and listener.
struct Server {
    bed: FakeBed,
    control: Control,
    url: String,
    http: Client,
}

/// What outlives a server, and what is known about the sandboxes.
struct World {
    ground: Arc<FakeHostState>,
    place: ControlPlace,
    clocks: MovedClocks,
    /// The first one runs from the beginning to the end.
    lives: Vec<Life>,
    _folder: tempfile::TempDir,
}

impl World {
    async fn new(database: impl AsyncFnOnce(&Path) -> ControlPlace) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let place = database(folder.path()).await;
        let ground = Arc::new(FakeHostState::make().await.unwrap());
        Self { ground, place, clocks: MovedClocks::default(), lives: Vec::new(), _folder: folder }
    }

    async fn start(&self) -> Server {
        let bed = FakeBed::start_over(self.ground.clone(), self.clocks.settings()).await.unwrap();
        let (scope, clock) = (Scope::new(), Arc::new(self.clocks.clone()));
        let control = Control::open(&self.place, bed.host.clone(), scope.clone(), clock).await.unwrap();
        control.bootstrap(Some(KEY.into())).await.unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let app = control.guard(control.router());
        scope.start("serve", serve_with(listener, app, scope.clone(), ServeSettings::default()));
        Server { bed, control, url, http: Client::builder().no_proxy().build().unwrap() }
    }

    async fn create(&mut self, server: &Server) {
        let before = self.ground.driver.live();
        let made = server.post("/v1/sandboxes", json!({"template": "mini", "persistent": true})).await;
        let (id, machine) = (made["id"].as_str().unwrap().to_owned(), self.new_machine(&before));
        self.lives.push(Life { id, machine, state: LifeState::Running, ran: 0, had_memory: 0, set_back: 0 });
    }

    fn new_machine(&self, before: &[MachineId]) -> MachineId {
        let new: Vec<_> = self.ground.driver.live().into_iter().filter(|one| !before.contains(one)).collect();
        assert_eq!(new.len(), 1, "one machine was made");
        new[0]
    }

    /// Lets true time pass.
    fn pass(&mut self, seconds: i64) {
        self.clocks.pass(seconds);
        for life in &mut self.lives {
            life.ran += if life.state == LifeState::Running { seconds } else { 0 };
            life.had_memory += if matches!(life.state, LifeState::Running | LifeState::Paused) { seconds } else { 0 };
        }
    }

    /// Sets the wall clock.
    fn step(&mut self, seconds: i64) {
        self.clocks.step(seconds);
        for life in self.lives.iter_mut().filter(|life| life.state != LifeState::Deleted) {
            life.set_back += (-seconds).max(0);
        }
    }

    /// Waits for a heartbeat that has seen the present time.
    async fn beat(&self, server: &Server) {
        let first = self.lives[0].id.parse().unwrap();
        wait_for("a heartbeat", SOON, async || {
            let page = server.bed.host.usage_facts(&UsageCursor::default(), 1000).await.unwrap();
            let last = page.facts.iter().filter(|fact| fact.sandbox == first).max_by_key(|fact| fact.sequence);
            (last.unwrap().seen_ns == self.clocks.now_ns()).then_some(())
        })
        .await;
    }

    /// Brings a sandbox into another state. Does nothing if there is no way.
    async fn change(&mut self, server: &Server, number: usize, to: LifeState) {
        let before = self.ground.driver.live();
        let from = self.lives[number].state;
        let word = match (from, to) {
            (LifeState::Running, LifeState::Paused) => "pause",
            (LifeState::Paused, LifeState::Running) => "resume",
            (LifeState::Running | LifeState::Paused, LifeState::Asleep) => "hibernate",
            (LifeState::Asleep, LifeState::Running) => "wake",
            _ => return,
        };
        server.post(&format!("/v1/sandboxes/{}/{word}", self.lives[number].id), json!({})).await;
        if word == "wake" {
            self.lives[number].machine = self.new_machine(&before);
        }
        self.lives[number].state = to;
    }

    async fn delete(&mut self, server: &Server, number: usize) {
        if self.lives[number].state == LifeState::Deleted {
            return;
        }
        let path = format!("/v1/sandboxes/{}", self.lives[number].id);
        let answer = server.call(Method::DELETE, &path).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 204);
        self.lives[number].state = LifeState::Deleted;
    }

    /// The machine of a sandbox dies.
    fn lose(&mut self, number: usize) {
        let life = &mut self.lives[number];
        if matches!(life.state, LifeState::Running | LifeState::Paused) {
            self.ground.driver.kill(life.machine);
            life.state = LifeState::Lost;
        }
    }

    /// Compares the usage report with the truth. Time that the wall clock showed twice is billed
    /// once, so a bill may be lower by as much as the clock was set back, and is never higher.
    async fn check(&self, server: &Server, context: &str) {
        server.control.meter_usage().await.unwrap();
        let path = "/v1/usage?by=sandbox&from=2026-02-01&to=2026-04-30";
        let report: Value = server.call(Method::GET, path).send().await.unwrap().json().await.unwrap();
        let rows = report["rows"].as_array().unwrap_or_else(|| panic!("{report}")).iter();
        let rows: BTreeMap<_, _> = rows.map(|row| (row["key"].as_str().unwrap(), row)).collect();
        for life in &self.lives {
            let used = |name: &str| rows.get(life.id.as_str()).map_or(0.0, |row| row[name].as_f64().unwrap());
            // A machine of the tests has one CPU and 1 MiB.
            let billed = [used("vcpu_seconds"), used("memory_gib_seconds") * 1024.0];
            for (billed, truth) in billed.into_iter().zip([life.ran, life.had_memory]) {
                let least = (truth - life.set_back).max(0) as f64 - EXACT;
                let is_right = billed < truth as f64 + EXACT && billed > least;
                assert!(is_right, "{context}: {billed} s are billed, {truth} s are true: {life:?}");
            }
        }
    }
}

impl Server {
    fn call(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.http.request(method, format!("{}{path}", self.url)).bearer_auth(KEY)
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        let answer = self.call(Method::POST, path).json(&body).send().await.unwrap();
        let (status, said) = (answer.status(), answer.json().await.unwrap_or_default());
        assert!(status.is_success(), "{path}: {status} {said}");
        said
    }
}

async fn sqlite(folder: &Path) -> ControlPlace {
    ControlPlace::in_folder(folder)
}

/// A schema of this test's own on the server that all tests share.
async fn postgres(folder: &Path) -> ControlPlace {
    ControlPlace::in_folder(folder).with_database(shared_schema(folder).await.unwrap())
}

/// Runs a part of a world's story with a server of its own, which is killed at the end.
fn with_server(world: &mut World, story: impl AsyncFnOnce(&mut World, &Server)) {
    let runtime: Runtime = runtime();
    runtime.block_on(async {
        let server = world.start().await;
        story(world, &server).await;
    });
    cut_off(runtime);
}

#[test]
fn a_clock_that_is_set_changes_no_bill() {
    let mut world = runtime().block_on(World::new(sqlite));
    with_server(&mut world, async |world, server| {
        for _ in 0..3 {
            world.create(server).await;
        }
        // Set ahead while all run, and again while one is paused and one asleep.
        world.pass(600);
        world.beat(server).await;
        world.step(5 * HOUR);
        world.pass(60);
        world.beat(server).await;
        world.check(server, "set ahead").await;
        world.change(server, 1, LifeState::Paused).await;
        world.change(server, 2, LifeState::Asleep).await;
        world.step(9 * HOUR);
        world.beat(server).await;
        world.pass(120);
        world.beat(server).await;
        world.check(server, "set ahead, paused and asleep").await;
        world.change(server, 1, LifeState::Running).await;
        world.change(server, 2, LifeState::Running).await;
        world.pass(30);
        world.beat(server).await;
    });
    // The server is killed, a machine dies, and the clock is set before the next server starts.
    world.lose(2);
    world.pass(10);
    world.step(2 * HOUR);
    with_server(&mut world, async |world, server| {
        world.pass(7);
        world.beat(server).await;
        world.check(server, "after a kill").await;
        for number in 0..3 {
            world.delete(server, number).await;
        }
        world.pass(HOUR);
        world.step(HOUR);
        world.check(server, "deleted").await;
        let truth: i64 = world.lives.iter().map(|life| life.ran).sum();
        let bill: Value = server.call(Method::GET, "/v1/billing").send().await.unwrap().json().await.unwrap();
        assert_eq!(bill["mtd_vcpu_seconds"].as_f64(), Some(truth as f64), "{bill}");
        server.bed.host.close().await;
    });
}

#[test]
fn a_moment_that_the_clock_shows_twice_is_billed_once() {
    let mut world = runtime().block_on(World::new(sqlite));
    with_server(&mut world, async |world, server| {
        world.create(server).await;
        world.pass(HOUR);
        world.beat(server).await;
        world.check(server, "before").await;
        world.step(-2 * HOUR);
        world.beat(server).await;
        for _ in 0..4 {
            world.pass(HOUR);
            world.beat(server).await;
            world.check(server, "set back").await;
        }
        world.delete(server, 0).await;
        server.control.meter_usage().await.unwrap();
        let bill: Value = server.call(Method::GET, "/v1/billing").send().await.unwrap().json().await.unwrap();
        // Five hours are true. The wall clock showed two of them again.
        assert_eq!(bill["mtd_vcpu_seconds"].as_f64(), Some((3 * HOUR) as f64), "{bill}");
        server.bed.host.close().await;
    });
}

#[test]
fn a_start_that_is_ahead_of_a_clock_set_back_is_not_moved() {
    let mut world = runtime().block_on(World::new(sqlite));
    with_server(&mut world, async |world, server| {
        world.create(server).await;
        world.create(server).await;
        world.pass(600);
        world.beat(server).await;
        world.check(server, "before").await;
        world.step(-2 * HOUR);
        world.beat(server).await;
        world.pass(60);
        world.beat(server).await;
        world.check(server, "set back").await;
        world.change(server, 1, LifeState::Asleep).await;
        for _ in 0..3 {
            world.pass(HOUR);
            world.beat(server).await;
            world.check(server, "asleep").await;
        }
        server.bed.host.close().await;
    });
}

/// Numbers that depend on the seed only.
struct Dice(u64);

impl Dice {
    /// Returns a number below `sides`.
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// One step of a random life. Returns false if the server is to be killed.
async fn step(world: &mut World, server: &Server, dice: &mut Dice, goes_back: bool) -> bool {
    let (number, what) = (1 + dice.roll(LIVES as u64) as usize, dice.roll(12));
    // A heartbeat takes no time. Made-up time must not pass during one.
    if what <= 4 {
        world.beat(server).await;
    }
    match what {
        0 | 1 => world.pass(1 + dice.roll(50) as i64),
        2 | 3 => world.pass(dice.roll(3 * HOUR as u64) as i64),
        4 => {
            let hours = 1 + dice.roll(9) as i64;
            world.step(if goes_back && dice.roll(2) == 0 { -hours * HOUR } else { hours * HOUR });
        }
        5 => world.change(server, number, LifeState::Paused).await,
        6 => world.change(server, number, LifeState::Asleep).await,
        7 | 8 => world.change(server, number, LifeState::Running).await,
        9 => server.control.meter_usage().await.unwrap(),
        10 if dice.roll(3) == 0 => world.delete(server, number).await,
        11 => return false,
        _ => {}
    }
    // Some changes meet a host that has not noticed the step yet.
    if dice.roll(4) > 0 {
        world.beat(server).await;
    }
    true
}

fn random_life(seed: u64, goes_back: bool, database: impl AsyncFnOnce(&Path) -> ControlPlace) {
    let (mut dice, mut left) = (Dice(seed), STEPS);
    let mut world = runtime().block_on(World::new(database));
    let context = format!("seed {seed}");
    while left > 0 {
        with_server(&mut world, async |world, server| {
            while world.lives.len() <= LIVES {
                world.create(server).await;
            }
            world.beat(server).await;
            while left > 0 && step(world, server, &mut dice, goes_back).await {
                left -= 1;
            }
            world.beat(server).await;
            left = left.saturating_sub(1);
        });
        // While no server is there, machines die, time passes and the clock is set.
        if dice.roll(2) == 0 {
            world.lose(1 + dice.roll(LIVES as u64) as usize);
        }
        world.pass(dice.roll(HOUR as u64) as i64);
        world.step(dice.roll(3) as i64 * HOUR);
    }
    with_server(&mut world, async |world, server| {
        world.beat(server).await;
        world.check(server, &context).await;
        for number in 0..=LIVES {
            world.delete(server, number).await;
        }
        world.check(server, &context).await;
        // Also when all hours are final.
        world.pass(24 * HOUR);
        world.check(server, &context).await;
        server.bed.host.close().await;
    });
}

#[test]
fn random_lives_are_billed_by_the_second_while_the_clock_is_set_ahead() {
    for seed in 1..=4 {
        random_life(seed, false, sqlite);
    }
}

#[test]
fn random_lives_are_never_billed_too_much_while_the_clock_is_set_back() {
    for seed in 11..=20 {
        random_life(seed, true, sqlite);
    }
}

/// Needs the server of `scripts/test`.
#[test]
fn random_lives_are_billed_the_same_in_postgres() {
    random_life(1, false, postgres);
    random_life(11, true, postgres);
}
