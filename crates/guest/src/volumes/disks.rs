//! The disks of volumes: found once at boot by their serial numbers, then mounted, grown and
//! frozen.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    os::{fd::AsFd, unix::fs::MetadataExt},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    sys::stat::{Mode, SFlag, major, makedev, minor, mknod},
};
use pandastack_sys::init;
use pandastack_wire_guest::VolumeDevice;

use super::{
    GuestVolumeError,
    ext4::{Ext4Size, extent},
    mounts::{DeviceMount, mounted},
};
use crate::limits;

/// Sector size of sysfs, independent of the disk's own.
const SECTOR_BYTES: u64 = 512;

/// File system of new volumes.
const KIND: &str = "ext4";

/// Letter of the first volume's device; the root disk has the one before.
const FIRST_LETTER: u8 = b'b';

/// The disks with a serial number. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Disks {
    by_serial: Arc<BTreeMap<String, SerialDisk>>,
    /// Whether a volume was ever mounted. Otherwise there is nothing to search for.
    used: Arc<AtomicBool>,
}

#[derive(Clone, Debug)]
struct SerialDisk {
    /// The kernel's name, as `vdb`.
    name: String,
    /// Device number, as `254:16`.
    number: String,
}

impl Disks {
    /// Finds the disks of this machine. Reading a serial number is a request to the disk, so this
    /// is done once.
    pub(crate) fn look() -> Self {
        let disks = fs::read_dir("/sys/block").into_iter().flatten().flatten();
        let found = disks.filter_map(|entry| {
            let read = |file: &str| fs::read_to_string(entry.path().join(file)).ok();
            let serial = read("serial").map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())?;
            let (name, number) = (entry.file_name().into_string().ok()?, read("dev")?.trim().to_owned());
            Some((serial, SerialDisk { name, number }))
        });
        Self { by_serial: Arc::new(found.collect()), used: Arc::default() }
    }

    /// Mounts volumes in the given order: the first is `/dev/vdb`, whichever disk it is on.
    pub(super) fn mount(&self, volumes: &[VolumeDevice]) -> Result<(), GuestVolumeError> {
        self.used.store(true, Ordering::Relaxed);
        let mounted = look()?;
        for (volume, letter) in volumes.iter().zip(FIRST_LETTER..=b'z') {
            let disk = self.disk(volume)?;
            if mounted.iter().any(|mount| mount.number == disk.number) {
                continue;
            }
            disk.wait_for(volume)?;
            let device = disk.name_device(letter)?;
            mount_at(&device, volume)?;
            if !volume.read_only {
                // A volume that cannot grow is still usable. An explicit request to grow reports
                // the error.
                let _ = disk.fill(&volume.path, KIND);
            }
        }
        Ok(())
    }

    /// Grows the file systems of volumes. One that its owner has unmounted is grown at its next
    /// mount by the agent.
    pub(super) fn grow(&self, volumes: &[VolumeDevice]) -> Result<(), GuestVolumeError> {
        let mounted = look()?;
        for volume in volumes.iter().filter(|volume| !volume.read_only) {
            let disk = self.disk(volume)?;
            disk.wait_for(volume)?;
            if let Some(mount) = mounted.iter().find(|mount| mount.number == disk.number && !mount.read_only) {
                disk.fill(&mount.path, &mount.kind)?;
            }
        }
        Ok(())
    }

    /// Flushes the volumes and stops writes to them. Their contents on disk are then complete
    /// without the journal.
    pub(crate) fn freeze(&self) -> io::Result<()> {
        self.writable()?.iter().try_for_each(|(disk, mount)| init::freeze(disk.root(&mount.path, &mount.kind)?.as_fd()))
    }

    /// Allows writes again.
    pub(crate) fn thaw(&self) -> io::Result<()> {
        self.writable()?.iter().try_for_each(|(disk, mount)| init::thaw(disk.root(&mount.path, &mount.kind)?.as_fd()))
    }

    /// Returns the disks that are mounted for writing, each with one mount.
    fn writable(&self) -> io::Result<Vec<(&SerialDisk, DeviceMount)>> {
        if !self.used.load(Ordering::Relaxed) {
            return Ok(Vec::new());
        }
        let mounted = mounted()?;
        let of =
            |disk: &SerialDisk| mounted.iter().find(|mount| mount.number == disk.number && !mount.read_only).cloned();
        Ok(self.by_serial.values().filter_map(|disk| Some((disk, of(disk)?))).collect())
    }

    fn disk(&self, volume: &VolumeDevice) -> Result<&SerialDisk, GuestVolumeError> {
        self.by_serial.get(&volume.serial).ok_or_else(|| GuestVolumeError::NoDisk { serial: volume.serial.clone() })
    }
}

