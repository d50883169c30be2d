//! Resource usage of sandboxes and boot times, as the API shows them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Current resource usage of a sandbox's machine process on its host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MachineMetrics {
    pub pid: u32,
    pub uptime_seconds: u64,
    /// CPU usage since the last sample, in percent of one CPU.
    pub host_cpu_percent: f64,
    pub host_rss_bytes: u64,
    pub host_vsz_bytes: u64,
    pub threads: u64,
}

/// Values over time. Each name has a list of pairs of a time such as
/// `2026-11-17 09:12:00` (UTC) and a value, oldest first.
///
/// A sandbox has `cpu_pct`, `mem_bytes`, `vsz_bytes` and `threads`. A workspace has `sandboxes`,
/// `sandboxes_running`, `cpu_percent` and `rss_bytes`, and, for steps in which there were some,
/// requests (`http_rps`: their number, `http_errors`: those answered with 500 or more, `http_p50`
/// and `http_p95` in milliseconds), created sandboxes (`sb_creates`), and boots (`boot_p50` and
/// `boot_p95` in milliseconds, `boot_warm_pct`: the percentage that was not cold).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MetricSeries {
    pub from: String,
    pub to: String,
    pub step: String,
    pub series: BTreeMap<String, Vec<(String, f64)>>,
}

/// Boot times of recent sandboxes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BootStats {
    pub total_samples: u64,
    /// Time from the oldest sample until now.
    pub window_seconds: u64,
    pub overall: BootBucket,
    pub by_mode: BTreeMap<String, BootBucket>,
    pub by_template: BTreeMap<String, BootBucket>,
    /// The last boots, newest first.
    pub recent: Vec<BootSample>,
}

/// A summary of boot times, in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BootBucket {
    pub count: u64,
    pub min_ms: u64,
    pub max_ms: u64,
    pub mean_ms: f64,
    pub p50_ms: u64,
    pub p90_ms: u64,
    pub p99_ms: u64,
}

/// One boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BootSample {
    pub time: String,
    /// The same as `time`.
    #[serde(default)]
    pub ts: String,
    pub sandbox_id: String,
    pub template: String,
    pub boot_mode: String,
    pub boot_ms: u64,
}

impl BootBucket {
    /// Summarizes boot times. All values are zero if there are none.
    pub fn of(mut boots: Vec<u64>) -> Self {
        boots.sort_unstable();
        let (Some(min_ms), Some(max_ms)) = (boots.first().copied(), boots.last().copied()) else {
            return Self::default();
        };
        let count = boots.len();
        // Nearest-rank percentile.
        let percentile = |percent: usize| boots[(count * percent).div_ceil(100).clamp(1, count) - 1];
        let sum: f64 = boots.iter().map(|boot| *boot as f64).sum();
        Self {
            count: count as u64,
            min_ms,
            max_ms,
            mean_ms: (sum / count as f64 * 100.0).round() / 100.0,
            p50_ms: percentile(50),
            p90_ms: percentile(90),
            p99_ms: percentile(99),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boots_are_summarized() {
        assert_eq!(BootBucket::of(vec![]), BootBucket::default());
        let one = BootBucket::of(vec![7]);
        assert_eq!((one.count, one.min_ms, one.p50_ms, one.p99_ms, one.mean_ms), (1, 7, 7, 7, 7.0));
        let many = BootBucket::of((1..=200).rev().collect());
        assert_eq!((many.min_ms, many.p50_ms, many.p90_ms, many.p99_ms, many.max_ms), (1, 100, 180, 198, 200));
        assert_eq!(many.mean_ms, 100.5);
    }
}
