//! Benchmarks of managed databases: from a request to the first row by TLS, for a new database, a
//! sleeping one and a branch; what a branch costs its source and whether its size matters; and what
//! the broker adds to a query; and a clone as of a time.

use std::{
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use anyhow::{Context, Result, ensure};
use pandastack_kit::Secret;
use pandastack_postgres_broker::{DirectSession, Login};
use pandastack_testbed::{DataFolder, TestServer};
use pandastack_wire_public::rfc3339;
use reqwest::{Client, Method};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        ClientConfig, RootCertStore,
        pki_types::{CertificateDer, ServerName, pem::PemObject},
    },
};

use crate::table::{FigureTable, ms, percentile};

const TURNS: usize = 5;
const QUERIES: usize = 200;
/// Mebibytes of data in a branched database: small, usual and large.
const SIZES_MIB: [u64; 3] = [50, 200, 500];
/// The database that is cloned, the time that it is written to, and the rate.
const CLONED_MIB: u64 = 50;
const WRITTEN: Duration = Duration::from_secs(300);
const WRITES_PER_SECOND: &str = "50";
/// How long ago the time of a clone must be.
const CLONE_DELAY: Duration = Duration::from_secs(122);
/// Rows of a mebibyte: each has about a kibibyte.
const ROWS_PER_MIB: u64 = 900;
/// What a client sends to ask for TLS.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];
const READY_MAX: Duration = Duration::from_secs(300);
const POLL: Duration = Duration::from_millis(5);

/// A server with databases.
struct DatabaseOffice {
    server: TestServer,
    http: Client,
    tls: DatabaseTls,
    data: DataFolder,
}

/// Opens connections of clients that trust one authority.
pub struct DatabaseTls(TlsConnector);

pub async fn measure(table: &mut FigureTable) -> Result<()> {
    let office = DatabaseOffice::start()?;
    office.is_prepared().await?;
    let (source, first) = office.until_first_row().await?;
    let mut creates = Vec::new();
    for _ in 0..TURNS {
        let (database, took) = office.until_first_row().await?;
        creates.push(took);
        office.delete(&database).await?;
    }
    let second = creates.first().copied().context("there was a second database")?;
    table.report("db_first_ms", first);
    table.report("db_first_ratio", first / second);
    table.report("db_create_ms", percentile(&mut creates, 50));
    wakes(&office, &source, table).await?;
    queries(&office, &source, table).await?;
    branches(&office, &source, table).await?;
    office.delete(&source).await?;
    clones(&office, table).await?;
    shares(table);
    Ok(())
}

/// The targets follow from what a plain sandbox takes in the same run.
fn shares(table: &mut FigureTable) {
    for (key, plain, times, more) in [
        ("db_create", "create_cold_ms_p50", 1.5, 400.0),
        ("db_wake", "wake_ms_p50", 2.0, 150.0),
        ("db_branch", "fork_ms_p50", 2.5, 0.0),
        ("db_branch_pause", "fork_pause_ms_p50", 1.5, 0.0),
    ] {
        if let (Some(value), Some(plain)) = (table.value(&format!("{key}_ms")), table.value(plain)) {
            table.report(&format!("{key}_share"), value / (times * plain + more));
        }
    }
}

async fn wakes(office: &DatabaseOffice, source: &Value, table: &mut FigureTable) -> Result<()> {
    office.run(source, "CREATE TABLE one (n int); INSERT INTO one VALUES (1)").await?;
    let mut wakes = Vec::new();
    for _ in 0..TURNS {
        office.call(Method::POST, &format!("/v1/sandboxes/{}/hibernate", text(source, "id")), json!({})).await?;
        let started = Instant::now();
        office.run(source, "SELECT n FROM one").await?;
        wakes.push(ms(started.elapsed()));
    }
    table.report("db_wake_ms", percentile(&mut wakes, 50));
    Ok(())
}

/// One query at a time on an open connection: past the pooler by TLS, and by HTTP.
async fn queries(office: &DatabaseOffice, source: &Value, table: &mut FigureTable) -> Result<()> {
    let (mut session, mut native, mut broker) = (office.log_in(source).await?, Vec::new(), Vec::new());
    let url = format!("{}/v1/query", text(source, "broker_url"));
    let ask = json!({"database": "pandastack", "sql": "SELECT n FROM one"});
    for turn in 0..QUERIES {
        let started = Instant::now();
        session.run("SELECT n FROM one").await?;
        native.push(ms(started.elapsed()));
        let started = Instant::now();
        let request = office.http.post(&url).bearer_auth(text(source, "broker_token")).json(&ask);
        let answer: Value = request.send().await?.error_for_status()?.json().await?;
        ensure!(answer["rows"] == json!([[1]]), "{answer}");
        // The first one opens a connection.
        if turn > 0 {
            broker.push(ms(started.elapsed()));
        }
    }
    session.close().await;
    let (native, broker) = (percentile(&mut native, 50), percentile(&mut broker, 50));
    table.report("db_query_ms", native);
    table.report("db_broker_overhead_ms", broker - native);
    Ok(())
}

