//! What workspaces do: requests, creates and boots, counted by time. Durations are kept in small
//! histograms, so memory does not grow with the number of requests.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
    time::Duration,
};

use pandastack_wire_fleet::WorkspaceId;

use super::{Points, Series, SeriesPoint, SeriesRange, rounded};
use crate::limits::{SERIES_QUIET_MAX, SERIES_SPAN_MAX, SERIES_WORKSPACES_MAX};

/// Largest durations of the histogram's buckets, in microseconds. The last bucket has no bound.
const BOUNDS: [u32; 15] = [
    500, 1_000, 2_000, 5_000, 10_000, 20_000, 30_000, 50_000, 100_000, 200_000, 300_000, 500_000, 1_000_000, 3_000_000,
    10_000_000,
];

/// Boot mode of a sandbox for which no machine was prepared.
const COLD: &str = "cold";

/// Computes a value of a point. The number is the step's share of the point's length.
type ActivityValue = fn(&ActivityPoint, f64) -> Option<f64>;

/// The names of the values. Durations are in milliseconds, errors are answers from 500 on.
const VALUES: [(&str, ActivityValue); 8] = [
    ("http_rps", |point, share| point.requests.count().map(|count| count * share)),
    ("http_p50", |point, _| point.requests.percentile(50)),
    ("http_p95", |point, _| point.requests.percentile(95)),
    ("http_errors", |point, share| point.requests.count().map(|_| f64::from(point.errors) * share)),
    ("sb_creates", |point, share| (point.creates > 0).then(|| f64::from(point.creates) * share)),
    ("boot_p50", |point, _| point.boots.percentile(50)),
    ("boot_p95", |point, _| point.boots.percentile(95)),
    ("boot_warm_pct", |point, _| point.boots.count().map(|count| 100.0 - f64::from(point.cold) / count * 100.0)),
];

/// A histogram of durations.
#[derive(Clone, Debug, Default)]
struct Durations {
    buckets: [u32; BOUNDS.len() + 1],
    count: u32,
    /// The smallest and the largest duration, in microseconds.
    least: u32,
    most: u32,
}

impl Durations {
    fn add(&mut self, took: Duration) {
        let micros = u32::try_from(took.as_micros()).unwrap_or(u32::MAX);
        self.least = if self.count == 0 { micros } else { self.least.min(micros) };
        self.most = self.most.max(micros);
        self.count = self.count.saturating_add(1);
        if let Some(bucket) = self.buckets.get_mut(BOUNDS.partition_point(|bound| *bound < micros)) {
            *bucket = bucket.saturating_add(1);
        }
    }

    fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.least = if self.count == 0 { other.least } else { self.least.min(other.least) };
        self.most = self.most.max(other.most);
        self.count = self.count.saturating_add(other.count);
        for (bucket, count) in self.buckets.iter_mut().zip(other.buckets) {
            *bucket = bucket.saturating_add(count);
        }
    }

    fn count(&self) -> Option<f64> {
        (self.count > 0).then(|| f64::from(self.count))
    }

    /// Estimates the nearest-rank percentile in milliseconds. Durations are taken to be spread
    /// evenly over their bucket.
    fn percentile(&self, percent: u64) -> Option<f64> {
        let rank = (u64::from(self.count) * percent).div_ceil(100);
        let (mut before, mut low) = (0, self.least);
        for (index, count) in self.buckets.iter().enumerate() {
            let high = BOUNDS.get(index).map_or(self.most, |bound| self.most.min(*bound));
            if *count > 0 && before + u64::from(*count) >= rank {
                let place = (rank - before) as f64 - 0.5;
                let micros = f64::from(low) + f64::from(high.saturating_sub(low)) * place / f64::from(*count);
                return Some(micros / 1000.0);
            }
            before += u64::from(*count);
            low = low.max(high);
        }
        None
    }
}

