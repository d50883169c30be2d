//! Times of steps, and what is said about them.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Map, Value, json};

/// One step of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BenchStep {
    Create,
    Exec,
    Fork,
    Hibernate,
    Wake,
    Delete,
}

/// A round in order.
pub const BENCH_STEPS: [BenchStep; 6] =
    [BenchStep::Create, BenchStep::Exec, BenchStep::Fork, BenchStep::Hibernate, BenchStep::Wake, BenchStep::Delete];

/// The times of all rounds.
#[derive(Debug, Default)]
pub struct BenchFigures {
    times: BTreeMap<BenchStep, Vec<Duration>>,
}

impl BenchStep {
    fn name(self) -> &'static str {
        match self {
            BenchStep::Create => "create",
            BenchStep::Exec => "exec",
            BenchStep::Fork => "fork",
            BenchStep::Hibernate => "hibernate",
            BenchStep::Wake => "wake",
            BenchStep::Delete => "delete",
        }
    }
}

impl BenchFigures {
    /// Records a time.
    pub fn add(&mut self, step: BenchStep, took: Duration) {
        self.times.entry(step).or_default().push(took);
    }

    /// The rows of the table.
    pub fn rows(&self) -> Vec<Vec<String>> {
        self.summaries()
            .map(|(step, count, times)| {
                let times = times.map(|ms| format!("{ms:.1} ms"));
                [step.name().to_owned(), count.to_string()].into_iter().chain(times).collect()
            })
            .collect()
    }

    /// The same for programs, in milliseconds.
    pub fn report(&self, server: &str, template: &str) -> Value {
        let steps: Map<_, _> = self
            .summaries()
            .map(|(step, count, [p50, p95, min, max])| {
                let rounded = |ms: f64| (ms * 1000.0).round() / 1000.0;
                let [p50, p95, min, max] = [p50, p95, min, max].map(rounded);
                let summary = json!({ "count": count, "p50_ms": p50, "p95_ms": p95, "min_ms": min, "max_ms": max });
                (step.name().to_owned(), summary)
            })
            .collect();
        json!({ "server": server, "template": template, "steps": steps })
    }

    /// Step, number of times, and p50, p95, minimum and maximum in milliseconds.
    fn summaries(&self) -> impl Iterator<Item = (BenchStep, usize, [f64; 4])> + '_ {
        self.times.iter().map(|(step, times)| {
            let mut sorted = times.clone();
            sorted.sort();
            let shares = [50, 95, 0, 100].map(|percent| percentile(&sorted, percent).as_secs_f64() * 1000.0);
            (*step, sorted.len(), shares)
        })
    }
}

/// The nearest rank: the smallest time that so many percent of the times do not exceed.
fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let times: Vec<_> = (1..=20).map(Duration::from_millis).collect();
        let of = |percent| percentile(&times, percent).as_millis();
        assert_eq!((of(0), of(50), of(95), of(100)), (1, 10, 19, 20));
        assert_eq!(percentile(&times[..1], 95), Duration::from_millis(1));
        assert_eq!(percentile(&[], 50), Duration::ZERO);
    }

    #[test]
    fn a_report_has_the_steps_that_were_measured() {
        let mut figures = BenchFigures::default();
        figures.add(BenchStep::Exec, Duration::from_micros(1500));
        figures.add(BenchStep::Create, Duration::from_millis(3));
        assert_eq!(figures.rows()[0][..3], ["create", "1", "3.0 ms"]);
        assert_eq!(figures.report("s", "t")["steps"]["exec"]["p95_ms"], json!(1.5));
    }
}
