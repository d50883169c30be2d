//! Benchmarks of teams: authentication, logins, bills and lists over a million rows on both
//! databases, and creates of a hundred workspaces at once. The host is a stub or has fake machines,
//! so that the figures are those of the server itself.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use futures_util::future::join_all;
use pandastack_control::{Control, ControlPlace, ControlSettings, DatabaseAddress, RateSettings};
use pandastack_database::{Database, PoolSettings, query, server::PostgresServer};
use pandastack_kit::{Clock, Scope, SystemClock};
use pandastack_testbed::FakeBed;
use pandastack_wire_fleet::{HostPort, WorkspaceId, stub::StubHost};
use reqwest::{Client, StatusCode};
use serde_json::json;
use tempfile::TempDir;

use crate::table::{FigureTable, ms, percentile};

const KEY: &str = "pds_00000000000000000000000000000001";
/// Rows of usage, and sandboxes.
const ROWS: i64 = 1_000_000;
const DAYS: i64 = 31;
const READS: usize = 60;
const AUTH_READS: usize = 4000;
const LOGINS: usize = 10;
const WORKSPACES: usize = 100;
/// Creates that each workspace has under way. The first one is much busier.
const LOOPS: usize = 2;
const LOOPS_OF_THE_BUSY: usize = 40;
const LOAD: Duration = Duration::from_secs(15);
/// Pause after a create that was refused because too many are starting.
const REFUSED_PAUSE: Duration = Duration::from_secs(1);
/// As many as a host has. All loops together need fewer.
const NETWORK_SLOTS: usize = 250;
const HOUR_NS: u64 = 3_600_000_000_000;

pub async fn measure(table: &mut FigureTable) -> Result<()> {
    let postgres = PostgresServer::start().context("start PostgreSQL")?;
    let (mut bill, mut list) = (0_f64, 0_f64);
    for (name, address) in [("sqlite", None), ("postgres", Some(DatabaseAddress::Server(postgres.url("postgres"))))] {
        let office = Office::open(address, Arc::new(StubHost::default())).await?;
        if name == "sqlite" {
            authentication(&office, table).await?;
            logins(&office, table).await?;
        }
        office.fill().await?;
        let (bill_ms, list_ms) =
            (office.read_ms("/v1/billing").await?, office.read_ms("/v1/sandboxes?limit=100").await?);
        table.report(&format!("bill_query_ms_{name}"), bill_ms);
        table.report(&format!("list_1m_ms_{name}"), list_ms);
        (bill, list) = (bill.max(bill_ms), list.max(list_ms));
        office.close().await;
    }
    table.report("bill_query_ms", bill);
    table.report("list_1m_ms", list);
    fairness(table).await
}

/// A server without its edge, on loopback.
struct Office {
    control: Control,
    url: String,
    http: Client,
    scope: Scope,
    place: ControlPlace,
    _folder: TempDir,
}

impl Office {
    async fn open(database: Option<DatabaseAddress>, host: Arc<dyn HostPort>) -> Result<Self> {
        let (folder, scope) = (tempfile::tempdir()?, Scope::new());
        let place = ControlPlace::in_folder(folder.path());
        let place = match database {
            Some(database) => place.with_database(database),
            None => place,
        };
        let control = Control::open(&place, host, scope.clone(), Arc::new(SystemClock)).await?;
        let rate = RateSettings { per_second: 0, ..RateSettings::default() };
        let control = control.with_settings(ControlSettings { rate, ..ControlSettings::default() });
        control.bootstrap(Some(KEY.to_owned())).await?;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let (app, token) = (control.guard(control.router()), scope.token());
        scope.start("serve", async move {
            tokio::select! {
                _ = async { axum::serve(listener, app).await } => {}
                () = token.cancelled() => {}
            }
        });
        let http = Client::builder().no_proxy().build()?;
        Ok(Self { control, url, http, scope, place, _folder: folder })
    }

    async fn close(self) {
        self.scope.close(Duration::from_secs(5)).await;
        self.control.close().await;
    }

    /// Makes a million sandboxes, and the usage of a million days of sandboxes.
    async fn fill(&self) -> Result<()> {
        let made = self.http.post(format!("{}/v1/sandboxes", self.url)).bearer_auth(KEY);
        let made = made.json(&json!({"template": "mini"})).send().await?;
        ensure!(made.status().is_success(), "a sandbox is made");
        let long = Duration::from_secs(600);
        let settings = PoolSettings { connections_max: 1, busy_max: long, statement_max: long };
        let database = Database::open(&self.place.database, settings).await?;
        let first_day = (SystemClock.now_ns() / HOUR_NS / 24) as i64 - DAYS;
        let rows = "INSERT INTO usage_day (workspace, day, subject, vcpu_ms, memory_mib_ms, storage_mib_ms)
                    WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ?1 - 1)
                    SELECT 'default', ?2 + (i % 31), 'sandbox-' || CAST(i AS TEXT), 1000, 1000, 1000 FROM n";
        query(rows).bind(ROWS).bind(first_day).execute(&database).await?;
        let rows = "INSERT INTO usage_total (workspace, hour, vcpu_ms, memory_mib_ms, storage_mib_ms)
                    WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ?1 * 24 - 1)
                    SELECT 'default', ?2 * 24 + i, 1000000, 1000000, 1000000 FROM n";
        query(rows).bind(DAYS + 2).bind(first_day).execute(&database).await?;
        // Copies of the sandbox, each with an id and a time of its own.
        let rows = "INSERT INTO sandbox (id, workspace, generation, created_at, template, ttl_seconds, persistent,
                        metadata, env, cpus, memory_mib, disk_mib, status, guest_ip, boot_ms, boot_mode, isolation,
                        volumes)
                    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
                    SELECT substr(id, 1, 24) || substr(CAST(1000000000000 + i AS TEXT), 2), workspace, generation,
                        created_at + i, template, ttl_seconds, persistent, metadata, env, cpus, memory_mib, disk_mib,
                        status, guest_ip, boot_ms, boot_mode, isolation, volumes
                    FROM sandbox CROSS JOIN n";
        query(rows).bind(ROWS).execute(&database).await?;
        query("ANALYZE").execute(&database).await?;
        database.close().await;
        Ok(())
    }

    async fn get(&self, path: &str) -> Result<usize> {
        let answer = self.http.get(format!("{}{path}", self.url)).bearer_auth(KEY).send().await?;
        ensure!(answer.status().is_success(), "{path}: {}", answer.status());
        Ok(answer.bytes().await?.len())
    }

    async fn read_ms(&self, path: &str) -> Result<f64> {
        let mut times = Vec::new();
        for number in 0..=READS {
            let started = Instant::now();
            self.get(path).await?;
            if number > 0 {
                times.push(ms(started.elapsed()));
            }
        }
        Ok(percentile(&mut times, 50))
    }
}

