//! Removes what was put aside: because its time is over, or because an operator wants it.

use pandastack_model::Fault;

use super::OrphanVerb;
use crate::{
    Control,
    plan::{OrphanRequest, RemovalCause},
    store::{OrphanId, OrphanRow},
};

impl Control {
    /// Removes it from the host, then its row. May be repeated from the start after a crash.
    pub(super) async fn remove_orphan(&self, orphan: &OrphanRow, cause: RemovalCause) -> Result<(), Fault> {
        let removed = match orphan.id {
            OrphanId::Sandbox(id) => self.host.remove(id).await,
            OrphanId::Database(_) => self.remove_orphaned_database(orphan).await,
            OrphanId::Volume(id) => self.host.remove_volume(id).await,
        };
        if let Err(fault) = removed {
            // An operator is told. What has expired is tried again.
            if cause == RemovalCause::Expiry {
                return Err(fault);
            }
            tracing::info!(id = %orphan.id, %fault, "could not remove what was put aside");
            let id = orphan.id.to_string();
            self.store.ask_orphan(&id, OrphanRequest::GiveUp, Some(&fault.text)).await?;
            return Ok(());
        }
        self.note_orphan(orphan, OrphanVerb::Removed(cause)).await?;
        self.store.forget_orphan(orphan.id).await?;
        tracing::info!(id = %orphan.id, kind = orphan.id.kind(), ?cause, "removed what was put aside");
        Ok(())
    }

    /// Removes the machine of a database with its volumes and its backups.
    async fn remove_orphaned_database(&self, orphan: &OrphanRow) -> Result<(), Fault> {
        let OrphanId::Database(id) = orphan.id else { return Ok(()) };
        self.host.remove(id).await?;
        // Its backups may have to wait for the archive.
        self.store.remember_archive(id).await?;
        for volume in self.store.orphans().await? {
            if let OrphanId::Volume(disk) = volume.id
                && volume.facts.of_sandbox == Some(id)
            {
                self.host.remove_volume(disk).await?;
                self.store.forget_orphan(volume.id).await?;
            }
        }
        self.remove_forgotten_archive(id).await
    }
}