/// Branches under load, of a small and of a large database.
async fn branches(office: &DatabaseOffice, source: &Value, table: &mut FigureTable) -> Result<()> {
    office.run(source, "CREATE TABLE rows (n bigint, filler text)").await?;
    let (mut filled, mut medians) = (0, Vec::new());
    for mebibytes in SIZES_MIB {
        office.fill(source, mebibytes - filled).await?;
        filled = mebibytes;
        let _load = Load::start(office, source, &[])?;
        let (mut answers, mut pauses) = (Vec::new(), Vec::new());
        for _ in 0..TURNS {
            let started = Instant::now();
            let branches = format!("/v1/databases/{}/branches", text(source, "id"));
            let branch = office.call(Method::POST, &branches, json!({})).await?;
            let branch = office.ready(text(&branch, "id")).await?;
            office.run(&branch, "SELECT 1").await?;
            answers.push(ms(started.elapsed()));
            pauses.push(office.last_pause(source).await?);
            office.delete(&branch).await?;
        }
        medians.push((percentile(&mut answers, 50), percentile(&mut pauses, 50)));
    }
    let [(small, _), (usual, pause), (large, _)] = medians[..] else { anyhow::bail!("three sizes") };
    table.report("db_branch_ms", usual);
    table.report("db_branch_pause_ms", pause);
    table.report("db_branch_growth", large / small);
    Ok(())
}

/// A clone as of a time, of a database that was written to for minutes after its backup.
async fn clones(office: &DatabaseOffice, table: &mut FigureTable) -> Result<()> {
    let source = office.create().await?;
    office.run(&source, "CREATE TABLE one (n int); INSERT INTO one VALUES (1)").await?;
    office.run(&source, "CREATE TABLE rows (n bigint, filler text)").await?;
    office.fill(&source, CLONED_MIB).await?;
    let load = Load::start(office, &source, &["-R", WRITES_PER_SECOND])?;
    tokio::time::sleep(WRITTEN).await;
    let target = rfc3339(u64::try_from(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_nanos())?);
    tokio::time::sleep(CLONE_DELAY).await;
    drop(load);
    let started = Instant::now();
    let clone = format!("/v1/databases/{}/clone", text(&source, "id"));
    let clone = office.call(Method::POST, &clone, json!({ "target_time": target })).await?;
    let clone = office.ready(text(&clone, "id")).await?;
    office.run(&clone, "SELECT n FROM one").await?;
    table.report("db_clone_ms", ms(started.elapsed()));
    office.delete(&clone).await?;
    office.delete(&source).await
}

impl DatabaseTls {
    /// Trusts the authority in a file.
    pub fn trusting(authority: &Path) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(authority)?)?;
        let tls = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        Ok(Self(TlsConnector::from(Arc::new(tls))))
    }

    /// Connects to a proxy on loopback.
    pub async fn open(&self, port: u16, host: &str) -> Result<TlsStream<TcpStream>> {
        let mut tcp = TcpStream::connect(("127.0.0.1", port)).await?;
        tcp.set_nodelay(true)?;
        tcp.write_all(&SSL_REQUEST).await?;
        ensure!(tcp.read_u8().await? == b'S', "TLS was refused");
        Ok(self.0.connect(ServerName::try_from(host.to_owned())?, tcp).await?)
    }
}

impl DatabaseOffice {
    fn start() -> Result<Self> {
        let data = DataFolder::with_databases()?;
        let server = TestServer::start(data.path(), &["--standby", "0"])?;
        let tls = DatabaseTls::trusting(&data.path().join("database-ca/ca.pem"))?;
        Ok(Self { server, http: Client::new(), tls, data })
    }

    async fn call(&self, method: Method, path: &str, body: Value) -> Result<Value> {
        let request = self.http.request(method, format!("{}{path}", self.server.url));
        let answer = request.bearer_auth(&self.server.key).json(&body).send().await?;
        let (status, text) = (answer.status(), answer.text().await?);
        ensure!(status.is_success(), "{path}: {status} {text}\n{}", self.server.said());
        Ok(serde_json::from_str(&text).unwrap_or_default())
    }