/// Reads one public page with and without a key, in turn.
async fn authentication(office: &Office, table: &mut FigureTable) -> Result<()> {
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for number in 0..AUTH_READS {
        for place in [number % 2, 1 - number % 2] {
            let request = office.http.get(format!("{}/v1/pricing", office.url));
            let request = if place == 0 { request.bearer_auth(KEY) } else { request };
            let started = Instant::now();
            request.send().await?.bytes().await?;
            let took = ms(started.elapsed());
            if place == 0 { with.push(took) } else { without.push(took) }
        }
    }
    let (with, without) = (percentile(&mut with, 50), percentile(&mut without, 50));
    table.report("auth_overhead_pct", (with - without) / without * 100.0);
    Ok(())
}

/// Checks a password at its usual cost.
async fn logins(office: &Office, table: &mut FigureTable) -> Result<()> {
    let (email, password) = ("root@example.com", "a long enough password");
    let ask = json!({"email": email, "password": password});
    let made = office.http.post(format!("{}/v1/auth/setup", office.url)).bearer_auth(KEY).json(&ask).send().await?;
    ensure!(made.status().is_success(), "the first account is made");
    let mut times = Vec::new();
    for _ in 0..LOGINS {
        let started = Instant::now();
        let begun = office.http.post(format!("{}/v1/auth/login", office.url)).json(&ask).send().await?;
        ensure!(begun.status().is_success(), "a login works: {}", begun.status());
        times.push(ms(started.elapsed()));
    }
    table.report("login_ms_p50", percentile(&mut times, 50));
    Ok(())
}

/// Lets a hundred workspaces create and delete at once, one of them with twenty times the load.
async fn fairness(table: &mut FigureTable) -> Result<()> {
    let bed = FakeBed::start(FakeBed::settings(), NETWORK_SLOTS).await?;
    let office = Arc::new(Office::open(None, bed.host.clone() as Arc<dyn HostPort>).await?);
    let (mut loops, mut done) = (Vec::new(), Vec::new());
    let until = Instant::now() + LOAD;
    for number in 0..WORKSPACES {
        let key = format!("pds_{:032x}", number + 16);
        office.control.ensure_key(&WorkspaceId(format!("team-{number}")), &key, "bench").await?;
        let count = Arc::new(AtomicU64::new(0));
        done.push(count.clone());
        for _ in 0..if number == 0 { LOOPS_OF_THE_BUSY } else { LOOPS } {
            loops.push(create_until(office.clone(), key.clone(), count.clone(), until));
        }
    }
    for one in join_all(loops).await {
        one?;
    }
    let counts: Vec<f64> = done.iter().map(|count| count.load(Ordering::Relaxed) as f64).collect();
    let all: f64 = counts.iter().sum();
    table.report("creates_per_second", all / LOAD.as_secs_f64());
    table.report("fairness_min_share", counts.iter().fold(f64::MAX, |least, one| least.min(*one)) / (all / 100.0));
    match Arc::try_unwrap(office) {
        Ok(office) => office.close().await,
        Err(_) => anyhow::bail!("a request is still open"),
    }
    bed.host.close().await;
    Ok(())
}

async fn create_until(office: Arc<Office>, key: String, done: Arc<AtomicU64>, until: Instant) -> Result<()> {
    while Instant::now() < until {
        let ask = office.http.post(format!("{}/v1/sandboxes", office.url)).bearer_auth(&key);
        let made = ask.json(&json!({"template": "mini"})).send().await?;
        let status = made.status();
        let body = made.text().await?;
        // It waited longer than a create may wait for its turn.
        if status == StatusCode::SERVICE_UNAVAILABLE {
            tokio::time::sleep(REFUSED_PAUSE).await;
            continue;
        }
        ensure!(status.is_success(), "{status}: {body}");
        done.fetch_add(1, Ordering::Relaxed);
        let id: serde_json::Value = serde_json::from_str(&body)?;
        let path = format!("{}/v1/sandboxes/{}", office.url, id["id"].as_str().unwrap_or_default());
        office.http.delete(path).bearer_auth(&key).send().await?;
    }
    Ok(())
}
