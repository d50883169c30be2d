//! Counts the machines that were let in and whose process does not run yet: the host's free memory
//! does not show them.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// The machines of a host that are being started.
#[derive(Default)]
pub struct Starts(Arc<AtomicU64>);

/// One of them, until it is dropped: its process runs, or there will be none.
#[must_use = "it counts for as long as it is held"]
pub struct Starting(Arc<AtomicU64>);

impl Starts {
    /// Counts one more.
    pub fn begin(&self) -> Starting {
        self.0.fetch_add(1, Ordering::Relaxed);
        Starting(self.0.clone())
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
