//! Benchmarks of the dashboard in Chromium: how soon the list of sandboxes is there, how much code
//! it needs, how soon it shows a change, how it scrolls, and how soon the terminal echoes a key.
//! `clients/dashboard.mjs` drives the browser.

use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use pandastack_control::ControlPlace;
use pandastack_database::{Database, PoolSettings, query};
use pandastack_e2e::{
    browser::{BrowserProgram, QuietNetwork},
    project,
};
use pandastack_testbed::{DataFolder, PATIENCE, TestServer};
use reqwest::{Client, Method};
use serde_json::{Value, json};

use crate::table::{FigureTable, percentile};

const LOADS: usize = 9;
const CHANGES: usize = 20;
const KEYS: usize = 60;
/// Sandboxes in the list that is scrolled.
const ROWS: i64 = 10_000;
/// Loads of that list.
const LONG_LOADS: usize = 3;
/// Nothing is made in advance, so that only the page and its server have work.
const QUIET_SERVER: [&str; 4] = ["--standby", "0", "--blanks", "0"];

pub async fn measure(table: &mut FigureTable) -> Result<()> {
    if table.value("ping_ms_p50").is_none() {
        crate::pings(table).await?;
    }
    let driver = Driver::prepare()?;
    one_machine(&driver, table).await?;
    many_rows(&driver, table).await
}

/// Loads the list, changes a sandbox in it, and types into its terminal.
async fn one_machine(driver: &Driver, table: &mut FigureTable) -> Result<()> {
    let data = DataFolder::with_templates()?;
    let server = TestServer::start(data.path(), &QUIET_SERVER)?;
    create(&server).await?;
    let wanted = json!({ "loads": LOADS, "changes": CHANGES, "keys": KEYS, "packed": true });
    let measured = driver.run(&server, &wanted)?;
    table.report("dash_lcp_ms", measured.percentile("largest_ms", 50)?);
    table.report("dash_rows_ms", measured.percentile("rows_ms", 50)?);
    table.report("dash_initial_kb", measured.percentile("script_bytes", 50)? / 1e3);
    table.report("dash_packed_mb", measured.0["packed_bytes"].as_f64().context("the size of all files")? / 1e6);
    table.report("dash_event_ms", measured.percentile("change_ms", 50)?);
    table.report("dash_event_ms_p95", measured.percentile("change_ms", 95)?);
    let ping = table.value("ping_ms_p50").context("measured above")?;
    table.report("dash_echo_ms", measured.percentile("echo_ms", 50)? - ping);
    table.report("dash_echo_ms_p95", measured.percentile("echo_ms", 95)? - ping);
    Ok(())
}

/// Scrolls a long list. No machines are behind it.
async fn many_rows(driver: &Driver, table: &mut FigureTable) -> Result<()> {
    let data = DataFolder::with_templates()?;
    let server = TestServer::start(data.path(), &QUIET_SERVER)?;
    let id = create(&server).await?;
    copy_rows(&data).await?;
    ask(&server, Method::DELETE, &format!("/v1/sandboxes/{id}"), &Value::Null).await?;
    let measured = driver.run(&server, &json!({ "rows": ROWS, "loads": LONG_LOADS }))?;
    table.report("dash_scroll_ms", measured.percentile("frame_ms", 95)?);
    table.report("dash_scroll_frames", measured.samples("frame_ms")?.len() as f64);
    table.report("dash_lcp_10k_ms", measured.percentile("largest_ms", 50)?);
    Ok(())
}

async fn create(server: &TestServer) -> Result<String> {
    let wanted = json!({"template": "mini", "ttl_seconds": 3600, "metadata": {"name": "web"}});
    let made = ask(server, Method::POST, "/v1/sandboxes", &wanted).await?;
    Ok(made["id"].as_str().context("a sandbox is made")?.to_owned())
}

async fn ask(server: &TestServer, method: Method, path: &str, body: &Value) -> Result<Value> {
    let http = Client::builder().no_proxy().timeout(PATIENCE).build()?;
    let request = http.request(method, format!("{}{path}", server.url)).bearer_auth(&server.key).json(body);
    let bytes = request.send().await?.error_for_status()?.bytes().await?;
    Ok(serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}

/// Copies the only sandbox, each with an id, a name and a time of its own. They are failed ones:
/// a server leaves these as they are, although its host does not have them.
async fn copy_rows(data: &DataFolder) -> Result<()> {
    let settings = PoolSettings { connections_max: 1, busy_max: PATIENCE, statement_max: PATIENCE };
    let database = Database::open(&ControlPlace::in_folder(data.path()).database, settings).await?;
    let rows = "INSERT INTO sandbox (id, workspace, generation, created_at, template, ttl_seconds, persistent,
                    metadata, env, cpus, memory_mib, disk_mib, status, status_reason, guest_ip, boot_ms, boot_mode,
                    isolation, volumes)
                WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
                SELECT substr(id, 1, 24) || substr(CAST(1000000000000 + i AS TEXT), 2), workspace, generation,
                    created_at + i, template, ttl_seconds, persistent,
                    '{\"name\":\"agent-' || CAST(i AS TEXT) || '\",\"task\":\"t-' || CAST(i % 97 AS TEXT) || '\"}',
                    env, cpus, memory_mib, disk_mib, 'failed', 'a copy', guest_ip, boot_ms, boot_mode, isolation,
                    volumes
                FROM sandbox CROSS JOIN n";
    query(rows).bind(ROWS).execute(&database).await?;
    database.close().await;
    Ok(())
}

/// The program that drives the browser, with its packages.
struct Driver(BrowserProgram);

impl Driver {
    const SCRIPT: &str = "bench.mjs";

    fn prepare() -> Result<Self> {
        // Beside the programs of the test, whose helpers it uses.
        let program = BrowserProgram::of("dashboard-driver", &project().join("e2e/tests/dashboard"));
        let script = project().join("e2e/src/bin/bench/clients/dashboard.mjs");
        std::fs::copy(script, program.path(Self::SCRIPT)).context("copy the program for the browser")?;
        Ok(Self(program))
    }

    /// Measures pages of a server. The program has a deadline of its own.
    fn run(&self, server: &TestServer, wanted: &Value) -> Result<Measured> {
        let port = server.url.rsplit(':').next().context("a URL with a port")?.parse()?;
        let network = QuietNetwork::with_port(port);
        let mut command = self.0.command(&network, Self::SCRIPT);
        command.arg(wanted.to_string()).stdin(Stdio::null()).env("NO_PROXY", "*");
        command.envs([("PANDASTACK_API", &server.url), ("PANDASTACK_API_KEY", &server.key)]);
        let output = tokio::task::block_in_place(|| command.output())?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(Measured(serde_json::from_slice(&output.stdout)?))
    }
}

/// What the program measured: lists of samples by name.
struct Measured(Value);

impl Measured {
    fn samples(&self, name: &str) -> Result<Vec<f64>> {
        let samples = self.0[name].as_array().with_context(|| format!("{name} was measured"))?;
        samples.iter().map(|one| one.as_f64().with_context(|| format!("{name} has a sample {one}"))).collect()
    }

    fn percentile(&self, name: &str, percent: usize) -> Result<f64> {
        Ok(percentile(&mut self.samples(name)?, percent))
    }
}
