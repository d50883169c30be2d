//! A bar on standard error, shown only on a terminal.

use std::{
    io::{IsTerminal, stderr},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressStyle};

const BAR: &str = "{bar:30} {bytes}/{total_bytes}  {bytes_per_sec}  {eta} left  {msg}";

/// Shows how far a copy is, until it is dropped.
pub struct CopyProgress(ProgressBar);

impl CopyProgress {
    /// Starts the bar, if standard error is a terminal.
    pub fn start() -> Self {
        if !stderr().is_terminal() {
            return Self::hidden();
        }
        let style = ProgressStyle::with_template(BAR).unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::no_length().with_style(style);
        bar.enable_steady_tick(Duration::from_millis(200));
        Self(bar)
    }

    /// Shows nothing.
    pub fn hidden() -> Self {
        Self(ProgressBar::hidden())
    }

    /// Sets what is to be copied in all.
    pub fn total(&self, bytes: u64) {
        self.0.set_length(bytes);
    }

    /// Counts bytes that were copied, now or before.
    pub fn add(&self, bytes: u64) {
        self.0.inc(bytes);
    }

    /// Shows the file that is copied.
    pub fn file(&self, name: &str) {
        self.0.set_message(name.chars().filter(|letter| !letter.is_control()).collect::<String>());
    }

    /// Returns a counter for a stream that outlives a borrow.
    pub fn counter(&self) -> impl Fn(u64) + Send + Sync + 'static {
        let bar = self.0.clone();
        move |bytes| bar.inc(bytes)
    }
}

impl Drop for CopyProgress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
