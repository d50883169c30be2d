//! Makes, shows, grows and deletes volumes. The control plane owns their names. The host owns the
//! disks and decides which sandboxes may use them.

use std::collections::HashMap;

use pandastack_model::{ByteSize, Fault, FaultKind, ShareRefusal, VOLUMES_OVERCOMMIT, VolumeId, admit_share};
use pandastack_wire_fleet::{Caller, VolumeView, WorkspaceId};
use pandastack_wire_public::VolumeName;
use tokio::sync::OwnedMutexGuard;

use crate::{
    Control,
    limits::{CHANGE_MAX, VOLUMES_PER_WORKSPACE_MAX},
    store::{ResourceKind, VolumeAdded, VolumeBytes, VolumeRow},
};

/// A volume with the view of the host.
pub struct VolumeStatus {
    pub volume: VolumeRow,
    pub seen: Option<VolumeView>,
}

/// What limits the growth of a volume, besides the workspace's share of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GrowthLimits {
    OfPlan,
    /// The caller has a limit of its own.
    None,
}

impl Control {
    /// Makes an empty volume.
    pub(crate) async fn make_volume(
        &self,
        caller: &Caller,
        name: VolumeName,
        size: ByteSize,
    ) -> Result<VolumeStatus, Fault> {
        self.need_host()?;
        let volume = VolumeRow {
            id: VolumeId::random(),
            workspace: caller.workspace.clone(),
            name: name.to_string(),
            size,
            created_at_ns: self.clock.now_ns(),
            sandbox: None,
        };
        self.note_made(caller, ResourceKind::Volume, &[volume.id.to_string()]).await?;
        let (control, caller) = (self.clone(), caller.clone());
        self.in_time("create volume", CHANGE_MAX, async move { control.make_to_the_end(&caller, volume).await }).await
    }

    async fn make_to_the_end(&self, caller: &Caller, mut volume: VolumeRow) -> Result<VolumeStatus, Fault> {
        let named = {
            let _gate = self.locks.volumes.lock().await;
            self.check_volume(&volume.workspace, (None, volume.size)).await?;
            self.admit_bytes(&volume.workspace, volume.size).await?;
            self.store.begin_volume(caller, &volume, VOLUMES_PER_WORKSPACE_MAX).await?
        };
        match named {
            VolumeAdded::Yes => {}
            VolumeAdded::Taken => {
                let text = format!("volume {} already exists", volume.name);
                return Err(Fault::new(FaultKind::Conflict, "volume.exists", text));
            }
            VolumeAdded::Full => return Err(too_many_volumes()),
        }
        match self.host.make_volume(volume.id, volume.size).await {
            Ok(seen) => {
                volume.size = seen.size;
                self.store.show_volume(volume.id, seen.size, self.clock.now_ns()).await?;
                tracing::info!(volume = %volume.id, size = %seen.size, "volume created");
                Ok(VolumeStatus { volume, seen: Some(seen) })
            }
            Err(fault) => {
                if let Err(cause) = self.remove_volume_disk(volume.id).await {
                    tracing::warn!(volume = %volume.id, %cause, "could not remove a failed volume yet");
                }
                Err(fault)
            }
        }
    }

    /// Finds volumes by their names. A missing one is left out.
    pub(super) async fn volumes_named(
        &self,
        workspace: &WorkspaceId,
        names: &[String],
    ) -> Result<Vec<VolumeRow>, Fault> {
        let mut volumes = Vec::with_capacity(names.len());
        for name in names {
            volumes.extend(self.store.find_volume(workspace, name).await?);
        }
        Ok(volumes)
    }

    /// Records the sizes that copies have in fact: a volume may have grown between the plan of its
    /// copy and the seal.
    pub(super) fn measure_copies(&self, copies: Vec<VolumeRow>) {
        if copies.is_empty() {
            return;
        }
        let control = self.clone();
        let work = async move {
            let seen = control.seen_volumes().await?;
            for copy in copies {
                let size = seen.get(&copy.id).map_or(copy.size, |view| view.size);
                if size > copy.size {
                    control.store.resize_volume(copy.id, size, control.clock.now_ns()).await?;
                }
            }
            Ok::<(), Fault>(())
        };
        self.scope.start("measure copies of volumes", async move {
            if let Err(fault) = work.await {
                tracing::warn!(%fault, "could not record the sizes of copied volumes");
            }
        });
    }

