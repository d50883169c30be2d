//! The volumes of a host: durable ext4 disks, each one a sparse file in its own folder.
//!
//! ```text
//! <root>/volumes/vol_.../disk        <root>/volumes/making-vol_.../disk   unfinished, deleted at the next start
//! ```
//!
//! Guests own the contents. The host makes the empty file system and then never mounts, checks or
//! repairs it: the host's kernel must not parse a file system that a guest wrote. The next guest
//! that mounts a grown disk extends its file system.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::Command,
    time::SystemTime,
};

use pandastack_model::{ByteSize, VolumeId};
use pandastack_sys::{private, reflink::clone_or_copy};

/// The smallest volume. Below it a journal would take most of the space.
pub const VOLUME_BYTES_MIN: ByteSize = ByteSize::mib(16);

/// The largest volume. The file system reserves space for the tables of this size, so that any
/// volume can grow to it while mounted.
pub const VOLUME_BYTES_MAX: ByteSize = ByteSize::gib(1024);

/// Sizes are rounded up to this.
pub const VOLUME_BYTES_STEP: ByteSize = ByteSize::mib(1);

/// Block size of the file system. Fixed, so that a volume that starts small does not keep small
/// blocks when it grows.
const BLOCK_BYTES: u64 = 4096;

/// Journal sizes of volumes below and from [`LARGE_FROM`]. Small journals load and replay fast.
const JOURNAL_SMALL: ByteSize = ByteSize::mib(4);
const JOURNAL_LARGE: ByteSize = ByteSize::mib(16);
const LARGE_FROM: ByteSize = ByteSize::mib(256);

/// Offset of ext4's incompatible feature flags, and the flag for a journal that must be replayed.
const INCOMPAT_OFFSET: u64 = 1024 + 0x60;
const NEEDS_RECOVERY: u32 = 0x4;

/// The volumes in one folder. Clones share it.
#[derive(Clone, Debug)]
pub struct VolumeStore {
    root: PathBuf,
}

/// State that the last writer left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumeCondition {
    /// Consistent.
    Whole,
    /// The writer ended without an unmount. The next writer replays the journal. Until then the
    /// volume cannot be mounted read-only.
    Unfinished,
}

/// A volume could not be made, found, grown or removed.
#[derive(Debug, thiserror::Error)]
pub enum VolumeStoreError {
    #[error("volume {volume} does not exist")]
    Missing { volume: VolumeId },
    #[error("volume {volume} already exists with {present} instead of {wanted}")]
    OtherSize { volume: VolumeId, present: ByteSize, wanted: ByteSize },
    #[error("volume {volume} already exists with {present}")]
    Exists { volume: VolumeId, present: ByteSize },
    #[error("volume {volume} has {present} and cannot shrink to {wanted}")]
    Shrink { volume: VolumeId, present: ByteSize, wanted: ByteSize },
    #[error("mkfs.ext4: {reason}")]
    Format { reason: String },
    #[error("{action}")]
    Io {
        action: &'static str,
        #[source]
        cause: io::Error,
    },
}

impl VolumeStore {
    /// Opens the store of a data volume.
    pub fn open(root: &Path) -> Result<Self, VolumeStoreError> {
        let root = root.join("volumes");
        private::make_folder(&root).map_err(io("create the folder of volumes"))?;
        Ok(Self { root })
    }

