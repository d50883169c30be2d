//! `make bench`: measures, prints a table, writes it as JSON, and puts it into the README and
//! `docs/bench.svg`. `bench state`, `bench api`, `bench team`, `bench sdk`, `bench code`,
//! `bench dash` and `bench db` measure one part and write nothing; `bench publish` only publishes
//! the last figures. Compare times of one run only: machines are noisy.

mod api;
mod code;
mod dashboard;
mod database_proxy;
mod databases;
mod figures;
mod floors;
mod publish;
mod sdk;
mod state;
mod table;
mod team;

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use bytes::Bytes;
use futures_util::StreamExt;
use pandastack_host::HostSettings;
use pandastack_model::SandboxId;
use pandastack_testbed::{Bed, built, spec, wait_for};
use pandastack_wire_fleet::{EnsureParams, HostPort, WriteParams};

use crate::{
    floors::CpuTime,
    table::{FigureTable, ms, percentile},
};

/// File with the figures of the last run.
const LATEST: &str = "bench/latest.json";
const CREATES: usize = 30;
const BURSTS: usize = 3;
const BURST: usize = 10;
const ROUND_TRIPS: usize = 300;
const EXECS: usize = 40;
const FILE_BYTES: usize = 64 << 20;
const STANDBY: usize = 2;

#[tokio::main]
async fn main() -> Result<()> {
    // Logs the stages of launches and seals on request: `PANDASTACK_LOG=pandastack_host=debug`.
    if let Ok(filter) = tracing_subscriber::EnvFilter::try_from_env("PANDASTACK_LOG") {
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    }
    let out = std::env::args().nth(1).unwrap_or_else(|| LATEST.to_owned());
    if out == "publish" {
        let table =
            FigureTable::read(&std::fs::read(LATEST).context("read the last figures; `make bench` makes them")?)?;
        return publish::publish(&table, Path::new("."));
    }
    let (mut table, cpu_time) = (FigureTable::default(), CpuTime::now()?);
    // One part alone, for development. Writes nothing.
    if ["state", "api", "team", "sdk", "code", "dash", "db"].contains(&out.as_str()) {
        match out.as_str() {
            "state" => state::measure(&mut table).await?,
            "team" => team::measure(&mut table).await?,
            "sdk" => sdk::measure(&mut table)?,
            "code" => code::measure(&mut table)?,
            "dash" => dashboard::measure(&mut table).await?,
            "db" => {
                // Compared with plain sandboxes of the same run.
                cold(&mut table).await?;
                state::measure(&mut table).await?;
                database_proxy::measure(&mut table).await?;
                databases::measure(&mut table).await?;
            }
            _ => api::measure(&mut table).await?,
        }
        table.report("stolen_cpu_percent", CpuTime::now()?.stolen_percent_since(cpu_time));
        table.print();
        return Ok(());
    }
    table.report("floor_qemu_start_ms", percentile(&mut floors::start_ms()?, 50));
    let boot_ms = boot_ms().await?;
    table.report("boot_ms", boot_ms);
    cold(&mut table).await?;
    standby(&mut table, boot_ms).await?;
    warm(&mut table).await?;
    inside(&mut table).await?;
    state::measure(&mut table).await?;
    api::measure(&mut table).await?;
    team::measure(&mut table).await?;
    sdk::measure(&mut table)?;
    code::measure(&mut table)?;
    dashboard::measure(&mut table).await?;
    database_proxy::measure(&mut table).await?;
    databases::measure(&mut table).await?;
    let binary = std::fs::metadata(built("pandastack")).context("find the release binary; `make build` makes it")?;
    table.report("binary_mb", binary.len() as f64 / 1e6);
    let client = std::fs::metadata(built("pandastack-client")).context("find the client; `make client` builds it")?;
    table.report("client_mb", client.len() as f64 / 1e6);
    table.report("stolen_cpu_percent", CpuTime::now()?.stolen_percent_since(cpu_time));
    table.print();
    std::fs::write(&out, serde_json::to_vec_pretty(&table.json())?).with_context(|| format!("write {out}"))?;
    publish::publish(&table, Path::new("."))?;
    println!("written to {out}, README.md and docs/bench.svg");
    Ok(())
}

async fn boot_ms() -> Result<f64> {
    let bed = Bed::start_with(HostSettings { standby: 0, ..HostSettings::default() }, |net| net).await?;
    let layer = bed.layers.template(&spec("mini").template)?;
    let boot = bed.layers.manifest(layer)?.boot_ms as f64;
    bed.close().await;
    Ok(boot)
}

async fn cold(table: &mut FigureTable) -> Result<()> {
    let bed = Bed::start_with(HostSettings { standby: 0, ..HostSettings::default() }, |net| net).await?;
    let mut times = Vec::new();
    // The first create verifies the layer's digests, once per process.
    for number in 0..=CREATES {
        let started = Instant::now();
        let id = bed.create().await?;
        if number > 0 {
            times.push(ms(started.elapsed()));
        }
        bed.host.remove(id).await?;
        settle().await;
    }
    bed.close().await;
    table.report("create_cold_ms_p50", percentile(&mut times, 50));
    table.report("create_cold_ms_p99", percentile(&mut times, 99));
    Ok(())
}

