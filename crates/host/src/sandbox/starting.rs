//! Counts the admitted machines whose process does not run yet: the host's free memory does not
//! show them.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// The machines of a host that are being started.
#[derive(Default)]
pub struct StartingMachines(Arc<AtomicU64>);

/// One machine that is being started. Drop it when its process runs or its start has failed.
#[must_use = "it counts for as long as it is held"]
pub struct StartingMachine(Arc<AtomicU64>);

impl StartingMachines {
    /// Counts one more machine.
    pub fn begin(&self) -> StartingMachine {
        self.0.fetch_add(1, Ordering::Relaxed);
        StartingMachine(self.0.clone())
    }

    /// Number of machines that are being started.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for StartingMachine {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
