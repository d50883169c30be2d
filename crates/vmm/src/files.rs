//! The files of one layer as a machine sees them.

use std::path::{Path, PathBuf};

/// Where memory, disk and device state of a layer lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerFiles {
    /// Guest RAM, one byte per byte.
    pub mem: PathBuf,
    /// Root file system.
    pub disk: PathBuf,
    /// Device and CPU state.
    pub dev: PathBuf,
    /// Which parts of `mem` the sealed guest had used, if that is known: they will be needed first.
    pub hot: PathBuf,
}

impl LayerFiles {
    /// Names the files of the layer kept in a folder.
    pub fn in_folder(folder: &Path) -> Self {
        Self { mem: folder.join("mem"), disk: folder.join("disk"), dev: folder.join("dev"), hot: folder.join("hot") }
    }
}
