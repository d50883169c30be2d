//! Baseline measurements of the machine. A figure that doubles together with its baseline means
//! that the machine was slow, not our code.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Write},
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use nix::time::{ClockId, clock_gettime};
use pandastack_model::Tier;
use pandastack_testbed::template_data_dir;
use pandastack_vmm_qemu::{Bundle, choose_tier};

use crate::table::{ms, percentile};

const STARTS: usize = 15;

/// Starts bare machine processes and waits for their monitors' greeting.
pub fn start_ms() -> Result<Vec<f64>> {
    let tier = choose_tier(None, None)?.tier;
    let bundle = Bundle::ensure(tier, &template_data_dir().join("runtime"))?;
    let accelerator = if tier == Tier::Kvm { "kvm" } else { "tcg,tb-size=64" };
    let mut times = Vec::new();
    for _ in 0..STARTS {
        let started = Instant::now();
        let mut child = bundle
            .command()
            .args(["-nodefaults", "-no-user-config", "-display", "none", "-M", "microvm", "-accel", accelerator])
            .args(["-m", "256", "-S", "-qmp", "stdio"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("read the monitor")?).read_line(&mut line)?;
        times.push(ms(started.elapsed()));
        child.kill()?;
        child.wait()?;
    }
    Ok(times)
}

/// Writes so many megabytes to a new file and waits until they are on disk. A sleep waits for as
/// much.
pub fn flush_ms(folder: &Path, mb: usize) -> Result<f64> {
    let (path, block) = (folder.join("flush"), vec![7; 1 << 20]);
    let started = Instant::now();
    let mut file = File::create(&path)?;
    for _ in 0..mb {
        file.write_all(&block)?;
    }
    file.sync_data()?;
    let took = ms(started.elapsed());
    fs::remove_file(&path)?;
    Ok(took)
}

/// A text that takes some milliseconds to parse.
const TEXT: &str = include_str!("../../../../docs/openapi.json");

/// Parses per sample.
const PARSES: usize = 4;

/// CPU time of the same work, repeated beside the measurements.
#[derive(Default)]
pub struct CpuPace(Vec<f64>);

impl CpuPace {
    /// Does the work once and records its time.
    pub fn sample(&mut self) -> Result<()> {
        let started = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?;
        for _ in 0..PARSES {
            std::hint::black_box(serde_json::from_str::<serde_json::Value>(std::hint::black_box(TEXT))?);
        }
        let took = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)? - started;
        self.0.push(ms(Duration::from(took)));
        Ok(())
    }

    /// Median divided by the best. 1 means no noise from other processes on the host.
    pub fn spread(&mut self) -> f64 {
        percentile(&mut self.0, 50) / percentile(&mut self.0, 0)
    }
}

/// CPU time of this machine since its start, in ticks: the total, and the part that its hypervisor
/// gave to others.
#[derive(Clone, Copy)]
pub struct CpuTime {
    all: u64,
    stolen: u64,
}

impl CpuTime {
    pub fn now() -> Result<Self> {
        let text = fs::read_to_string("/proc/stat")?;
        let line = text.lines().next().context("read the CPUs' times")?;
        let ticks: Vec<u64> = line.split_whitespace().skip(1).map(str::parse).collect::<Result<_, _>>()?;
        // user, nice, system, idle, iowait, irq, softirq, steal. Guests' time is included in user.
        let all = ticks.iter().take(8).sum();
        Ok(Self { all, stolen: ticks.get(7).copied().unwrap_or(0) })
    }

    /// The stolen share since then.
    pub fn stolen_percent_since(self, then: Self) -> f64 {
        let all = self.all.saturating_sub(then.all).max(1);
        self.stolen.saturating_sub(then.stolen) as f64 * 100.0 / all as f64
    }
}