    /// Deletes partially made and partially removed volumes. Only for the process that owns the
    /// data folder.
    pub fn clear_drafts(&self) {
        for entry in fs::read_dir(&self.root).into_iter().flatten().flatten() {
            if entry.file_name().to_str().is_none_or(|name| name.parse::<VolumeId>().is_err()) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }

    /// Makes an empty volume. Succeeds if it exists with this size.
    pub fn make(&self, volume: VolumeId, size: ByteSize) -> Result<ByteSize, VolumeStoreError> {
        let size = rounded(size);
        match self.size(volume) {
            Ok(present) if present == size => return Ok(size),
            Ok(present) => return Err(VolumeStoreError::OtherSize { volume, present, wanted: size }),
            Err(VolumeStoreError::Missing { .. }) => {}
            Err(error) => return Err(error),
        }
        self.make_with(volume, |disk| write_empty(disk, size)).map(|()| size)
    }

    /// Makes a volume with the content of an image, and shares its blocks if the file system can.
    /// Fails if the volume exists: a machine whose memory fits the image would damage another one.
    pub fn make_from(&self, volume: VolumeId, image: &Path) -> Result<(), VolumeStoreError> {
        match self.size(volume) {
            Err(VolumeStoreError::Missing { .. }) => {}
            Ok(present) => return Err(VolumeStoreError::Exists { volume, present }),
            Err(error) => return Err(error),
        }
        self.make_with(volume, |disk| {
            clone_or_copy(image, disk).map_err(io("clone a volume"))?;
            File::open(disk).and_then(|disk| disk.sync_all()).map_err(io("flush a volume to disk"))
        })
    }

    /// Makes the folder of a volume, fills it, and moves it into place, durably.
    fn make_with(
        &self,
        volume: VolumeId,
        fill: impl FnOnce(&Path) -> Result<(), VolumeStoreError>,
    ) -> Result<(), VolumeStoreError> {
        let draft = self.root.join(format!("making-{volume}"));
        let _ = fs::remove_dir_all(&draft);
        let made = fs::create_dir(&draft).map_err(io("create a volume's folder")).and_then(|()| {
            fill(&draft.join("disk"))?;
            sync_folder(&draft)?;
            fs::rename(&draft, self.root.join(volume.to_string())).map_err(io("rename a volume's folder"))?;
            sync_folder(&self.root)
        });
        if made.is_err() {
            let _ = fs::remove_dir_all(&draft);
        }
        made
    }

    /// Returns the size of a volume.
    pub fn size(&self, volume: VolumeId) -> Result<ByteSize, VolumeStoreError> {
        match fs::metadata(self.file(volume)) {
            Ok(meta) => Ok(ByteSize::new(meta.len())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(VolumeStoreError::Missing { volume }),
            Err(cause) => Err(VolumeStoreError::Io { action: "read a volume's size", cause }),
        }
    }

    /// Returns when a volume was made, if the file system knows.
    pub fn made_at(&self, volume: VolumeId) -> Option<SystemTime> {
        fs::metadata(self.file(volume)).and_then(|meta| meta.created()).ok()
    }

    /// Grows a volume's file, durably. A guest extends the file system in it. Idempotent.
    pub fn grow(&self, volume: VolumeId, size: ByteSize) -> Result<ByteSize, VolumeStoreError> {
        let (present, wanted) = (self.size(volume)?, rounded(size));
        if wanted < present {
            return Err(VolumeStoreError::Shrink { volume, present, wanted });
        }
        if wanted > present {
            let file = OpenOptions::new().write(true).open(self.file(volume)).map_err(io("open a volume"))?;
            file.set_len(wanted.get()).map_err(io("grow a volume"))?;
            file.sync_all().map_err(io("flush a volume's size to disk"))?;
        }
        Ok(wanted)
    }

    /// Removes a volume and its data. Succeeds if it is missing.
    pub fn remove(&self, volume: VolumeId) -> Result<(), VolumeStoreError> {
        let going = self.root.join(format!("going-{volume}"));
        match fs::rename(self.root.join(volume.to_string()), &going) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(VolumeStoreError::Io { action: "rename a volume for removal", cause: error });
            }
            _ => {}
        }
        match fs::remove_dir_all(&going) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(VolumeStoreError::Io { action: "remove a volume", cause: error })
            }
            _ => sync_folder(&self.root),
        }
    }

    /// Lists every volume with its size.
    pub fn list(&self) -> Vec<(VolumeId, ByteSize)> {
        let entries = fs::read_dir(&self.root).into_iter().flatten().flatten();
        let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<VolumeId>().ok());
        let mut volumes: Vec<_> = ids.filter_map(|volume| Some((volume, self.size(volume).ok()?))).collect();
        volumes.sort();
        volumes
    }

    /// Reads from the superblock whether the last writer finished. A guest can falsify the flag,
    /// which only makes the next guest's kernel refuse the volume or read what was written.
    pub fn condition(&self, volume: VolumeId) -> Result<VolumeCondition, VolumeStoreError> {
        let mut bytes = [0; 4];
        let read = File::open(self.file(volume)).and_then(|file| file.read_exact_at(&mut bytes, INCOMPAT_OFFSET));
        read.map_err(io("read a volume's first block"))?;
        let unfinished = u32::from_le_bytes(bytes) & NEEDS_RECOVERY != 0;
        Ok(if unfinished { VolumeCondition::Unfinished } else { VolumeCondition::Whole })
    }

    /// Path of a volume's disk.
    pub fn file(&self, volume: VolumeId) -> PathBuf {
        self.root.join(volume.to_string()).join("disk")
    }
}

/// Rounds a size up to whole steps.
fn rounded(size: ByteSize) -> ByteSize {
    ByteSize::new(size.get().next_multiple_of(VOLUME_BYTES_STEP.get()))
}

/// Makes a sparse file with an empty file system, durably.
fn write_empty(disk: &Path, size: ByteSize) -> Result<(), VolumeStoreError> {
    let file = File::create_new(disk).map_err(io("create a volume's file"))?;
    file.set_len(size.get()).map_err(io("set the size of a volume's file"))?;
    let journal = if size < LARGE_FROM { JOURNAL_SMALL } else { JOURNAL_LARGE };
    // The file is new and all zeros, so neither the host nor the first guest must initialize tables
    // or journal.
    let mut extended = "assume_storage_prezeroed=1,lazy_journal_init=1,nodiscard,root_owner=0:0".to_owned();
    if size < VOLUME_BYTES_MAX {
        extended.push_str(&format!(",resize={}", VOLUME_BYTES_MAX.get() / BLOCK_BYTES));
    }
    let made = Command::new("mkfs.ext4")
        .args(["-q", "-F", "-m", "0", "-b", &BLOCK_BYTES.to_string()])
        .args(["-J", &format!("size={}", journal.as_mib()), "-E", &extended])
        .arg(disk)
        .env("LC_ALL", "C")
        .output();
    let output = made.map_err(|error| VolumeStoreError::Format { reason: error.to_string() })?;
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(VolumeStoreError::Format { reason });
    }
    file.sync_all().map_err(io("flush a volume to disk"))
}

fn sync_folder(folder: &Path) -> Result<(), VolumeStoreError> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(io("flush a folder to disk"))
}

fn io(action: &'static str) -> impl FnOnce(io::Error) -> VolumeStoreError {
    move |cause| VolumeStoreError::Io { action, cause }
}

#[cfg(test)]
mod tests;
