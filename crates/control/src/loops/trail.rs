//! Writes the audit trail: many entries in one transaction. Removes old entries at intervals.

use pandastack_door::AuditRow;
use pandastack_kit::random_hex;
use tokio::sync::mpsc;

use crate::{
    Control,
    limits::{AUDIT_AGE_MAX, AUDIT_BATCH, AUDIT_ENTRIES_PER_WORKSPACE_MAX, AUDIT_PRUNE_EVERY, AUDIT_TRIES},
    store::{Store, StoreError},
};

/// An entry that waits to be written.
#[derive(Debug)]
pub enum UnwrittenEntry {
    Request(AuditRow),
    /// A login. Its workspace is looked up here, so that the login does not wait for it.
    Login {
        user: String,
        entry: AuditRow,
    },
}

/// Writes entries until shutdown, then those still in the queue.
pub async fn write_trail(control: Control, mut audit_entries: mpsc::Receiver<UnwrittenEntry>) {
    let token = control.scope.token();
    let (mut batch, mut unpruned) = (Vec::with_capacity(AUDIT_BATCH), 0);
    loop {
        tokio::select! {
            biased;
            _ = audit_entries.recv_many(&mut batch, AUDIT_BATCH) => {}
            () = token.cancelled() => {
                audit_entries.close();
                audit_entries.recv_many(&mut batch, usize::MAX).await;
                write(&control.store, &batch).await;
                return;
            }
        }
        write(&control.store, &batch).await;
        unpruned += batch.len();
        if unpruned >= AUDIT_PRUNE_EVERY {
            unpruned = 0;
            prune(&control).await;
        }
        batch.clear();
    }
}

async fn write(store: &Store, batch: &[UnwrittenEntry]) {
    // The same ids in every try: one whose answer was lost is not written twice.
    let ids: Vec<String> = batch.iter().map(|_| random_hex::<16>()).collect();
    for tried in 1..=AUDIT_TRIES {
        let Err(error) = write_once(store, batch, &ids).await else { return };
        let cause = std::error::Error::source(&error);
        match tried < AUDIT_TRIES {
            true => tracing::warn!(%error, ?cause, "could not write the audit trail; trying again"),
            false => tracing::error!(%error, ?cause, lost = batch.len(), "audit entries were lost"),
        }
    }
}

async fn write_once(store: &Store, batch: &[UnwrittenEntry], ids: &[String]) -> Result<(), StoreError> {
    let mut ready = Vec::with_capacity(batch.len());
    for (id, unwritten) in ids.iter().zip(batch) {
        let entry = match unwritten {
            UnwrittenEntry::Request(entry) => entry.clone(),
            UnwrittenEntry::Login { user, entry } => match store.default_org(user).await? {
                Some(org) => AuditRow { workspace: org.workspace, ..entry.clone() },
                // Nobody could read it.
                None => continue,
            },
        };
        ready.push((id.clone(), entry));
    }
    store.add_audit_entries(&ready).await
}

/// Removes entries that are too old or too many.
pub async fn prune(control: &Control) {
    let before_ns = control.clock.now_ns().saturating_sub(AUDIT_AGE_MAX.as_nanos() as u64);
    if let Err(error) = control.store.prune_audit_entries(before_ns, AUDIT_ENTRIES_PER_WORKSPACE_MAX).await {
        tracing::warn!(%error, "could not delete old audit entries");
    }
}
