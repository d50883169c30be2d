//! Counts the network slots and guest memory that each owner of sandboxes uses. No owner gets all
//! of either, so that others can still create or wake.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pandastack_kit::Undo;
use pandastack_model::{ByteSize, Fault, FaultKind, Owner, ShareRefusal, Shares};

/// The shares of all owners.
#[derive(Clone, Debug, Default)]
pub struct OwnerShares(Arc<Mutex<ShareState>>);

#[derive(Debug, Default)]
struct ShareState {
    slots: Shares<Owner>,
    memory: Shares<Owner>,
}

/// Totals that all owners of this host share.
#[derive(Clone, Copy, Debug)]
pub struct ShareTotals {
    pub slots: u64,
    pub memory: ByteSize,
}

/// One machine's part of its owner's share. It is given back on drop.
#[derive(Debug)]
pub struct OwnedShare {
    owners: OwnerShares,
    owner: Owner,
    memory: ByteSize,
}

impl OwnerShares {
    /// Counts a machine that is about to be made, unless its owner's share is used up. Admission
    /// decides whether the host has room at all.
    pub fn take(&self, owner: &Owner, memory: ByteSize, totals: ShareTotals) -> Result<OwnedShare, Fault> {
        let mut books = self.books();
        let running = books.slots.held(owner);
        if let Err(ShareRefusal::Share { most, .. }) = books.slots.clone().take(owner, 1, totals.slots) {
            let text = format!(
                "this workspace runs {running} sandboxes, and its share of this host is now {most}; hibernate or \
                 delete one"
            );
            return Err(Fault::new(FaultKind::Quota, "quota.running", text));
        }
        if let Err(ShareRefusal::Share { held, most }) =
            books.memory.clone().take(owner, memory.get(), totals.memory.get())
        {
            let [held, most] = [held, most].map(|bytes| ByteSize::new(bytes).as_mib());
            let text = format!(
                "the sandboxes of this workspace have {held} MiB of memory, and its share of this host is now {most} \
                 MiB; this one needs {} MiB, so hibernate or delete another",
                memory.as_mib()
            );
            return Err(Fault::new(FaultKind::Quota, "quota.memory", text));
        }
        books.put(owner, memory);
        Ok(OwnedShare { owners: self.clone(), owner: owner.clone(), memory })
    }

    /// Counts a machine that already exists, without a check.
    pub fn present(&self, owner: &Owner, memory: ByteSize) -> OwnedShare {
        self.books().put(owner, memory);
        OwnedShare { owners: self.clone(), owner: owner.clone(), memory }
    }

    fn books(&self) -> MutexGuard<'_, ShareState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ShareState {
    fn put(&mut self, owner: &Owner, memory: ByteSize) {
        self.slots.put(owner, 1);
        self.memory.put(owner, memory.get());
    }
}

impl OwnedShare {
    /// Adds the release of this share to `undo`, after all other releases.
    pub fn hold(self: Arc<Self>, undo: &mut Undo) {
        let mut all = Undo::new();
        all.hold("share of its owner", move || async move { drop(self) });
        all.absorb(std::mem::take(undo));
        *undo = all;
    }
}

impl Drop for OwnedShare {
    fn drop(&mut self) {
        let mut books = self.owners.books();
        books.slots.give_back(&self.owner, 1);
        books.memory.give_back(&self.owner, self.memory.get());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOTALS: ShareTotals = ShareTotals { slots: 8, memory: ByteSize::gib(8) };

    fn owner(name: &str) -> Owner {
        Owner(name.to_owned())
    }

    /// Takes shares until one is refused; returns them with the code of the refusal.
    fn all(owners: &OwnerShares, memory: ByteSize) -> (Vec<OwnedShare>, &'static str) {
        let mut taken = Vec::new();
        loop {
            match owners.take(&owner("greedy"), memory, TOTALS) {
                Ok(share) => taken.push(share),
                Err(fault) => {
                    assert_eq!(fault.kind, FaultKind::Quota, "{fault}");
                    return (taken, fault.code);
                }
            }
        }
    }

    #[test]
    fn an_owner_at_its_share_of_slots_is_refused_while_another_is_served() {
        let owners = OwnerShares::default();
        let (taken, code) = all(&owners, ByteSize::mib(64));
        assert_eq!((taken.len(), code), (6, "quota.running"));
        assert!(owners.take(&owner("other"), ByteSize::mib(64), TOTALS).is_ok());
        drop(taken);
        let books = owners.books();
        assert_eq!((books.slots.all(), books.memory.all()), (0, 0));
    }

    #[test]
    fn an_owner_at_its_share_of_memory_is_refused_while_another_is_served() {
        let owners = OwnerShares::default();
        let (taken, code) = all(&owners, ByteSize::gib(2));
        assert_eq!((taken.len(), code), (3, "quota.memory"));
        assert!(owners.take(&owner("other"), ByteSize::gib(1), TOTALS).is_ok());
    }
}
