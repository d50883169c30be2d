//! Limits the sealed memory that is held in RAM while its guest already runs again. Memory beyond
//! the limit is written while the guest is paused, so that many seals at once cannot exhaust the
//! host.

use std::sync::Arc;

use pandastack_model::ByteSize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum for one seal.
const HELD_MAX: ByteSize = ByteSize::mib(128);

/// Maximum for all seals together.
const ALL_MAX: ByteSize = ByteSize::mib(384);

/// Expected change between the memory scan and the pause, besides a sixteenth of what has changed
/// already. The buffer for it is allocated before the pause.
const SLACK: ByteSize = ByteSize::mib(1);

/// Allowed change of a busy guest in that time, besides a quarter of what has changed already. A
/// guest that changes more stays paused until its memory is written.
const MARGIN: ByteSize = ByteSize::mib(8);

/// Unit of the semaphore.
const UNIT: ByteSize = ByteSize::mib(1);

/// The host's budget for held memory.
pub struct HeldMemory(Arc<Semaphore>);

/// One seal's part of the budget, until it is dropped.
pub struct HeldMemoryPermit {
    bytes: usize,
    most: ByteSize,
    _units: OwnedSemaphorePermit,
}

impl HeldMemoryPermit {
    /// Size of the buffer to allocate before the guest is paused.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Maximum that may be held with this permit.
    pub fn most(&self) -> ByteSize {
        self.most
    }
}

impl Default for HeldMemory {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new((ALL_MAX.get() / UNIT.get()) as usize)))
    }
}

impl HeldMemory {
    /// Reserves room for the changed memory and a margin, if the budget has it.
    pub fn admit(&self, changed: ByteSize) -> Option<HeldMemoryPermit> {
        if changed > HELD_MAX {
            return None;
        }
        let changed = changed.get();
        let units = (changed + changed / 4 + MARGIN.get()).min(HELD_MAX.get()).div_ceil(UNIT.get());
        let most = ByteSize::new(units * UNIT.get());
        let bytes = (changed + changed / 16 + SLACK.get()).min(most.get());
        let units = self.0.clone().try_acquire_many_owned(u32::try_from(units).ok()?).ok()?;
        Some(HeldMemoryPermit { bytes: bytes as usize, most, _units: units })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seal_and_all_of_them_have_a_limit() {
        let held = HeldMemory::default();
        assert!(held.admit(ByteSize::new(HELD_MAX.get() + 1)).is_none());
        let three = [HELD_MAX; 3].map(|changed| held.admit(changed).unwrap());
        for permit in &three {
            assert_eq!((permit.bytes() as u64, permit.most()), (HELD_MAX.get(), HELD_MAX));
        }
        assert!(held.admit(ByteSize::new(0)).is_none(), "more is held than there is room for");
        drop(three);
        assert!(held.admit(HELD_MAX).is_some());
    }

    #[test]
    fn a_guest_may_change_some_more_before_it_is_paused() {
        let none = HeldMemory::default().admit(ByteSize::new(0)).unwrap();
        assert_eq!((none.bytes() as u64, none.most()), (SLACK.get(), MARGIN));
        let some = HeldMemory::default().admit(ByteSize::mib(16)).unwrap();
        assert_eq!((some.bytes() as u64, some.most()), (ByteSize::mib(18).get(), ByteSize::mib(28)));
    }

    /// All permits together never allow more than the budget, whatever the sizes.
    #[test]
    fn permits_cover_what_they_allow() {
        for changed in [0, 1, 5 << 20, (24 << 20) + 1, 90 << 20, HELD_MAX.get()] {
            let held = HeldMemory::default();
            let permits: Vec<HeldMemoryPermit> = std::iter::from_fn(|| held.admit(ByteSize::new(changed))).collect();
            let all: u64 = permits.iter().map(|permit| permit.most().get()).sum();
            assert!(all <= ALL_MAX.get() && permits.len() > 1, "{} permits for {changed} allow {all}", permits.len());
            assert!(permits.iter().all(|permit| permit.bytes() as u64 <= permit.most().get()));
        }
    }
}