impl SerialDisk {
    /// Waits until the kernel has noticed the disk's current size.
    fn wait_for(&self, volume: &VolumeDevice) -> Result<(), GuestVolumeError> {
        let deadline = Instant::now() + limits::DISK_WITHIN;
        while self.bytes()? < volume.size {
            if Instant::now() > deadline {
                return Err(GuestVolumeError::Small { serial: volume.serial.clone(), size: volume.size });
            }
            std::thread::sleep(limits::DISK_POLL);
        }
        Ok(())
    }

    fn bytes(&self) -> Result<u64, GuestVolumeError> {
        let failed = |cause| GuestVolumeError::Look { what: "read a disk's size", cause };
        let text = fs::read_to_string(format!("/sys/block/{}/size", self.name)).map_err(failed)?;
        let sectors: u64 = text.trim().parse().map_err(|error| failed(io::Error::other(error)))?;
        Ok(sectors.saturating_mul(SECTOR_BYTES))
    }

    /// Makes the device with that letter refer to this disk, and returns its path. The kernel named
    /// the disks in slot order, with read-only slots last; owners count volumes in the order of
    /// their request.
    fn name_device(&self, letter: u8) -> Result<String, GuestVolumeError> {
        let name = format!("vd{}", char::from(letter));
        let path = format!("/dev/{name}");
        if name != self.name {
            let failed = |cause: io::Error| GuestVolumeError::Look { what: "find a volume's device", cause };
            self.make_device(&path).map_err(failed)?;
        }
        Ok(path)
    }

    fn make_device(&self, path: &str) -> io::Result<()> {
        let (major, minor) = self.number.split_once(':').unwrap_or_default();
        let part = |text: &str| text.parse::<u64>().map_err(io::Error::other);
        let number = makedev(part(major)?, part(minor)?);
        let _ = fs::remove_file(path);
        let mode = Mode::S_IRUSR | Mode::S_IWUSR | Mode::S_IRGRP | Mode::S_IWGRP;
        Ok(mknod(path, SFlag::S_IFBLK, mode, number)?)
    }

    /// Opens the disk by a temporary device node: the owner may change the other nodes in `/dev`.
    fn open(&self) -> io::Result<File> {
        let path = format!("/dev/.volume-{}", self.number);
        self.make_device(&path)?;
        let opened = File::open(&path);
        let _ = fs::remove_file(&path);
        opened
    }

    /// Opens the root of the disk's file system, which is mounted at a path. The owner may have
    /// mounted something over it or over a parent. Then it is mounted once more at a temporary
    /// place, to be opened.
    fn root(&self, path: &str, kind: &str) -> io::Result<File> {
        match File::open(path) {
            Ok(root) if self.has(&root)? => Ok(root),
            _ => self.root_elsewhere(kind),
        }
    }

    fn root_elsewhere(&self, kind: &str) -> io::Result<File> {
        let place = format!("/dev/.root-{}", self.number);
        let device = format!("{place}.disk");
        self.make_device(&device)?;
        fs::create_dir_all(&place)?;
        let opened = mount(Some(device.as_str()), Path::new(&place), Some(kind), MsFlags::empty(), None::<&str>)
            .map_err(io::Error::from)
            .and_then(|()| {
                let root = File::open(&place);
                // The open file keeps the mount alive; no path leads to it any more.
                umount2(Path::new(&place), MntFlags::MNT_DETACH)?;
                root
            });
        let _ = fs::remove_dir(&place);
        let _ = fs::remove_file(&device);
        opened
    }

    fn has(&self, file: &File) -> io::Result<bool> {
        let number = file.metadata()?.dev();
        Ok(format!("{}:{}", major(number), minor(number)) == self.number)
    }

    /// Grows the file system mounted at a path to fill the disk. One that already fills it is left
    /// alone, and so is one that the owner made and that is not ext4.
    fn fill(&self, path: &str, kind: &str) -> Result<(), GuestVolumeError> {
        let failed = |cause: io::Error| GuestVolumeError::Grow { path: path.to_owned(), cause };
        let Some(Ext4Size { blocks, block_bytes }) = self.open().and_then(|disk| extent(&disk)).map_err(failed)? else {
            return Ok(());
        };
        let room = self.bytes()? / block_bytes;
        if blocks >= room {
            return Ok(());
        }
        let root = self.root(path, kind).map_err(failed)?;
        init::grow_ext4(root.as_fd(), room).map_err(failed)
    }
}

