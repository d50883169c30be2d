//! Bounded time series in memory: fine points for the last hour, coarser ones for a day and a
//! month. The caller passes the time.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use pandastack_model::SandboxId;
use pandastack_wire_fleet::{MachineUsage, WorkspaceId};

use crate::limits::{SERIES_SANDBOXES_MAX, SERIES_WORKSPACES_MAX};

/// Width of a point in seconds, and number of points kept, from fine to coarse.
const TIERS: [(u64, usize); 3] = [(15, 240), (300, 288), (3600, 720)];

/// The names of a sandbox's values.
pub const SANDBOX_VALUES: [&str; 4] = ["cpu_pct", "mem_bytes", "vsz_bytes", "threads"];
/// The names of a workspace's values.
pub const WORKSPACE_VALUES: [&str; 4] = ["sandboxes", "sandboxes_running", "cpu_percent", "rss_bytes"];

/// Points of one name: Unix seconds and value, oldest first.
pub type Points = Vec<(u64, f64)>;

/// The requested part of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeriesRange {
    /// Unix seconds.
    pub from: u64,
    pub to: u64,
    /// Seconds.
    pub step: u64,
}

/// A time series of four values.
#[derive(Clone, Debug, Default)]
struct Series {
    tiers: [VecDeque<Point>; 3],
}

#[derive(Clone, Copy, Debug)]
struct Point {
    at: u64,
    sums: [f64; 4],
    count: u32,
}

impl Series {
    fn push(&mut self, at: u64, values: [f64; 4]) {
        for (points, (width, kept)) in self.tiers.iter_mut().zip(TIERS) {
            let bucket = at - at % width;
            match points.back_mut().filter(|point| point.at >= bucket) {
                Some(point) => {
                    point.count += 1;
                    point.sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
                }
                None => {
                    points.push_back(Point { at: bucket, sums: values, count: 1 });
                    if points.len() > kept {
                        points.pop_front();
                    }
                }
            }
        }
    }

    /// Returns the points of a span. Each is the mean of the values in its step. Finer points
    /// replace coarser ones where both exist.
    fn read(&self, span: SeriesRange) -> BTreeMap<u64, [f64; 4]> {
        let mut buckets: BTreeMap<u64, Point> = BTreeMap::new();
        let mut until = u64::MAX;
        for (points, (width, _)) in self.tiers.iter().zip(TIERS) {
            // Skip a coarse point that overlaps finer ones.
            let told = |point: &&Point| (span.from..=span.to).contains(&point.at) && point.at + width <= until;
            for point in points.iter().filter(told) {
                let at = point.at - point.at % span.step;
                let bucket = buckets.entry(at).or_insert(Point { at, sums: [0.0; 4], count: 0 });
                bucket.count += point.count;
                bucket.sums.iter_mut().zip(point.sums).for_each(|(sum, value)| *sum += value);
            }
            until = points.front().map_or(until, |point| point.at.min(until));
        }
        let mean = |point: Point| point.sums.map(|sum| (sum / f64::from(point.count) * 100.0).round() / 100.0);
        buckets.into_iter().map(|(at, point)| (at, mean(point))).collect()
    }
}

/// The last measurement of a machine's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsageBaseline {
    pub pid: u32,
    pub cpu: Duration,
    pub at_ns: u64,
}

impl UsageBaseline {
    /// Makes a baseline from a measurement.
    pub fn of(usage: &MachineUsage, at_ns: u64) -> Self {
        Self { pid: usage.pid, cpu: usage.cpu, at_ns }
    }

    /// Returns the CPU use of the same process since the baseline, in percent of one CPU.
    pub fn percent(&self, usage: &MachineUsage, now_ns: u64) -> Option<f64> {
        let elapsed_ns = now_ns.saturating_sub(self.at_ns);
        if usage.pid != self.pid || elapsed_ns == 0 {
            return None;
        }
        let busy_ns = usage.cpu.saturating_sub(self.cpu).as_nanos() as f64;
        Some((busy_ns / elapsed_ns as f64 * 10_000.0).round() / 100.0)
    }
}

