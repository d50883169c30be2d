//! Fork, sleep and wake of a machine whose guest has changed some memory.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use pandastack_host::{Host, HostSettings};
use pandastack_model::{LayerId, SandboxId};
use pandastack_testbed::{Bed, spec};
use pandastack_wire_fleet::{EnsureParams, ForkOutcome, ForkParams, HostPort};

use crate::{
    floors::{CpuPace, flush_ms},
    table::{FigureTable, ms, percentile},
};

const FORKS: usize = 20;
const TREES: usize = 3;
const TREE: usize = 10;
const SLEEPS: usize = 10;

/// Memory that the guest changes before a fork and before a sleep. With the guest's other changes
/// it is about 24 and 50.
const FORK_DIRT_MB: usize = 20;
const SLEEP_DIRT_MB: usize = 44;

/// Size on disk of a sleeping sandbox.
const SLEEP_FLUSH_MB: usize = 48;

/// Idle time of the host between two steps.
const QUIET: Duration = Duration::from_millis(300);

/// Idle time of a guest before a sleep. Right after its start it would sleep with a new spare link,
/// and finish that work when it wakes (decision 12). A real sandbox has been idle for longer.
const IDLE: Duration = Duration::from_millis(1500);

/// Measures on a host without standby machines, so that nothing else runs. All other settings are a
/// server's.
pub async fn measure(table: &mut FigureTable) -> Result<()> {
    let settings = HostSettings { standby: 0, ..HostSettings::default() };
    let bed = Bed::start_with(settings, |net| net).await?;
    let mut pace = CpuPace::default();
    forks(&bed, table, &mut pace).await?;
    trees(&bed, table).await?;
    sleeps(&bed, table, &mut pace).await?;
    flushes(&bed, table).await?;
    table.report("floor_cpu_spread", pace.spread());
    bed.close().await;
    Ok(())
}

/// Changes so much of the guest's memory.
async fn change_memory(bed: &Bed, id: SandboxId, mb: usize) -> Result<()> {
    bed.sh(id, &format!("dd if=/dev/urandom of=/dev/shm/dirt bs=1M count={mb} 2>/dev/null")).await?;
    tokio::time::sleep(QUIET).await;
    Ok(())
}

async fn fork(bed: &Bed, parent: SandboxId, count: usize) -> Result<(Vec<SandboxId>, ForkOutcome, f64)> {
    let child = || EnsureParams { id: SandboxId::random(), generation: 1, spec: spec("mini") };
    let children: Vec<EnsureParams> = (0..count).map(|_| child()).collect();
    let ids = children.iter().map(|child| child.id).collect();
    let started = Instant::now();
    let forked = bed.host.fork(ForkParams { parent, layer: LayerId::random(), children }).await?;
    Ok((ids, forked, ms(started.elapsed())))
}