fn look() -> Result<Vec<DeviceMount>, GuestVolumeError> {
    mounted().map_err(|cause| GuestVolumeError::Look { what: "list the mounts", cause })
}

fn mount_at(device: &str, volume: &VolumeDevice) -> Result<(), GuestVolumeError> {
    let path = volume.path.clone();
    if let Err(cause) = fs::create_dir_all(&path) {
        return Err(match cause.kind() {
            io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => GuestVolumeError::NotADirectory { path },
            _ => GuestVolumeError::Directory { path, cause },
        });
    }
    // Without `noload`: a reader must not see a file system whose journal is not replayed. The
    // kernel refuses that mount.
    let (flags, options) = match volume.read_only {
        true => (MsFlags::MS_RDONLY, ""),
        false => (MsFlags::empty(), "errors=remount-ro"),
    };
    mount(Some(device), Path::new(&path), Some(KIND), flags, Some(options)).map_err(|error| GuestVolumeError::Mount {
        device: device.to_owned(),
        path,
        cause: error.into(),
    })
}

#[cfg(test)]
mod tests {
    use std::{os::fd::AsRawFd, path::PathBuf, process::Command};

    use super::*;

    fn must(program: &str, arguments: &[&str]) -> String {
        let ran = Command::new(program).args(arguments).output().unwrap();
        assert!(ran.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap().trim().to_owned()
    }

    /// A volume on a loop device, mounted at `above/data`.
    struct Ground {
        folder: PathBuf,
        device: String,
        disks: Disks,
    }

    impl Ground {
        fn make() -> Self {
            let folder = std::env::temp_dir().join(format!("pandastack-disks-{}", std::process::id()));
            fs::create_dir_all(folder.join("above/data")).unwrap();
            let image = folder.join("image");
            File::create(&image).unwrap().set_len(8 << 20).unwrap();
            let image = image.to_str().unwrap();
            must("/sbin/mkfs.ext4", &["-q", image]);
            let device = must("/sbin/losetup", &["--find", "--show", image]);
            let number = fs::metadata(&device).unwrap().rdev();
            let name = device.trim_start_matches("/dev/").to_owned();
            let disk = SerialDisk { name, number: format!("{}:{}", major(number), minor(number)) };
            let by_serial = Arc::new(BTreeMap::from([("one".to_owned(), disk)]));
            let ground = Self { folder, device, disks: Disks { by_serial, used: Arc::new(AtomicBool::new(true)) } };
            ground.mount(&ground.device, "above/data", KIND);
            ground
        }

        fn path(&self, below: &str) -> String {
            self.folder.join(below).to_str().unwrap().to_owned()
        }

        fn mount(&self, what: &str, below: &str, kind: &str) {
            mount(Some(what), self.path(below).as_str(), Some(kind), MsFlags::empty(), None::<&str>).unwrap();
        }
    }

    impl Drop for Ground {
        fn drop(&mut self) {
            let _ = self.disks.thaw();
            for covered in ["above", "above/data", "above/data"] {
                let _ = umount2(self.path(covered).as_str(), MntFlags::MNT_DETACH);
            }
            let _ = Command::new("/sbin/losetup").args(["--detach", &self.device]).status();
            let _ = fs::remove_dir_all(&self.folder);
        }
    }

    /// An owner with root may mount anything anywhere. A volume that cannot be flushed then would
    /// be incomplete when its sandbox sleeps.
    #[test]
    fn a_volume_under_another_mount_is_frozen_and_thawed() {
        let ground = Ground::make();
        let root = File::open(ground.path("above/data")).unwrap();
        // Only a frozen file system can be thawed.
        let is_frozen = || {
            let root = format!("/proc/{}/fd/{}", std::process::id(), root.as_raw_fd());
            Command::new("/sbin/fsfreeze").args(["--unfreeze", &root]).output().unwrap().status.success()
        };
        for covered in ["above/data", "above"] {
            ground.mount("x", covered, "tmpfs");
            ground.disks.freeze().unwrap();
            assert!(is_frozen(), "under {covered}");
            ground.disks.freeze().unwrap();
            ground.disks.thaw().unwrap();
            assert!(!is_frozen(), "under {covered}");
        }
        let left = fs::read_dir("/dev").unwrap().flatten().filter(|entry| {
            let name = entry.file_name();
            name.to_string_lossy().starts_with(&format!(".root-{}", ground.disks.by_serial["one"].number))
        });
        assert_eq!(left.count(), 0);
    }
}