/// One sandbox in a sample.
pub struct SandboxSample {
    pub id: SandboxId,
    pub workspace: WorkspaceId,
    pub running: bool,
    pub usage: Option<MachineUsage>,
}

/// The series of all sandboxes and workspaces.
#[derive(Default)]
pub struct AllSeries(Mutex<KeptSeries>);

#[derive(Default)]
struct KeptSeries {
    sandboxes: HashMap<SandboxId, (Series, UsageBaseline)>,
    workspaces: HashMap<WorkspaceId, Series>,
}

impl AllSeries {
    /// Adds a sample of all sandboxes, and forgets sandboxes that are not in it.
    pub fn sample(&self, everything: &[SandboxSample], now_ns: u64) {
        let now = now_ns / 1_000_000_000;
        let mut kept = self.lock();
        let here: HashSet<SandboxId> = everything.iter().map(|sampled| sampled.id).collect();
        kept.sandboxes.retain(|id, _| here.contains(id));
        let mut totals: HashMap<&WorkspaceId, [f64; 4]> = HashMap::new();
        for SandboxSample { id, workspace, running, usage } in everything {
            let total = totals.entry(workspace).or_default();
            total[0] += 1.0;
            total[1] += f64::from(u8::from(*running));
            let Some(usage) = usage else { continue };
            let cpu = kept.add(*id, usage, now_ns).unwrap_or(0.0);
            total[2] += cpu;
            total[3] += usage.resident.get() as f64;
        }
        // A workspace without sandboxes continues with zeros.
        for (workspace, series) in &mut kept.workspaces {
            if !totals.contains_key(workspace) {
                series.push(now, [0.0; 4]);
            }
        }
        for (workspace, total) in totals {
            if kept.workspaces.len() < SERIES_WORKSPACES_MAX || kept.workspaces.contains_key(workspace) {
                kept.workspaces.entry(workspace.clone()).or_default().push(now, total);
            }
        }
    }

    /// Returns the last measurement of a sandbox.
    pub fn baseline(&self, id: SandboxId) -> Option<UsageBaseline> {
        self.lock().sandboxes.get(&id).map(|(_, baseline)| *baseline)
    }

    /// Returns a part of a sandbox's series.
    pub fn sandbox(&self, id: SandboxId, span: SeriesRange) -> BTreeMap<String, Points> {
        let kept = self.lock();
        named(SANDBOX_VALUES, kept.sandboxes.get(&id).map(|(series, _)| series.read(span)).unwrap_or_default())
    }

    /// Returns a part of a workspace's series.
    pub fn workspace(&self, workspace: &WorkspaceId, span: SeriesRange) -> BTreeMap<String, Points> {
        let kept = self.lock();
        named(WORKSPACE_VALUES, kept.workspaces.get(workspace).map(|series| series.read(span)).unwrap_or_default())
    }

    fn lock(&self) -> MutexGuard<'_, KeptSeries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KeptSeries {
    /// Adds a measurement and returns the CPU use. The first measurement of a process only sets the
    /// baseline.
    fn add(&mut self, id: SandboxId, usage: &MachineUsage, now_ns: u64) -> Option<f64> {
        if self.sandboxes.len() >= SERIES_SANDBOXES_MAX && !self.sandboxes.contains_key(&id) {
            return None;
        }
        let fresh = UsageBaseline::of(usage, now_ns);
        let (series, baseline) = self.sandboxes.entry(id).or_insert_with(|| (Series::default(), fresh));
        let cpu = baseline.percent(usage, now_ns);
        *baseline = fresh;
        let cpu = cpu?;
        let values = [cpu, usage.resident.get() as f64, usage.mapped.get() as f64, usage.threads as f64];
        series.push(now_ns / 1_000_000_000, values);
        Some(cpu)
    }
}

