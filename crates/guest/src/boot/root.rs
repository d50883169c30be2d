//! Switches from the initial file system to the real root, and frees the initial one's memory.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::Path,
    time::{Duration, Instant},
};

use nix::{
    mount::{MsFlags, mount},
    sys::statfs::{FsType, TMPFS_MAGIC, statfs},
    unistd::{chdir, chroot},
};

use super::{BootError, mounts};
use crate::limits;

const NEW_ROOT: &str = "/newroot";

/// Interval between checks for the device.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Value of `RAMFS_MAGIC`, which `nix` does not name.
const RAMFS: FsType = FsType(0x8584_58f6);

/// Waits for the device, mounts it and makes it the root.
pub(super) fn enter(device: &str) -> Result<(), BootError> {
    wait_for(device)?;
    let at = |step: &'static str| move |cause: io::Error| BootError::Root { step, cause };
    fs::create_dir_all(NEW_ROOT).map_err(at("create the mount point"))?;
    mount(Some(device), NEW_ROOT, Some("ext4"), MsFlags::MS_NOATIME, None::<&str>)
        .map_err(|cause| at("mount")(cause.into()))?;
    mounts::move_early(NEW_ROOT)?;
    chdir(NEW_ROOT).map_err(|cause| at("change directory")(cause.into()))?;
    free_initial();
    mount(Some("."), "/", None::<&str>, MsFlags::MS_MOVE, None::<&str>).map_err(|cause| at("move")(cause.into()))?;
    chroot(".").map_err(|cause| at("change root")(cause.into()))?;
    chdir("/").map_err(|cause| at("change directory")(cause.into()))
}

fn wait_for(device: &str) -> Result<(), BootError> {
    let started = Instant::now();
    while !Path::new(device).exists() {
        if started.elapsed() > limits::ROOT_WITHIN {
            return Err(BootError::NoRoot { device: device.to_owned() });
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

/// Deletes the files of the initial file system. Only touches a file system in memory, and never
/// other file systems mounted on it.
fn free_initial() {
    let in_memory = statfs("/").is_ok_and(|stat| [TMPFS_MAGIC, RAMFS].contains(&stat.filesystem_type()));
    if let (true, Ok(root)) = (in_memory, fs::symlink_metadata("/")) {
        empty(Path::new("/"), root.dev());
    }
}

fn empty(folder: &Path, device: u64) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        // A failed deletion only costs a little memory.
        let _ = match fs::symlink_metadata(&path) {
            Ok(meta) if meta.dev() != device => Ok(()),
            Ok(meta) if meta.is_dir() => {
                empty(&path, device);
                fs::remove_dir(&path)
            }
            _ => fs::remove_file(&path),
        };
    }
}
