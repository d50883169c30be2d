//! Shows the steps of a bake: a progress line on a terminal, plain lines elsewhere.

use std::{
    io::IsTerminal,
    sync::Mutex,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};
use pandastack_host::bake::BakeProgress;

/// Draws steps on standard error.
pub struct ProgressSteps {
    bar: Option<ProgressBar>,
    current: Mutex<Option<(String, Instant)>>,
}

impl ProgressSteps {
    pub fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner();
            let style = ProgressStyle::with_template("{spinner} {prefix} [{elapsed}] {wide_msg:.dim}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        Self { bar, current: Mutex::new(None) }
    }

    /// Ends the last step and marks it as successful or failed.
    pub fn finish(&self, well: bool) {
        self.end_step(well);
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn end_step(&self, well: bool) {
        let Some((name, started)) = self.current.lock().expect("no holder panics").take() else { return };
        let mark = if well { '✓' } else { '✗' };
        let line = format!("  {mark} {name} ({:.1} s)", started.elapsed().as_secs_f32());
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("{line}")),
            None => eprintln!("{line}"),
        }
    }
}

impl BakeProgress for ProgressSteps {
    fn step(&self, name: &str) {
        self.end_step(true);
        *self.current.lock().expect("no holder panics") = Some((name.to_owned(), Instant::now()));
        if let Some(bar) = &self.bar {
            bar.set_prefix(name.to_owned());
            bar.set_message("");
        }
    }

    fn line(&self, text: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(text.trim().chars().take(200).collect::<String>());
        }
    }
}