    async fn create(&self) -> Result<Value> {
        let made = self.call(Method::POST, "/v1/databases", json!({})).await?;
        self.ready(text(&made, "id")).await
    }

    /// Creates a database and reads a row from it. Returns how many milliseconds that took.
    async fn until_first_row(&self) -> Result<(Value, f64)> {
        let started = Instant::now();
        let database = self.create().await?;
        self.run(&database, "SELECT 1").await?;
        Ok((database, ms(started.elapsed())))
    }

    /// Checks that the server has the machine that databases start from: an earlier run of a server
    /// made it.
    async fn is_prepared(&self) -> Result<()> {
        let template = self.call(Method::GET, "/v1/templates/postgres-16", json!({})).await?;
        ensure!(template["databases"]["status"] == "ready", "the new server is not prepared: {template}");
        Ok(())
    }

    async fn ready(&self, id: &str) -> Result<Value> {
        let deadline = Instant::now() + READY_MAX;
        while Instant::now() < deadline {
            let shown = self.call(Method::GET, &format!("/v1/databases/{id}"), json!({})).await?;
            match text(&shown, "status") {
                "running" => return Ok(shown),
                "failed" => anyhow::bail!("{shown}\n{}", self.server.said()),
                _ => tokio::time::sleep(POLL).await,
            }
        }
        anyhow::bail!("{id} was not ready in time")
    }

    async fn delete(&self, database: &Value) -> Result<()> {
        self.call(Method::DELETE, &format!("/v1/databases/{}", text(database, "id")), json!({})).await.map(drop)
    }

    /// Connects by TLS and logs in.
    async fn log_in(&self, database: &Value) -> Result<DirectSession> {
        let port = u16::try_from(database["port"].as_u64().context("no port")?)?;
        let stream = self.tls.open(port, text(database, "host")).await?;
        let login = Login {
            user: text(database, "username").to_owned(),
            password: Secret::new(text(database, "password").to_owned()),
            database: text(database, "database").to_owned(),
        };
        Ok(DirectSession::open(Box::new(stream), &login).await?)
    }

    async fn run(&self, database: &Value, sql: &str) -> Result<()> {
        let mut session = self.log_in(database).await?;
        session.run(sql).await?;
        session.close().await;
        Ok(())
    }

    /// Adds data, in pieces that end in time, and waits until all of it is written out: a backup
    /// begins with a checkpoint and ends when the log has arrived.
    async fn fill(&self, database: &Value, mebibytes: u64) -> Result<()> {
        for _ in 0..mebibytes / 10 {
            let rows = 10 * ROWS_PER_MIB;
            let sql = format!("INSERT INTO rows SELECT n, repeat('x', 1000) FROM generate_series(1, {rows}) n");
            self.run(database, &sql).await?;
        }
        let backups = format!("/v1/databases/{}/backups", text(database, "id"));
        self.call(Method::POST, &backups, json!({})).await?;
        let deadline = Instant::now() + READY_MAX;
        while self.call(Method::GET, &backups, json!({})).await?["archive"]["pending_segments"] != 0 {
            ensure!(Instant::now() < deadline, "the log of {} did not reach the archive", text(database, "id"));
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    /// How long the last fork stopped a database.
    async fn last_pause(&self, database: &Value) -> Result<f64> {
        let events = format!("/v1/sandboxes/{}/events", text(database, "id"));
        let events = self.call(Method::GET, &events, json!({})).await?;
        let all = events["events"].as_array().into_iter().flatten();
        let staged = all.filter(|event| event["type"] == "fork.staged");
        let last = staged.max_by_key(|event| text(event, "ts").to_owned());
        last.and_then(|event| event["payload"]["pause_ms"].as_f64()).with_context(|| format!("no fork in {events}"))
    }
}

/// Clients that write all the time.
struct Load(std::process::Child);

impl Load {
    fn start(office: &DatabaseOffice, database: &Value, options: &[&str]) -> Result<Self> {
        let script = office.data.path().join("load.sql");
        std::fs::write(&script, "UPDATE one SET n = n + 1;\n")?;
        let url = format!("{}?sslmode=require", text(database, "connection_url"));
        let mut pgbench = Command::new("pgbench");
        pgbench.args(["-n", "-c", "2", "-T", "600", "-f"]).arg(script).args(options).arg(url);
        pgbench.env("PGHOSTADDR", "127.0.0.1").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self(pgbench.spawn().context("start pgbench")?))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}
