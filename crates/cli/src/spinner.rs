//! A spinner on standard error, shown only on a terminal.

use std::{
    io::{IsTerminal, stderr},
    time::Duration,
};

use indicatif::ProgressBar;

/// Shows that work is in progress, until it is dropped.
pub struct Spinner(Option<ProgressBar>);

impl Spinner {
    /// Says what is being waited for.
    pub fn say(&self, text: String) {
        if let Some(bar) = &self.0 {
            bar.set_message(text);
        }
    }

    /// Starts the spinner, if standard error is a terminal.
    pub fn start(text: &'static str) -> Self {
        if !stderr().is_terminal() {
            return Self(None);
        }
        let bar = ProgressBar::new_spinner().with_message(text);
        bar.enable_steady_tick(Duration::from_millis(80));
        Self(Some(bar))
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
