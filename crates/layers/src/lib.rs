//! The layer store: keeps templates and sealed machines on disk, verifies them, and gives each
//! machine a writable disk. Layers are immutable once sealed.
//!
//! ```text
//! <root>/layers/lyr_.../{mem,disk,dev,manifest.json}     <root>/templates/NAME -> one line, the layer's id
//! <root>/volumes/vol_.../disk    durable disks of their own
//! <root>/staging/...   unfinished layers, deleted at start
//! <root>/ballast       in an image only: space that the disk under it does not have
//! ```

mod ballast;
mod digest;
pub mod hot;
mod image;
mod manifest;
mod store;
mod volume;
mod volumes;

pub use digest::{DigestError, file_digest};
pub use image::UnusedSpace;
pub use manifest::{FORMAT, FORMAT_WITH_VOLUMES, Manifest, ManifestError, SealedVolume, StoredExecDefaults};
pub use store::{
    BootKit, Durability, Layer, LayerDraft, LayerOpenError, LayerSealError, LayerStore, TemplateLayer, copy_layer,
};
pub use volume::{DataVolume, DataVolumeError, DataVolumeKind};
pub use volumes::{
    VOLUME_BYTES_MAX, VOLUME_BYTES_MIN, VOLUME_BYTES_STEP, VolumeCondition, VolumeStore, VolumeStoreError,
};
