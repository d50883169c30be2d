//! Bounded time series in memory: fine points for the last hour, coarser ones for a day and a
//! month. The caller passes the time.

mod activity;

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use activity::AllActivity;
use pandastack_model::{ByteSize, SandboxId};
use pandastack_wire_fleet::{MachineUsage, WorkspaceId};

use crate::limits::{SERIES_SANDBOXES_MAX, SERIES_WORKSPACES_MAX};

/// Width of a point in seconds, and number of points kept, from fine to coarse.
const TIERS: [(u64, usize); 3] = [(15, 240), (300, 288), (3600, 720)];

/// The names of a sandbox's values.
pub const SANDBOX_VALUES: [&str; 4] = ["cpu_pct", "mem_bytes", "vsz_bytes", "threads"];
/// The names of a workspace's measured values.
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

/// A point of a series. All values of its period are merged.
trait SeriesPoint: Default {
    fn merge(&mut self, other: &Self);
}

/// A time series. Periods without values have no point.
#[derive(Clone, Debug, Default)]
struct Series<P> {
    tiers: [VecDeque<(u64, P)>; 3],
}

impl<P: SeriesPoint> Series<P> {
    /// Changes the current point of each tier.
    fn update(&mut self, at: u64, change: impl Fn(&mut P)) {
        for (points, (width, kept)) in self.tiers.iter_mut().zip(TIERS) {
            let bucket = at - at % width;
            if let Some((_, point)) = points.back_mut().filter(|(last, _)| *last >= bucket) {
                change(point);
                continue;
            }
            if points.len() >= kept {
                points.pop_front();
            }
            let mut point = P::default();
            change(&mut point);
            points.push_back((bucket, point));
        }
    }

    /// Returns the time of the newest point.
    fn last(&self) -> Option<u64> {
        self.tiers.first()?.back().map(|(at, _)| *at)
    }

    /// Returns the points of a span, merged by step. Finer points replace coarser ones where both
    /// exist. A coarse point may be longer than a step: the number is the step's share of it.
    fn read(&self, span: SeriesRange) -> BTreeMap<u64, (P, f64)> {
        let mut buckets: BTreeMap<u64, (P, f64)> = BTreeMap::new();
        let (from, mut until) = (span.from - span.from % span.step, u64::MAX);
        // Points finer than the step have nothing to add, and do not reach as far back.
        let first = TIERS.iter().rposition(|(width, _)| *width <= span.step).unwrap_or(0);
        for (points, (width, _)) in self.tiers.iter().zip(TIERS).skip(first) {
            let share = (span.step as f64 / width as f64).min(1.0);
            // Skip a coarse point that overlaps finer ones.
            let told = |(at, _): &&(u64, P)| (from..=span.to).contains(at) && at + width <= until;
            for (at, point) in points.iter().filter(told) {
                buckets.entry(at - at % span.step).or_insert_with(|| (P::default(), share)).0.merge(point);
            }
            until = points.front().map_or(until, |(at, _)| (*at).min(until));
        }
        buckets
    }
}

/// Four measured values, to be shown as their means.
#[derive(Clone, Copy, Debug, Default)]
struct MeasuredPoint {
    sums: [f64; 4],
    count: u32,
}

impl SeriesPoint for MeasuredPoint {
    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sums.iter_mut().zip(other.sums).for_each(|(sum, value)| *sum += value);
    }
}

impl Series<MeasuredPoint> {
    fn push(&mut self, at: u64, values: [f64; 4]) {
        self.update(at, |point| point.merge(&MeasuredPoint { sums: values, count: 1 }));
    }
}

/// The last measurement of a machine's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsageBaseline {
    pub pid: u32,
    pub cpu: Duration,
    /// Memory that the process held.
    pub resident: ByteSize,
    pub at_ns: u64,
}

impl UsageBaseline {
    /// Makes a baseline from a measurement.
    pub fn of(usage: &MachineUsage, at_ns: u64) -> Self {
        Self { pid: usage.pid, cpu: usage.cpu, resident: usage.resident, at_ns }
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
pub struct AllSeries {
    measured: Mutex<KeptSeries>,
    /// Has locks of its own, because requests are counted while samples are taken.
    activity: AllActivity,
}

#[derive(Default)]
struct KeptSeries {
    sandboxes: HashMap<SandboxId, (Series<MeasuredPoint>, UsageBaseline)>,
    workspaces: HashMap<WorkspaceId, Series<MeasuredPoint>>,
}

impl AllSeries {
    /// Adds a sample of all sandboxes, and forgets sandboxes that are not in it.
    pub fn sample(&self, everything: &[SandboxSample], now_ns: u64) {
        let now = seconds(now_ns);
        self.activity.prune(now);
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

    /// Counts an answered request.
    pub fn add_request(&self, workspace: &WorkspaceId, status: u16, took: Duration, now_ns: u64) {
        self.activity.update(workspace, seconds(now_ns), |point| point.add_request(status, took));
    }

    /// Counts a created sandbox.
    pub fn add_create(&self, workspace: &WorkspaceId, now_ns: u64) {
        self.activity.update(workspace, seconds(now_ns), |point| point.add_create());
    }

    /// Counts a boot.
    pub fn add_boot(&self, workspace: &WorkspaceId, mode: &str, took: Duration, now_ns: u64) {
        self.activity.update(workspace, seconds(now_ns), |point| point.add_boot(mode, took));
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
        let mut all = self.activity.read(workspace, span);
        let kept = self.lock();
        let points = kept.workspaces.get(workspace).map(|series| series.read(span)).unwrap_or_default();
        all.extend(named(WORKSPACE_VALUES, points));
        all
    }

    fn lock(&self) -> MutexGuard<'_, KeptSeries> {
        self.measured.lock().unwrap_or_else(PoisonError::into_inner)
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
        series.push(seconds(now_ns), values);
        Some(cpu)
    }
}

fn named(names: [&str; 4], points: BTreeMap<u64, (MeasuredPoint, f64)>) -> BTreeMap<String, Points> {
    let mean = |point: &MeasuredPoint, index: usize| rounded(point.sums[index] / f64::from(point.count));
    let of = |index: usize| points.iter().map(|(at, (point, _))| (*at, mean(point, index))).collect();
    names.into_iter().enumerate().map(|(index, name)| (name.to_owned(), of(index))).collect()
}

fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

fn seconds(ns: u64) -> u64 {
    ns / 1_000_000_000
}

#[cfg(test)]
mod tests {
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
        let mut series = Series::<MeasuredPoint>::default();
        let month = 31 * 24 * 3600;
        for at in (0..month).step_by(15) {
            series.push(at, [at as f64; 4]);
        }
        assert_eq!(series.tiers.each_ref().map(VecDeque::len), [240, 288, 720]);
        assert!(series.tiers.iter().all(|points| points.capacity() < 1100), "nothing grows further");
        let points = series.read(SeriesRange { from: 0, to: month, step: 15 });
        assert!(points.len() > 900 && points.len() <= 240 + 288 + 720, "{}", points.len());
        assert_eq!(points.last_key_value().unwrap().0, &(month - 15));
        let last_hour = series.read(SeriesRange { from: month - 3600, to: month, step: 60 });
        assert_eq!(last_hour.len(), 60);
    }
}