/// What a workspace did in one period.
#[derive(Clone, Debug, Default)]
pub(super) struct ActivityPoint {
    requests: Durations,
    errors: u32,
    creates: u32,
    boots: Durations,
    cold: u32,
}

impl SeriesPoint for ActivityPoint {
    fn merge(&mut self, other: &Self) {
        self.requests.merge(&other.requests);
        self.boots.merge(&other.boots);
        self.errors = self.errors.saturating_add(other.errors);
        self.creates = self.creates.saturating_add(other.creates);
        self.cold = self.cold.saturating_add(other.cold);
    }
}

impl ActivityPoint {
    pub(super) fn add_request(&mut self, status: u16, took: Duration) {
        self.requests.add(took);
        self.errors = self.errors.saturating_add(u32::from(status >= 500));
    }

    pub(super) fn add_create(&mut self) {
        self.creates = self.creates.saturating_add(1);
    }

    pub(super) fn add_boot(&mut self, mode: &str, took: Duration) {
        self.boots.add(took);
        self.cold = self.cold.saturating_add(u32::from(mode == COLD));
    }
}

type ActivitySeries = Mutex<Series<ActivityPoint>>;

/// The activity of workspaces. A reader of one workspace does not delay the requests of others.
#[derive(Default)]
pub(super) struct AllActivity(RwLock<HashMap<WorkspaceId, Arc<ActivitySeries>>>);

impl AllActivity {
    /// Changes the current points of a workspace. Nothing is counted for further workspaces while
    /// there are too many.
    pub(super) fn update(&self, workspace: &WorkspaceId, at: u64, change: impl Fn(&mut ActivityPoint)) {
        if let Some(series) = self.find(workspace).or_else(|| self.add(workspace)) {
            lock(&series).update(at, change);
        }
    }

    /// Returns a part of a workspace's series.
    pub(super) fn read(&self, workspace: &WorkspaceId, span: SeriesRange) -> BTreeMap<String, Points> {
        let points = self.find(workspace).map(|series| lock(&series).read(span)).unwrap_or_default();
        let of = |value: ActivityValue| {
            let shown = |(at, (point, share)): (&u64, &(ActivityPoint, f64))| {
                value(point, *share).map(|value| (*at, rounded(value)))
            };
            points.iter().filter_map(shown).collect()
        };
        VALUES.into_iter().map(|(name, value)| (name.to_owned(), of(value))).collect()
    }

    /// Forgets workspaces without recent activity. Once there is no room left, quiet ones give way.
    pub(super) fn prune(&self, now: u64) {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let kept = if all.len() < SERIES_WORKSPACES_MAX { SERIES_SPAN_MAX } else { SERIES_QUIET_MAX };
        all.retain(|_, series| lock(series).last().is_none_or(|last| last + kept.as_secs() >= now));
    }

    fn find(&self, workspace: &WorkspaceId) -> Option<Arc<ActivitySeries>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(workspace).cloned()
    }

    fn add(&self, workspace: &WorkspaceId) -> Option<Arc<ActivitySeries>> {
        // Looks first: workspaces without a place must not exclude each other with every request.
        if self.0.read().unwrap_or_else(PoisonError::into_inner).len() >= SERIES_WORKSPACES_MAX {
            return None;
        }
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let has_room = all.len() < SERIES_WORKSPACES_MAX || all.contains_key(workspace);
        has_room.then(|| all.entry(workspace.clone()).or_default().clone())
    }
}

