//! Changes the terms of a running sandbox: its egress rules and its idle limit. The row changes
//! first, so that a fork or a restart sees the new terms; then the host applies them.
//! `loops::compare` applies them again after a crash in between.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use pandastack_model::{Egress, Fault, SandboxId};
use pandastack_wire_fleet::IdlePolicy;

use crate::{
    Control,
    store::{IdleLimit, StoreError, StoredLimit, Term},
};

/// One lock for each sandbox with a change of terms in progress, so that row and host change in the
/// same order.
#[derive(Default)]
pub struct TermLocks(Mutex<HashMap<SandboxId, Weak<tokio::sync::Mutex<()>>>>);

impl TermLocks {
    pub(super) async fn lock(&self, id: SandboxId) -> tokio::sync::OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            locks.retain(|_, lock| lock.strong_count() > 0);
            let held = locks.get(&id).and_then(Weak::upgrade);
            held.unwrap_or_else(|| {
                let lock = Arc::default();
                locks.insert(id, Arc::downgrade(&lock));
                lock
            })
        };
        lock.lock_owned().await
    }
}

impl Control {
    /// Changes the egress rules of a sandbox. If the host refuses, the old rules are restored.
    pub(super) async fn change_egress(&self, id: SandboxId, egress: Egress) -> Result<(), Fault> {
        let _lock = self.locks.terms.lock(id).await;
        let old = self.store.egress_of(id).await?.ok_or_else(Fault::no_sandbox)?;
        self.store.set_egress(id, &egress).await?;
        match self.host.set_egress(id, egress).await {
            Ok(()) => Ok(self.store.mark_applied(id, Term::Egress).await?),
            Err(fault) => {
                // The host may have applied a part of the call. The row stays marked as unapplied,
                // so that the next comparison sends the old rules.
                self.store.set_egress(id, &old).await?;
                Err(fault)
            }
        }
    }

    /// Changes the idle limit, and returns how long the sandbox has been idle. If the host refuses,
    /// the old limit is restored.
    pub(super) async fn change_idle_limit(&self, id: SandboxId, limit: IdleLimit) -> Result<Duration, Fault> {
        let _lock = self.locks.terms.lock(id).await;
        let old = self.store.idle_limit(id).await?.ok_or_else(Fault::no_sandbox)?;
        // After an explicit change, a promotion no longer changes the limit.
        self.store.set_idle_limit(id, StoredLimit { limit, promoted: None }).await?;
        match self.host.set_lifecycle(id, lifecycle(limit)).await {
            Ok(seen) => {
                self.store.mark_applied(id, Term::IdleLimit).await?;
                Ok(seen.idle)
            }
            Err(fault) => {
                self.store.set_idle_limit(id, old).await?;
                Err(fault)
            }
        }
    }

    /// Changes the idle limit of a machine that may be dead. The host gets it later if it does not
    /// take it now.
    pub(super) async fn keep_idle_limit(&self, id: SandboxId, limit: IdleLimit, is_live: bool) -> Result<(), Fault> {
        if is_live {
            return self.change_idle_limit(id, limit).await.map(drop);
        }
        let _lock = self.locks.terms.lock(id).await;
        Ok(self.store.set_idle_limit(id, StoredLimit { limit, promoted: None }).await?)
    }

    /// Applies every term that the host may not have yet. A failed one is tried again at the next
    /// comparison.
    pub(crate) async fn reapply_terms(&self) -> Result<(), StoreError> {
        for (id, term) in self.store.unapplied_terms().await? {
            let _lock = self.locks.terms.lock(id).await;
            match self.reapply(id, term).await {
                Ok(()) => tracing::info!(sandbox = %id, ?term, "applied terms that were still pending"),
                Err(fault) => tracing::warn!(sandbox = %id, ?term, %fault, "could not apply terms; trying again later"),
            }
        }
        Ok(())
    }

    async fn reapply(&self, id: SandboxId, term: Term) -> Result<(), Fault> {
        match term {
            Term::Egress => {
                let Some(egress) = self.store.egress_of(id).await? else { return Ok(()) };
                self.host.set_egress(id, egress).await?;
            }
            Term::IdleLimit => {
                let Some(kept) = self.store.idle_limit(id).await? else { return Ok(()) };
                self.host.set_lifecycle(id, lifecycle(kept.limit)).await?;
            }
        }
        Ok(self.store.mark_applied(id, term).await?)
    }
}

fn lifecycle(limit: IdleLimit) -> IdlePolicy {
    let IdleLimit { ttl_seconds, persistent } = limit;
    IdlePolicy { ttl_seconds, persistent }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_lock_is_for_one_sandbox_and_is_forgotten_when_nobody_holds_it() {
        let (locks, [one, other]) = (TermLocks::default(), [SandboxId::random(), SandboxId::random()]);
        let held = locks.lock(one).await;
        drop(locks.lock(other).await);
        let waiting = tokio::time::timeout(Duration::from_millis(20), locks.lock(one)).await;
        assert!(waiting.is_err(), "somebody else holds it");
        drop(held);
        drop(locks.lock(one).await);
        drop(locks.lock(other).await);
        assert!(locks.0.lock().unwrap().len() <= 1, "locks that nobody holds go with the next one");
    }
}