/// Creates sandboxes one after the other, each when the standby pool is full.
async fn from_the_shelf(bed: &Bed) -> Result<Vec<f64>> {
    let mut times = Vec::new();
    for _ in 0..CREATES {
        wait_for_standby(bed).await;
        let started = Instant::now();
        let id = bed.create().await?;
        times.push(ms(started.elapsed()));
        bed.host.remove(id).await?;
    }
    Ok(times)
}

/// The pool that an operator configures by name, `--warm mini=2`.
async fn warm(table: &mut FigureTable) -> Result<()> {
    let warm = [(spec("mini").template, STANDBY)].into();
    let bed = Bed::start_with(HostSettings { standby: 0, warm, ..HostSettings::default() }, |net| net).await?;
    let mut times = from_the_shelf(&bed).await?;
    bed.close().await;
    table.report("create_warm_ms_p50", percentile(&mut times, 50));
    table.report("create_warm_ms_p99", percentile(&mut times, 99));
    Ok(())
}

async fn standby(table: &mut FigureTable, boot_ms: f64) -> Result<()> {
    let bed = Bed::start_with(HostSettings { standby: STANDBY, ..HostSettings::default() }, |net| net).await?;
    let mut times = from_the_shelf(&bed).await?;
    let p50 = percentile(&mut times, 50);
    table.report("create_standby_ms_p50", p50);
    table.report("create_standby_ms_p99", percentile(&mut times, 99));
    table.report("create_standby_per_boot", p50 / boot_ms);
    let mut burst = Vec::new();
    for _ in 0..BURSTS {
        wait_for_standby(&bed).await;
        let started = Instant::now();
        let creates = (0..BURST).map(|_| async {
            let id = SandboxId::random();
            bed.host
                .ensure(EnsureParams { id, generation: 1, spec: spec("mini") })
                .await
                .map(|_| (id, ms(started.elapsed())))
        });
        for made in futures_util::future::join_all(creates).await {
            let (id, took) = made?;
            burst.push(took);
            bed.host.remove(id).await?;
        }
    }
    bed.close().await;
    table.report("create_burst10_ms_p50", percentile(&mut burst, 50));
    table.report("create_burst10_ms_p99", percentile(&mut burst, 99));
    Ok(())
}

async fn wait_for_standby(bed: &Bed) {
    wait_for("the standby machines", Duration::from_secs(60), || async {
        (bed.host.status().await.standby == STANDBY).then_some(())
    })
    .await;
    settle().await;
}

/// Waits for background work of the last step, so that the next one is measured alone.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(100)).await;
}

async fn inside(table: &mut FigureTable) -> Result<()> {
    let bed = Bed::start_with(HostSettings { standby: 0, ..HostSettings::default() }, |net| net).await?;
    let id = bed.create().await?;
    bed.sh(id, "true").await?;
    settle().await;
    ping(&bed, id, table).await?;
    let mut execs = Vec::new();
    for _ in 0..EXECS {
        let started = Instant::now();
        bed.sh(id, "true").await?;
        execs.push(ms(started.elapsed()));
    }
    table.report("exec_true_ms_p50", percentile(&mut execs, 50));
    files(&bed, id, table).await?;
    idle_memory(&bed, table).await?;
    bed.close().await;
    Ok(())
}

/// The round trip to the agent, for a part that is measured alone.
async fn pings(table: &mut FigureTable) -> Result<()> {
    let bed = Bed::start_with(HostSettings { standby: 0, ..HostSettings::default() }, |net| net).await?;
    let id = bed.create().await?;
    bed.sh(id, "true").await?;
    settle().await;
    ping(&bed, id, table).await?;
    bed.close().await;
    Ok(())
}

async fn ping(bed: &Bed, id: SandboxId, table: &mut FigureTable) -> Result<()> {
    let mut times = Vec::new();
    for _ in 0..ROUND_TRIPS {
        times.push(ms(bed.host.ping(id).await?));
    }
    table.report("ping_ms_p50", percentile(&mut times, 50));
    Ok(())
}

async fn files(bed: &Bed, id: SandboxId, table: &mut FigureTable) -> Result<()> {
    let chunk = Bytes::from(vec![7u8; 128 * 1024]);
    let chunks = FILE_BYTES / chunk.len();
    let body = futures_util::stream::iter((0..chunks).map(move |_| Ok(chunk.clone())));
    let started = Instant::now();
    bed.host.write_file(id, WriteParams { path: "/dev/shm/big".to_owned(), mode: None }, Box::pin(body)).await?;
    table.report("upload_mb_s", FILE_BYTES as f64 / 1e6 / started.elapsed().as_secs_f64());
    let started = Instant::now();
    let mut file = bed.host.read_file(id, "/dev/shm/big").await?;
    let mut read = 0;
    while let Some(piece) = file.body.next().await {
        read += piece?.len();
    }
    anyhow::ensure!(read == FILE_BYTES, "read {read} of {FILE_BYTES} bytes");
    table.report("download_mb_s", FILE_BYTES as f64 / 1e6 / started.elapsed().as_secs_f64());
    bed.host.remove(id).await?;
    Ok(())
}

/// Memory of an idle new sandbox, with shared pages counted proportionally.
async fn idle_memory(bed: &Bed, table: &mut FigureTable) -> Result<()> {
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(bed.create().await?);
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut pss = Vec::new();
    for id in &ids {
        pss.push(state::pss_mb(&bed.host, *id).await?);
    }
    for id in ids {
        bed.host.remove(id).await?;
    }
    table.report("pss_idle_mb", percentile(&mut pss, 50));
    Ok(())
}
