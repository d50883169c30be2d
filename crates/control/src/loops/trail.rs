//! Writes the audit trail: many entries in one transaction. Removes old entries at intervals.

use pandastack_door::AuditRow;
use tokio::sync::mpsc;

use crate::{
    Control,
    limits::{AUDIT_AGE_MAX, AUDIT_BATCH, AUDIT_ENTRIES_PER_WORKSPACE_MAX, AUDIT_PRUNE_EVERY, AUDIT_TRIES},
};

/// Writes entries until shutdown, then those still in the queue.
pub async fn write_trail(control: Control, mut audit_entries: mpsc::Receiver<AuditRow>) {
    let token = control.scope.token();
    let (mut batch, mut unpruned) = (Vec::with_capacity(AUDIT_BATCH), 0);
    loop {
        tokio::select! {
            biased;
            _ = audit_entries.recv_many(&mut batch, AUDIT_BATCH) => {}
            () = token.cancelled() => {
                audit_entries.close();
                audit_entries.recv_many(&mut batch, usize::MAX).await;
                write(&control, &batch).await;
                return;
            }
        }
        write(&control, &batch).await;
        unpruned += batch.len();
        if unpruned >= AUDIT_PRUNE_EVERY {
            unpruned = 0;
            prune(&control).await;
        }
        batch.clear();
    }
}

async fn write(control: &Control, batch: &[AuditRow]) {
    for tried in 1..=AUDIT_TRIES {
        let Err(error) = control.store.add_audit_entries(batch).await else { return };
        let cause = std::error::Error::source(&error);
        match tried < AUDIT_TRIES {
            true => tracing::warn!(%error, ?cause, "could not write the audit trail; trying again"),
            false => tracing::error!(%error, ?cause, lost = batch.len(), "audit entries were lost"),
        }
    }
}

/// Removes entries that are too old or too many.
pub async fn prune(control: &Control) {
    let before_ns = control.clock.now_ns().saturating_sub(AUDIT_AGE_MAX.as_nanos() as u64);
    if let Err(error) = control.store.prune_audit_entries(before_ns, AUDIT_ENTRIES_PER_WORKSPACE_MAX).await {
        tracing::warn!(%error, "could not delete old audit entries");
    }
}
