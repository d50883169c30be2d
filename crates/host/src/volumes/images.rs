//! The volumes that are sealed together with a machine, as images in its layer. A sandbox from such
//! a layer gets clones of its own, in the slots where its memory has them.

use std::{fs::File, io, sync::Arc};

use pandastack_layers::{Manifest, SealedVolume};
use pandastack_model::{Fault, FaultKind, VolumeMount};
use pandastack_sys::reflink::clone_or_copy;
use pandastack_vmm::{LayerFiles, VolumeSlot};

use super::{
    locks::{VolumeFile, VolumeLock},
    plan,
};
use crate::ledger::VolumeUse;

/// Which volumes of a sandbox become part of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealedVolumes {
    /// The sandbox keeps them: it falls asleep.
    None,
    /// Those that it writes. Copies share the ones that it only reads.
    Written,
    All,
}

/// Volumes that become images of a layer. Clones are the same ones.
#[derive(Clone, Debug)]
pub struct VolumeImages(Arc<[SealedDisk]>);

/// A volume of which a layer gets an image.
#[derive(Debug)]
pub struct SealedDisk {
    pub slot: VolumeSlot,
    pub path: String,
    pub disk: VolumeFile,
}

impl VolumeImages {
    pub fn new(images: Vec<SealedDisk>) -> Self {
        Self(images.into())
    }

    /// Writes pending data out, so that the clones need not wait for it.
    pub fn write_out(&self) -> io::Result<()> {
        self.0.iter().try_for_each(|image| File::open(image.disk.file())?.sync_data())
    }

    /// Waits until no volume grows. All seals lock in the same order: two sandboxes may have the
    /// same volumes at different paths.
    pub async fn turns(&self) -> Vec<VolumeLock> {
        let mut images: Vec<_> = self.0.iter().collect();
        images.sort_by_key(|image| image.disk.file());
        let mut turns = Vec::with_capacity(images.len());
        for image in images {
            turns.push(image.disk.turn().await);
        }
        turns
    }

    /// Clones the volumes of a paused machine into its layer.
    pub fn clone_into(&self, files: &LayerFiles, _turns: Vec<VolumeLock>) -> io::Result<()> {
        self.0.iter().try_for_each(|image| clone_or_copy(image.disk.file(), &files.volume(image.slot)).map(drop))
    }

    /// Describes them for the layer's manifest.
    pub fn sealed(&self) -> Vec<SealedVolume> {
        self.0.iter().map(|image| SealedVolume { slot: image.slot.to_string(), path: image.path.clone() }).collect()
    }
}

/// Returns the volumes that are clones of a layer's images. Refuses mounts that do not fit the
/// layer: its memory has each volume in a slot and would write to whatever is there.
pub fn clones(layer: &Manifest, mounts: &[VolumeMount]) -> Result<Vec<VolumeUse>, Fault> {
    let uses = plan::uses(mounts)?;
    let sealed = layer.volumes.iter().map(|sealed| {
        let used = uses.iter().find(|used| used.slot.to_string() == sealed.slot && used.path == sealed.path);
        used.cloned().ok_or_else(|| {
            let text = format!(
                "layer {} was sealed with a volume at {} in slot {}, and the sandbox has none there",
                layer.layer, sealed.path, sealed.slot
            );
            Fault::new(FaultKind::Caller, "volume.missing", text)
        })
    });
    sealed.collect()
}
