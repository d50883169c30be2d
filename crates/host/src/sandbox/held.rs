//! Room for memory that is held back while its guest already goes on. What does not fit is written while the guest stands still:
//! a host with many seals under way must not pay for all of them at once.

use std::sync::Arc;

use pandastack_model::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Most that one seal holds.
pub const HELD_MAX: Bytes = Bytes::mib(128);

/// Most that all of them hold.
const ALL_MAX: Bytes = Bytes::mib(384);

/// What a guest may change between the look at its memory and its pause, beside a sixteenth of what it has changed already.
const SLACK: Bytes = Bytes::mib(1);

/// Counted in these.
const UNIT: Bytes = Bytes::mib(1);

/// The room of a host.
pub struct Held(Arc<Semaphore>);

/// Room for one seal, until it is dropped.
pub struct Permit {
    bytes: usize,
    _units: OwnedSemaphorePermit,
}

impl Permit {
    /// How much to make room for before the guest is paused.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Default for Held {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new((ALL_MAX.get() / UNIT.get()) as usize)))
    }
}

impl Held {
    /// Gives room for what a guest has changed, and some more, if there is any left.
    pub fn admit(&self, changed: Bytes) -> Option<Permit> {
        if changed > HELD_MAX {
            return None;
        }
        let bytes = changed.get() + changed.get() / 16 + SLACK.get();
        let units = u32::try_from(bytes.div_ceil(UNIT.get())).ok()?;
        let units = self.0.clone().try_acquire_many_owned(units).ok()?;
        Some(Permit { bytes: bytes as usize, _units: units })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seal_and_all_of_them_have_a_limit() {
        let held = Held::default();
        assert!(held.admit(Bytes::new(HELD_MAX.get() + 1)).is_none());
        let none = held.admit(Bytes::new(0)).unwrap();
        assert_eq!(none.bytes() as u64, SLACK.get());
        let first = held.admit(HELD_MAX).unwrap();
        assert!(first.bytes() as u64 > HELD_MAX.get());
        let second = held.admit(HELD_MAX).unwrap();
        assert!(held.admit(HELD_MAX).is_none());
        drop(second);
        assert!(held.admit(HELD_MAX).is_some());
    }
}
