//! Makes and deletes snapshots. The row is written before the layer and removed after it. So the
//! next start finds the row of an interrupted operation and releases the layer.

use pandastack_model::{ByteSize, Fault, FaultKind, LayerId, SandboxId, VolumeAccess};
use pandastack_wire_fleet::{Caller, LayerHold, SealParams};

use super::no_volume;
use crate::{
    Control,
    limits::{SNAPSHOT_MAX, SNAPSHOTS_PER_WORKSPACE_MAX},
    plan::source_name,
    store::{Intent, ResourceKind, SandboxesAdded, SealedMount, SnapshotRow, StoreError},
};

impl Control {
    /// Saves a sandbox's memory, disk and volumes as they are now. The sandbox continues.
    pub(crate) async fn snapshot(&self, caller: &Caller, id: SandboxId) -> Result<SnapshotRow, Fault> {
        self.need_host()?;
        self.reachable(caller, id).await?;
        let intent = self.store.find(&caller.workspace, id).await?.ok_or_else(Fault::no_sandbox)?;
        let volumes = self.sealed_mounts(&intent).await?;
        let snapshot = SnapshotRow {
            layer: LayerId::random(),
            workspace: intent.workspace,
            sandbox: id,
            template: intent.spec.template,
            size: intent.size,
            own: ByteSize::new(0),
            created_at_ns: self.clock.now_ns(),
            volumes,
        };
        self.note_made(caller, ResourceKind::Snapshot, &[snapshot.layer.to_string()]).await?;
        let control = self.clone();
        self.in_time("snapshot", SNAPSHOT_MAX, async move { control.keep(snapshot).await }).await
    }

    /// Describes the volumes of a sandbox, which become part of its snapshot.
    async fn sealed_mounts(&self, intent: &Intent) -> Result<Vec<SealedMount>, Fault> {
        let rows = self.volumes_named(&intent.workspace, &intent.volume_names).await?;
        let mounts = intent.spec.volumes.iter().zip(&intent.volume_names).map(|(mount, name)| {
            let row = rows.iter().find(|row| row.id == mount.volume).ok_or_else(|| no_volume(name))?;
            let read_only = mount.access == VolumeAccess::ReadOnly;
            Ok(SealedMount { name: source_name(row).to_owned(), path: mount.path.clone(), read_only, size: row.size })
        });
        mounts.collect()
    }

    async fn keep(&self, mut snapshot: SnapshotRow) -> Result<SnapshotRow, Fault> {
        if self.store.begin_snapshot(&snapshot, SNAPSHOTS_PER_WORKSPACE_MAX).await? == SandboxesAdded::Full {
            let text = "max snapshots reached; delete one that is no longer needed";
            return Err(Fault::new(FaultKind::Quota, "quota.snapshots", text));
        }
        let layer = snapshot.layer;
        match self.host.seal(snapshot.sandbox, SealParams { layer, hold: LayerHold::Kept }).await {
            Ok(sealed) => {
                snapshot.own = sealed.own;
                self.store.finish_snapshot(layer, sealed.own).await?;
                // Sealing wakes a sleeping sandbox.
                self.reconcile(snapshot.sandbox).await;
                tracing::info!(sandbox = %snapshot.sandbox, %layer, pause = ?sealed.pause, "snapshot created");
                Ok(snapshot)
            }
            Err(fault) => {
                // If the release fails, the row stays and the next start tries again.
                match self.give_up(layer).await {
                    Ok(()) => {}
                    Err(cause) => tracing::warn!(%layer, %cause, "could not release a failed snapshot yet"),
                }
                Err(fault)
            }
        }
    }

    /// Deletes a snapshot of the caller. Sandboxes that run on its layer keep the data they need.
    pub(crate) async fn delete_snapshot(&self, caller: &Caller, layer: LayerId) -> Result<(), Fault> {
        self.need_host()?;
        if !self.store.hide_snapshot(&caller.workspace, layer).await? {
            return Err(no_snapshot());
        }
        let control = self.clone();
        self.in_time("delete snapshot", SNAPSHOT_MAX, async move { control.give_up(layer).await }).await
    }

    /// Releases the layer, then removes the row.
    pub(crate) async fn give_up(&self, layer: LayerId) -> Result<(), Fault> {
        self.host.release(layer).await?;
        self.store.forget_snapshot(layer).await.map_err(|error: StoreError| error.into())
    }
}

/// The fault for a snapshot that does not exist or belongs to another workspace.
pub fn no_snapshot() -> Fault {
    Fault::new(FaultKind::Missing, "snapshot.not_found", "snapshot not found")
}
