//! The clock of usage facts: wall time that does not jump while the host runs. It counts the
//! kernel's time since boot, which nobody can set, from an anchor that the ledger keeps.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use nix::time::{ClockId, clock_gettime};

/// Largest difference from the wall clock that is kept. A larger one means that somebody set it.
pub const STEP_MIN: Duration = Duration::from_secs(2);

/// Names the current boot of the kernel.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Both clocks of the kernel at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockReading {
    /// Unix time.
    pub wall_ns: i64,
    /// Time since boot, including suspension.
    pub boot_ns: i64,
}

/// Source of the kernel's clocks.
#[derive(Clone)]
pub struct ClockSource {
    boot: String,
    read: Arc<dyn Fn() -> ClockReading + Send + Sync>,
}

impl ClockSource {
    /// Makes a source from a boot's name and a function, which is called each time.
    pub fn new(boot: impl Into<String>, read: impl Fn() -> ClockReading + Send + Sync + 'static) -> Self {
        Self { boot: boot.into(), read: Arc::new(read) }
    }

    /// The kernel's own clocks.
    pub fn kernel() -> Self {
        // Without a name every start counts as a new boot: the anchor is made anew.
        let boot = std::fs::read_to_string(BOOT_ID).unwrap_or_default();
        let read = |clock| clock_gettime(clock).map_or(0, |now| now.tv_sec() * 1_000_000_000 + now.tv_nsec());
        Self::new(boot.trim(), move || ClockReading {
            wall_ns: read(ClockId::CLOCK_REALTIME),
            boot_ns: read(ClockId::CLOCK_BOOTTIME),
        })
    }

    /// Name of the current boot. Empty if it is unknown.
    pub fn boot(&self) -> &str {
        &self.boot
    }

    /// Returns the anchor that agrees with the wall clock now: Unix time of the boot.
    pub fn anchor_now(&self) -> i64 {
        let ClockReading { wall_ns, boot_ns } = (self.read)();
        wall_ns.saturating_sub(boot_ns)
    }
}

impl fmt::Debug for ClockSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ClockSource").field(&self.boot).field(&(self.read)()).finish()
    }
}

/// The steady clock. It changes only when its anchor is replaced.
#[derive(Debug)]
pub struct SteadyClock {
    source: ClockSource,
    anchor_ns: AtomicI64,
}

impl SteadyClock {
    /// Continues from an anchor of the same boot.
    pub fn anchored(source: ClockSource, anchor_ns: i64) -> Self {
        Self { source, anchor_ns: AtomicI64::new(anchor_ns) }
    }

    /// Returns the time in nanoseconds since the Unix epoch.
    pub fn now_ns(&self) -> i64 {
        self.now_by(self.anchor_ns.load(Ordering::SeqCst))
    }

    /// Returns the time by another anchor.
    pub fn now_by(&self, anchor_ns: i64) -> i64 {
        (self.source.read)().boot_ns.saturating_add(anchor_ns).max(0)
    }

    /// Returns a new anchor if the wall clock was set since the last one.
    pub fn stepped(&self) -> Option<i64> {
        let anchor_ns = self.source.anchor_now();
        let difference = anchor_ns.abs_diff(self.anchor_ns.load(Ordering::SeqCst));
        (u128::from(difference) > STEP_MIN.as_nanos()).then_some(anchor_ns)
    }

    /// Sets another anchor and returns the one before.
    pub fn replace_anchor(&self, anchor_ns: i64) -> i64 {
        self.anchor_ns.swap(anchor_ns, Ordering::SeqCst)
    }
}
