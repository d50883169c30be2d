//! What several tests share: a clock that they set, and a deadline.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use pandastack_kit::Clock;

/// Starts at a time like today's, and moves only when it is told to.
pub struct TestClock(AtomicU64);

impl TestClock {
    pub fn new() -> Self {
        Self(AtomicU64::new(1_800_000_000_000_000_000))
    }

    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(by.as_nanos() as u64, Ordering::SeqCst);
    }

    pub fn go_back(&self, by: Duration) {
        self.0.fetch_sub(by.as_nanos() as u64, Ordering::SeqCst);
    }

    pub fn seconds(&self) -> u64 {
        self.now_ns() / 1_000_000_000
    }
}

/// Awaits something that must not hang.
pub async fn soon<F: Future>(work: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(60), work).await.expect("ends within the deadline")
}

impl Clock for TestClock {
    fn now_ns(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}