async fn forks(bed: &Bed, table: &mut FigureTable, pace: &mut CpuPace) -> Result<()> {
    let parent = bed.create().await?;
    change_memory(bed, parent, FORK_DIRT_MB).await?;
    let (mut times, mut pauses, mut changed) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..FORKS {
        let (ids, forked, took) = fork(bed, parent, 1).await?;
        forked.children.into_iter().collect::<Result<Vec<_>, _>>()?;
        times.push(took);
        pauses.push(ms(forked.layer.pause));
        changed.push(forked.layer.own.get() as f64 / 1e6);
        bed.host.remove(ids[0]).await?;
        pace.sample()?;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    table.report("fork_changed_mb", percentile(&mut changed, 50));
    table.report("fork_ms_p50", percentile(&mut times, 50));
    table.report("fork_ms_p99", percentile(&mut times, 99));
    table.report("fork_pause_ms_p50", percentile(&mut pauses, 50));
    table.report("fork_pause_ms_p99", percentile(&mut pauses, 99));
    bed.host.remove(parent).await?;
    Ok(())
}

async fn trees(bed: &Bed, table: &mut FigureTable) -> Result<()> {
    let parent = bed.create().await?;
    change_memory(bed, parent, FORK_DIRT_MB).await?;
    let (mut times, mut pss) = (Vec::new(), Vec::new());
    for _ in 0..TREES {
        let (ids, forked, took) = fork(bed, parent, TREE).await?;
        forked.children.into_iter().collect::<Result<Vec<_>, _>>()?;
        times.push(took);
        tokio::time::sleep(Duration::from_secs(1)).await;
        for id in &ids {
            pss.push(pss_mb(&bed.host, *id).await?);
        }
        for id in ids {
            bed.host.remove(id).await?;
        }
    }
    table.report("fork_tree10_ms", percentile(&mut times, 50));
    table.report("pss_child_mb", percentile(&mut pss, 50));
    bed.host.remove(parent).await?;
    Ok(())
}

async fn sleeps(bed: &Bed, table: &mut FigureTable, pace: &mut CpuPace) -> Result<()> {
    let (mut falls, mut wakes, mut again) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..SLEEPS {
        let id = bed.create().await?;
        change_memory(bed, id, SLEEP_DIRT_MB).await?;
        tokio::time::sleep(IDLE).await;
        falls.push(timed(bed.host.sleep(id)).await?);
        tokio::time::sleep(QUIET).await;
        // The first answer to a separate request, after the wake.
        wakes.push(timed(bed.host.ping(id)).await?);
        // The second sleep is of a guest that was itself restored from a sleep.
        tokio::time::sleep(IDLE).await;
        bed.host.sleep(id).await?;
        tokio::time::sleep(QUIET).await;
        again.push(timed(bed.host.ping(id)).await?);
        pace.sample()?;
        bed.host.remove(id).await?;
    }
    table.report("hibernate_changed_mb", changed_before_sleep(bed).await?);
    table.report("hibernate_ms_p50", percentile(&mut falls, 50));
    table.report("hibernate_ms_p99", percentile(&mut falls, 99));
    table.report("wake_ms_p50", percentile(&mut wakes, 50));
    table.report("wake_ms_p99", percentile(&mut wakes, 99));
    table.report("wake_again_ms_p50", percentile(&mut again, 50));
    Ok(())
}

/// Time of the disk alone for what a sleep writes. Not alternated with the sleeps: the disk would
/// have finished its backlog for them.
async fn flushes(bed: &Bed, table: &mut FigureTable) -> Result<()> {
    let mut times = Vec::new();
    for _ in 0..SLEEPS {
        times.push(tokio::task::block_in_place(|| flush_ms(&bed.data_dir, SLEEP_FLUSH_MB))?);
        tokio::time::sleep(QUIET).await;
    }
    table.report("floor_flush50_ms_p50", percentile(&mut times, 50));
    Ok(())
}

/// Measures how much the sleeping sandboxes have changed, with a seal of another one like them. A
/// seal of their own would warm them up.
async fn changed_before_sleep(bed: &Bed) -> Result<f64> {
    let id = bed.create().await?;
    change_memory(bed, id, SLEEP_DIRT_MB).await?;
    let (_, forked, _) = fork(bed, id, 0).await?;
    bed.host.remove(id).await?;
    Ok(forked.layer.own.get() as f64 / 1e6)
}

async fn timed<T, E>(work: impl Future<Output = Result<T, E>>) -> Result<f64, E> {
    let started = Instant::now();
    work.await?;
    Ok(ms(started.elapsed()))
}

/// Memory of a sandbox's machine, with shared pages counted proportionally.
pub async fn pss_mb(host: &Host, id: SandboxId) -> Result<f64> {
    let pid = host.machine_pid(id).await.context("find the machine's process")?;
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let line = text.lines().find(|line| line.starts_with("Pss:")).context("read the process's share")?;
    let kib: f64 = line.split_whitespace().nth(1).context("read the process's share")?.parse()?;
    Ok(kib * 1024.0 / 1e6)
}
