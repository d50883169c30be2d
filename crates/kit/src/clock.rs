//! Wall time behind a trait, so that tests can set it.

use std::time::{SystemTime, UNIX_EPOCH};

/// Source of the current time.
pub trait Clock: Send + Sync + 'static {
    /// Returns nanoseconds since the Unix epoch.
    fn now_ns(&self) -> u64;
}

/// The system clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ns(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
    }
}
