//! The measured figures, as a table for people and as JSON.

use std::{collections::BTreeMap, time::Duration};

use crate::figures::{FIGURES, Goal};

/// All figures of one run, in order.
#[derive(Default)]
pub struct FigureTable(Vec<(String, f64)>);

impl FigureTable {
    pub fn report(&mut self, key: &str, value: f64) {
        // Ratios need more digits than milliseconds.
        let digits = if value.abs() < 0.1 { 10_000.0 } else { 100.0 };
        let value = (value * digits).round() / digits;
        // A run takes many minutes.
        eprintln!("{key:<28} {value:>10}");
        self.0.push((key.to_owned(), value));
    }

    /// Reads the figures of an earlier run.
    pub fn read(json: &[u8]) -> serde_json::Result<Self> {
        let values: BTreeMap<String, f64> = serde_json::from_slice(json)?;
        Ok(Self(values.into_iter().collect()))
    }

    pub fn print(&self) {
        println!("{:<28} {:>10}  target", "figure", "value");
        for (key, value) in &self.0 {
            let goal = FIGURES.iter().find(|figure| figure.key == key).map(|figure| figure.goal);
            let wanted = goal.map_or("report".to_owned(), |goal| {
                let mark = if goal.is_met(*value) { "met" } else { "MISSED" };
                match goal {
                    Goal::AtMost(target) => format!("<= {target}  {mark}"),
                    Goal::AtLeast(target) => format!(">= {target}  {mark}"),
                }
            });
            println!("{key:<28} {value:>10.2}  {wanted}");
        }
    }

    pub fn value(&self, key: &str) -> Option<f64> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| *value)
    }

    pub fn json(&self) -> serde_json::Value {
        self.0.iter().map(|(key, value)| (key.clone(), serde_json::json!(value))).collect()
    }
}

/// Milliseconds with their fraction.
pub fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// The given percentile of the values.
pub fn percentile(values: &mut [f64], percent: usize) -> f64 {
    assert!(!values.is_empty(), "something was measured");
    values.sort_by(f64::total_cmp);
    values[(values.len() * percent / 100).min(values.len() - 1)]
}
