//! The files of one layer, as a machine uses them.

use std::path::{Path, PathBuf};

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
}

impl LayerFiles {
    /// The files of a layer in this folder.
    pub fn in_folder(folder: &Path) -> Self {
        Self { mem: folder.join("mem"), disk: folder.join("disk"), dev: folder.join("dev"), hot: folder.join("hot") }
    }
}
