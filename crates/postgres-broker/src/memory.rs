//! Memory for what is large: the bodies of requests and the rows of results. Whoever needs some
//! waits for it. Each owner has a part, so that one with many databases cannot take all.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits::{LARGE_ALL_BYTES, LARGE_BYTES_MIN, LARGE_PER_OWNER_BYTES};

const UNIT_BYTES: usize = 1024;

/// The memory of one kind for all owners.
pub(crate) struct LargeMemory {
    all: Arc<Semaphore>,
    owners: Mutex<HashMap<String, Weak<Semaphore>>>,
}

/// The part of one owner.
pub(crate) struct OwnerMemory {
    memory: Arc<LargeMemory>,
    part: Arc<Semaphore>,
}

/// Memory that was taken. It is given back on drop.
pub(crate) struct MemoryShare {
    _owner: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

impl Default for LargeMemory {
    fn default() -> Self {
        Self { all: Arc::new(Semaphore::new(LARGE_ALL_BYTES / UNIT_BYTES)), owners: Mutex::default() }
    }
}

impl LargeMemory {
    /// Finds the part of an owner. It is forgotten when nobody uses it any more.
    pub fn of(self: &Arc<Self>, owner: &str) -> OwnerMemory {
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        owners.retain(|_, used| used.strong_count() > 0);
        let found = owners.get(owner).and_then(Weak::upgrade).unwrap_or_else(|| {
            let new = Arc::new(Semaphore::new(LARGE_PER_OWNER_BYTES / UNIT_BYTES));
            owners.insert(owner.to_owned(), Arc::downgrade(&new));
            new
        });
        OwnerMemory { memory: Arc::clone(self), part: found }
    }
}

impl OwnerMemory {
    /// Waits for memory for so many bytes, which are held `times` times. Nothing if they are few.
    pub async fn take(&self, bytes: usize, times: usize) -> Option<MemoryShare> {
        if bytes <= LARGE_BYTES_MIN {
            return None;
        }
        let wanted = bytes.saturating_mul(times).min(LARGE_PER_OWNER_BYTES).div_ceil(UNIT_BYTES);
        let wanted = u32::try_from(wanted).unwrap_or(u32::MAX);
        // The owner's part first: waiting for it takes nothing from others.
        let owner = self.part.clone().acquire_many_owned(wanted).await.ok()?;
        let all = self.memory.all.clone().acquire_many_owned(wanted).await.ok()?;
        Some(MemoryShare { _owner: owner, _all: all })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_owner_waits_for_itself_and_not_for_another() {
        let memory = Arc::new(LargeMemory::default());
        let (one, again, other) = (memory.of("one"), memory.of("one"), memory.of("other"));
        let wait = Duration::from_secs(1);
        assert!(one.take(LARGE_BYTES_MIN, 100).await.is_none(), "little is free");
        // More than there is means all of it.
        let held = one.take(LARGE_PER_OWNER_BYTES, 4).await;
        assert!(held.is_some());
        assert!(timeout(wait, again.take(LARGE_BYTES_MIN + 1, 1)).await.is_err());
        assert!(timeout(wait, other.take(LARGE_PER_OWNER_BYTES, 1)).await.unwrap().is_some());
        drop(held);
        assert!(timeout(wait, again.take(LARGE_BYTES_MIN + 1, 1)).await.unwrap().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn all_owners_together_have_a_limit_and_are_forgotten() {
        let memory = Arc::new(LargeMemory::default());
        let owners: Vec<_> = (0..=LARGE_ALL_BYTES / LARGE_PER_OWNER_BYTES).map(|n| memory.of(&n.to_string())).collect();
        let mut held = Vec::new();
        for owner in &owners[1..] {
            held.push(owner.take(LARGE_PER_OWNER_BYTES, 1).await);
        }
        let waits = timeout(Duration::from_secs(1), owners[0].take(LARGE_PER_OWNER_BYTES, 1));
        assert!(waits.await.is_err());
        drop((held, owners));
        memory.of("next");
        assert_eq!(memory.owners.lock().unwrap().len(), 1);
        assert_eq!(memory.all.available_permits(), LARGE_ALL_BYTES / UNIT_BYTES);
    }
}