fn named(names: [&str; 4], points: BTreeMap<u64, [f64; 4]>) -> BTreeMap<String, Points> {
    let of = |index: usize| points.iter().map(|(at, values)| (*at, values[index])).collect();
    names.into_iter().enumerate().map(|(index, name)| (name.to_owned(), of(index))).collect()
}

#[cfg(test)]
mod tests {
    use pandastack_model::ByteSize;

    use super::*;

    const NS: u64 = 1_000_000_000;

    fn usage(id: SandboxId, pid: u32, cpu_seconds: u64) -> MachineUsage {
        MachineUsage {
            id,
            pid,
            up: Duration::from_secs(1),
            cpu: Duration::from_secs(cpu_seconds),
            resident: ByteSize::mib(10),
            mapped: ByteSize::mib(20),
            threads: 3,
        }
    }

    fn sampled(id: SandboxId, usage: Option<MachineUsage>) -> SandboxSample {
        SandboxSample { id, workspace: WorkspaceId("w".into()), running: usage.is_some(), usage }
    }

    #[test]
    fn how_busy_a_machine_was_is_told_between_samples_of_the_same_process() {
        let (all, id) = (AllSeries::default(), SandboxId::random());
        let span = SeriesRange { from: 0, to: 1000, step: 15 };
        for (at, pid, cpu) in [(15, 7, 100), (30, 7, 115), (45, 7, 130), (60, 8, 1), (75, 8, 1)] {
            all.sample(&[sampled(id, Some(usage(id, pid, cpu)))], at * NS);
        }
        let series = all.sandbox(id, span);
        assert_eq!(series["cpu_pct"], [(30, 100.0), (45, 100.0), (75, 0.0)]);
        assert_eq!(series["threads"][0], (30, 3.0));
        let busy = all.workspace(&WorkspaceId("w".into()), span)["cpu_percent"].clone();
        assert_eq!(busy, [(15, 0.0), (30, 100.0), (45, 100.0), (60, 0.0), (75, 0.0)]);
        let coarse = all.sandbox(id, SeriesRange { from: 0, to: 1000, step: 300 });
        assert_eq!(coarse["cpu_pct"], [(0, 66.67)]);
        assert_eq!(all.sandbox(SandboxId::random(), span)["cpu_pct"], []);
    }

    #[test]
    fn what_is_gone_is_forgotten_and_workspaces_go_on_with_zeros() {
        let (all, id) = (AllSeries::default(), SandboxId::random());
        all.sample(&[sampled(id, Some(usage(id, 7, 1)))], 15 * NS);
        all.sample(&[sampled(id, None)], 30 * NS);
        all.sample(&[], 45 * NS);
        let series = all.workspace(&WorkspaceId("w".into()), SeriesRange { from: 0, to: 100, step: 15 });
        assert_eq!(series["sandboxes"], [(15, 1.0), (30, 1.0), (45, 0.0)]);
        assert_eq!(series["sandboxes_running"], [(15, 1.0), (30, 0.0), (45, 0.0)]);
        assert_eq!(all.baseline(id), None);
    }

    #[test]
    fn a_month_fits_and_older_points_are_coarser() {
        let mut series = Series::default();
        let month = 31 * 24 * 3600;
        for at in (0..month).step_by(15) {
            series.push(at, [at as f64; 4]);
        }
        assert_eq!(series.tiers.each_ref().map(VecDeque::len), [240, 288, 720]);
        let points = series.read(SeriesRange { from: 0, to: month, step: 15 });
        assert!(points.len() > 900 && points.len() <= 240 + 288 + 720, "{}", points.len());
        assert_eq!(points.last_key_value().unwrap().0, &(month - 15));
        let last_hour = series.read(SeriesRange { from: month - 3600, to: month, step: 60 });
        assert_eq!(last_hour.len(), 60);
    }
}
