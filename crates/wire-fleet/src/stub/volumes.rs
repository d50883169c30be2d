//! Volumes of the stub: sizes without data.

use std::{collections::BTreeSet, time::Duration};

use pandastack_model::{ByteSize, Fault, FaultKind, SandboxId, VolumeAccess, VolumeId};

use super::StubHost;
use crate::{BootParams, LayerHold, LayerView, VolumeView};

impl StubHost {
    pub(super) fn volume_users(&self, volume: VolumeId) -> Vec<(SandboxId, VolumeAccess)> {
        let (sandboxes, ensured) = (self.sandboxes.lock().unwrap(), self.ensured.lock().unwrap());
        let known = sandboxes.keys().filter_map(|id| ensured.get(id));
        let mounts = known.flat_map(|ask| ask.spec.volumes.iter().map(move |mount| (ask.id, mount)));
        mounts.filter(|(_, mount)| mount.volume == volume).map(|(id, mount)| (id, mount.access)).collect()
    }

    pub(super) fn volume_view(&self, volume: VolumeId) -> VolumeView {
        let users = self.volume_users(volume).into_iter().map(|(id, _)| id).collect::<BTreeSet<_>>();
        let size = self.volumes.lock().unwrap()[&volume];
        VolumeView { volume, size, created_ns: None, users: users.into_iter().collect() }
    }

    pub(super) fn remove_volume_now(&self, volume: VolumeId) -> Result<(), Fault> {
        if !self.volume_users(volume).is_empty() {
            return Err(Fault::new(FaultKind::Conflict, "volume.attached", "the volume is attached"));
        }
        self.volumes.lock().unwrap().remove(&volume);
        Ok(())
    }

    pub(super) fn boot_now(&self, ask: &BootParams) -> LayerView {
        assert!(self.volumes.lock().unwrap().contains_key(&ask.volume), "the volume must exist");
        assert!(self.volume_users(ask.volume).is_empty(), "the volume must not be in use");
        self.layers.lock().unwrap().insert(ask.layer, LayerHold::Kept);
        LayerView { layer: ask.layer, own: ByteSize::mib(24), pause: Duration::ZERO }
    }
}