    /// Checks that copies of volumes fit the limit and the share of a workspace. The lock is held
    /// until they are recorded.
    pub(super) async fn admit_copies(
        &self,
        workspace: &WorkspaceId,
        copies: &[&VolumeRow],
    ) -> Result<Option<OwnedMutexGuard<()>>, Fault> {
        if copies.is_empty() {
            return Ok(None);
        }
        let gate = self.locks.volumes.clone().lock_owned().await;
        let held = self.store.count_volumes(workspace).await? + copies.len() as u64;
        if held > VOLUMES_PER_WORKSPACE_MAX {
            return Err(too_many_volumes());
        }
        let bytes = copies.iter().map(|copy| copy.size.get()).sum();
        self.admit_bytes(workspace, ByteSize::new(bytes)).await?;
        Ok(Some(gate))
    }

    /// Removes the volumes that were copied for sandboxes that are gone. If the host refuses one,
    /// the next delete tries again.
    pub(crate) async fn remove_abandoned_volumes(&self) {
        let abandoned = match self.store.abandoned_volumes().await {
            Ok(abandoned) => abandoned,
            Err(error) => {
                tracing::warn!(%error, "could not list the volumes of deleted sandboxes");
                return;
            }
        };
        for volume in abandoned {
            match self.remove_volume_disk(volume).await {
                Ok(()) => tracing::info!(%volume, "removed the volume of a deleted sandbox"),
                Err(fault) => tracing::warn!(%volume, %fault, "could not remove a volume of a deleted sandbox yet"),
            }
        }
    }

    /// Does the same in the background, for callers that others wait for.
    pub(crate) fn remove_abandoned_volumes_soon(&self) {
        let control = self.clone();
        self.scope.start("remove volumes of deleted sandboxes", async move {
            control.remove_abandoned_volumes().await;
        });
    }

    /// Lists the caller's volumes by name.
    pub(crate) async fn list_volumes(&self, caller: &Caller) -> Result<Vec<VolumeStatus>, Fault> {
        let volumes = self.store.list_volumes(&caller.workspace).await?;
        let mut seen = self.seen_volumes().await?;
        Ok(volumes.into_iter().map(|volume| VolumeStatus { seen: seen.remove(&volume.id), volume }).collect())
    }

    /// Shows one volume of the caller.
    pub(crate) async fn volume(&self, caller: &Caller, name: &str) -> Result<VolumeStatus, Fault> {
        let volume = self.store.find_volume(&caller.workspace, name).await?.ok_or_else(|| no_volume(name))?;
        let seen = self.seen_volumes().await?.remove(&volume.id);
        Ok(VolumeStatus { volume, seen })
    }

    /// Grows a volume, even while it is in use.
    pub(crate) async fn grow_volume(&self, caller: &Caller, name: &str, size: ByteSize) -> Result<VolumeStatus, Fault> {
        self.need_host()?;
        let volume = self.store.find_volume(&caller.workspace, name).await?.ok_or_else(|| no_volume(name))?;
        if size < volume.size {
            let text = format!("volume {name} has {} and cannot shrink; create a smaller volume instead", volume.size);
            return Err(Fault::new(FaultKind::Caller, "volume.shrink", text));
        }
        self.grow_to_the_end(volume, size, GrowthLimits::OfPlan).await
    }

    pub(super) async fn grow_to_the_end(
        &self,
        mut volume: VolumeRow,
        size: ByteSize,
        limits: GrowthLimits,
    ) -> Result<VolumeStatus, Fault> {
        let control = self.clone();
        let work = async move {
            {
                let _gate = control.locks.volumes.lock().await;
                if limits == GrowthLimits::OfPlan {
                    control.check_volume(&volume.workspace, (Some(volume.size), size)).await?;
                }
                control.admit_bytes(&volume.workspace, ByteSize::new(size.get() - volume.size.get())).await?;
                // Counted from now on: others need not wait until the guest has answered.
                control.store.reserve_volume(volume.id, (volume.size, size)).await?;
            }
            let grown = control.host.grow_volume(volume.id, size).await;
            let seen = match grown {
                Ok(seen) => seen,
                Err(fault) => {
                    control.unreserve(&volume, size).await;
                    return Err(fault);
                }
            };
            control.store.resize_volume(volume.id, seen.size, control.clock.now_ns()).await?;
            volume.size = seen.size;
            Ok(VolumeStatus { volume, seen: Some(seen) })
        };
        self.in_time("grow volume", CHANGE_MAX, work).await
    }

