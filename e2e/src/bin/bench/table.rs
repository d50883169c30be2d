//! What was measured, as a table for people and as JSON.

use std::time::Duration;

/// One line of the table.
struct Figure {
    key: String,
    value: f64,
    /// What the project wants, where it wants something.
    target: Option<f64>,
    better: &'static str,
}

/// Everything measured in one run.
#[derive(Default)]
pub struct Table(Vec<Figure>);

impl Table {
    pub fn report(&mut self, key: &str, value: f64) {
        self.0.push(Figure { key: key.to_owned(), value, target: None, better: "" });
    }

    pub fn at_most(&mut self, key: &str, value: f64, target: f64) {
        self.0.push(Figure { key: key.to_owned(), value, target: Some(target), better: "<=" });
    }

    pub fn at_least(&mut self, key: &str, value: f64, target: f64) {
        self.0.push(Figure { key: key.to_owned(), value, target: Some(target), better: ">=" });
    }

    pub fn print(&self) {
        println!("{:<28} {:>10}  target", "figure", "value");
        for Figure { key, value, target, better } in &self.0 {
            let wanted = target.map_or("report".to_owned(), |target| {
                let met = if *better == ">=" { *value >= target } else { *value <= target };
                let mark = if met { "met" } else { "MISSED" };
                format!("{better} {target:.1}  {mark}")
            });
            println!("{key:<28} {value:>10.2}  {wanted}");
        }
    }

    pub fn json(&self) -> serde_json::Value {
        let rounded = |value: f64| (value * 100.0).round() / 100.0;
        self.0.iter().map(|figure| (figure.key.clone(), serde_json::json!(rounded(figure.value)))).collect()
    }
}

/// Milliseconds with their fraction.
pub fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// The value that so many percent of all are below.
pub fn percentile(values: &mut [f64], percent: usize) -> f64 {
    assert!(!values.is_empty(), "something was measured");
    values.sort_by(f64::total_cmp);
    values[(values.len() * percent / 100).min(values.len() - 1)]
}
