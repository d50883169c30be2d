//! The files of one layer, as a machine uses them.

use std::path::{Path, PathBuf};

use crate::VolumeSlot;

/// Paths of a layer's memory, disk and device state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerFiles {
    /// Guest memory, as a flat image.
    pub mem: PathBuf,
    /// Root file system.
    pub disk: PathBuf,
    /// Device and CPU state.
    pub dev: PathBuf,
    /// List of the parts of `mem` that the sealed guest had used, if known. A restore needs them
    /// first.
    pub hot: PathBuf,
    /// Folder of the layer. It has an image for each volume that was sealed with the machine.
    pub folder: PathBuf,
}

impl LayerFiles {
    /// The files of a layer in this folder.
    pub fn in_folder(folder: &Path) -> Self {
        let [mem, disk, dev, hot] = ["mem", "disk", "dev", "hot"].map(|name| folder.join(name));
        Self { mem, disk, dev, hot, folder: folder.to_owned() }
    }

    /// Image of the volume that was in a slot.
    pub fn volume(&self, slot: VolumeSlot) -> PathBuf {
        self.folder.join(format!("volume-{slot}"))
    }
}