fn lock(series: &ActivitySeries) -> MutexGuard<'_, Series<ActivityPoint>> {
    series.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: SeriesRange = SeriesRange { from: 0, to: 3600, step: 60 };

    fn named(name: &str) -> WorkspaceId {
        WorkspaceId(name.into())
    }

    #[test]
    fn percentiles_are_close_and_exact_for_equal_durations() {
        let (mut many, mut same) = (Durations::default(), Durations::default());
        assert_eq!((many.percentile(50), many.count()), (None, None));
        for ms in 1..=1000 {
            many.add(Duration::from_millis(ms));
            same.add(Duration::from_micros(12_340));
        }
        let (median, high) = (many.percentile(50).unwrap(), many.percentile(95).unwrap());
        assert!((median - 500.0).abs() < 5.0 && (high - 950.0).abs() < 5.0, "{median} {high}");
        assert_eq!((same.percentile(50), same.percentile(95)), (Some(12.34), Some(12.34)));
        same.add(Duration::from_secs(1 << 40));
        assert!(same.percentile(100).unwrap() <= f64::from(u32::MAX) / 1000.0);
    }

    #[test]
    fn what_a_workspace_did_is_shown_by_step() {
        let (all, mine) = (AllActivity::default(), named("mine"));
        for at in [0, 15, 30, 60] {
            all.update(&mine, at, |point| point.add_request(200, Duration::from_millis(4)));
        }
        all.update(&mine, 60, |point| point.add_request(503, Duration::from_millis(4)));
        all.update(&mine, 60, ActivityPoint::add_create);
        for mode in ["cold", "standby", "fork", "wake"] {
            all.update(&mine, 120, |point| point.add_boot(mode, Duration::from_millis(30)));
        }
        let series = all.read(&mine, HOUR);
        assert_eq!(series["http_rps"], [(0, 3.0), (60, 2.0)]);
        assert_eq!(series["http_errors"], [(0, 0.0), (60, 1.0)]);
        for name in ["http_p50", "http_p95"] {
            assert_eq!(series[name], [(0, 4.0), (60, 4.0)], "{name}");
        }
        assert_eq!(series["sb_creates"], [(60, 1.0)]);
        assert_eq!((&series["boot_p50"], &series["boot_p95"]), (&vec![(120, 30.0)], &vec![(120, 30.0)]));
        assert_eq!(series["boot_warm_pct"], [(120, 75.0)]);
        let coarse = all.read(&mine, SeriesRange { step: 3600, ..HOUR });
        assert_eq!((&coarse["http_rps"], &coarse["http_errors"]), (&vec![(0, 5.0)], &vec![(0, 1.0)]));
        assert!(all.read(&named("other"), HOUR).values().all(Vec::is_empty));
    }

    #[test]
    fn points_longer_than_a_step_count_for_one_step() {
        let (all, mine) = (AllActivity::default(), named("mine"));
        for at in (0..2 * 3600).step_by(15) {
            all.update(&mine, at, |point| point.add_request(200, Duration::from_millis(4)));
        }
        let counts = all.read(&mine, SeriesRange { from: 0, to: 2 * 3600, step: 60 })["http_rps"].clone();
        assert!(counts.iter().all(|(_, count)| *count == 4.0), "{counts:?}");
        let exact = all.read(&mine, SeriesRange { from: 0, to: 2 * 3600, step: 300 })["http_rps"].clone();
        assert_eq!((exact.len(), exact.iter().map(|(_, count)| count).sum::<f64>()), (24, 480.0));
    }

    #[test]
    fn only_so_many_workspaces_are_kept_and_quiet_ones_give_way() {
        let (all, create) = (AllActivity::default(), ActivityPoint::add_create);
        for number in 0..SERIES_WORKSPACES_MAX + 10 {
            all.update(&named(&format!("w{number}")), 0, create);
        }
        let count = || all.0.read().unwrap().len();
        assert_eq!(count(), SERIES_WORKSPACES_MAX);
        let quiet = SERIES_QUIET_MAX.as_secs();
        all.update(&named("w0"), quiet, create);
        all.prune(quiet);
        assert_eq!(count(), SERIES_WORKSPACES_MAX);
        all.prune(quiet + 1);
        assert_eq!(count(), 1, "the busy one stays");
        all.prune(quiet + SERIES_SPAN_MAX.as_secs());
        assert_eq!(count(), 1, "there is room");
        all.prune(quiet + SERIES_SPAN_MAX.as_secs() + 15);
        assert_eq!(count(), 0);
    }
}