    /// Counts a volume that could not grow with the size that it has. It may have grown although
    /// its guest did not answer.
    async fn unreserve(&self, volume: &VolumeRow, reserved: ByteSize) {
        let corrected = async {
            let size = self.seen_volumes().await?.get(&volume.id).map_or(volume.size, |view| view.size);
            self.store.reserve_volume(volume.id, (reserved, size)).await?;
            self.store.resize_volume(volume.id, size, self.clock.now_ns()).await?;
            Ok::<(), Fault>(())
        };
        if let Err(fault) = corrected.await {
            tracing::warn!(volume = %volume.id, %fault, "could not correct the size of a volume that did not grow");
        }
    }

    /// Deletes an unused volume. It is hidden first, so that no sandbox can attach it meanwhile.
    pub(crate) async fn delete_volume(&self, caller: &Caller, name: &str) -> Result<(), Fault> {
        self.need_host()?;
        let volume = self.store.find_volume(&caller.workspace, name).await?.ok_or_else(|| no_volume(name))?;
        // Its machine may be gone for a moment, and then nothing else would refuse.
        if let Some(owner) = volume.sandbox {
            self.refuse_database(caller, owner).await?;
        }
        let control = self.clone();
        let work = async move {
            control.store.hide_volume(volume.id).await?;
            let unmade = control.remove_volume_disk(volume.id).await;
            if unmade.is_err() {
                control.store.show_volume(volume.id, volume.size, control.clock.now_ns()).await?;
            }
            unmade
        };
        self.in_time("delete volume", CHANGE_MAX, work).await
    }

    /// Refuses more volume bytes than the workspace's share. The host decides whether it has the
    /// space.
    async fn admit_bytes(&self, workspace: &WorkspaceId, more: ByteSize) -> Result<(), Fault> {
        if self.owner(workspace).await?.is_none() {
            return Ok(());
        }
        let total = self.host.status().await.disk_total.get().saturating_mul(VOLUMES_OVERCOMMIT);
        let VolumeBytes { own, all } = self.store.volume_bytes(workspace).await?;
        let Err(ShareRefusal::Share { held, most }) = admit_share(total, all - own, own, more.get()) else {
            return Ok(());
        };
        let [held, most] = [held, most].map(ByteSize::new);
        let text = format!(
            "the volumes of this workspace have {held}, and its share of this host is now {most}, so {more} more do \
             not fit; delete a volume or request less"
        );
        Err(Fault::new(FaultKind::Quota, "quota.volume_bytes", text))
    }

    /// Removes the disk, then the row.
    pub(crate) async fn remove_volume_disk(&self, id: VolumeId) -> Result<(), Fault> {
        self.host.remove_volume(id).await?;
        Ok(self.store.forget_volume(id, self.clock.now_ns()).await?)
    }

    pub(super) async fn seen_volumes(&self) -> Result<HashMap<VolumeId, VolumeView>, Fault> {
        Ok(self.host.volumes().await?.into_iter().map(|view| (view.volume, view)).collect())
    }
}

/// Chooses ids for volumes.
pub(super) fn fresh_volume_ids(count: usize) -> Vec<VolumeId> {
    (0..count).map(|_| VolumeId::random()).collect()
}

fn too_many_volumes() -> Fault {
    Fault::new(FaultKind::Quota, "quota.volumes", "max volumes reached; delete one that is no longer needed")
}

/// The fault for a volume that does not exist or belongs to another workspace.
pub fn no_volume(name: &str) -> Fault {
    let shown: String = name.chars().take(80).collect();
    Fault::new(FaultKind::Missing, "volume.not_found", format!("volume {shown} not found"))
}
