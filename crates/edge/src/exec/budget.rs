//! A shared memory budget, in KiB. Callers never wait for it: without room they drop output.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

const UNIT_BYTES: usize = 1024;

/// The budget. Clones share it.
#[derive(Clone)]
pub struct OutputBudget(Arc<Semaphore>);

/// A part of the budget, returned on drop.
#[derive(Default)]
pub struct BudgetShare {
    permit: Option<OwnedSemaphorePermit>,
}

impl OutputBudget {
    /// Creates a budget of this many bytes.
    pub fn new(bytes: usize) -> Self {
        Self(Arc::new(Semaphore::new(bytes / UNIT_BYTES)))
    }

    /// Grows a share until it covers this many bytes. Returns false if there is no room.
    pub fn cover(&self, share: &mut BudgetShare, bytes: usize) -> bool {
        let have = share.permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let missing = bytes.div_ceil(UNIT_BYTES).saturating_sub(have);
        let Ok(missing) = u32::try_from(missing) else { return false };
        match self.0.clone().try_acquire_many_owned(missing) {
            Ok(more) => {
                match &mut share.permit {
                    Some(permit) => permit.merge(more),
                    none => *none = Some(more),
                }
                true
            }
            Err(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_grow_and_come_back() {
        let budget = OutputBudget::new(10 * UNIT_BYTES);
        let (mut one, mut two) = (BudgetShare::default(), BudgetShare::default());
        assert!(budget.cover(&mut one, 6000));
        assert!(budget.cover(&mut one, 6001));
        assert!(!budget.cover(&mut two, 5 * UNIT_BYTES));
        drop(one);
        assert!(budget.cover(&mut two, 10 * UNIT_BYTES));
    }
}
