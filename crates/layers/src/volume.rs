//! The data volume: a file system with reflinks for the data folder. If the folder has none, a
//! sparse XFS image is made there and loop-mounted. Without the right to mount, disks are plain
//! sparse copies, with one warning.

use std::{
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
    process::Command,
    sync::Mutex,
};

use nix::{
    fcntl::{Flock, FlockArg},
    sys::statvfs::{Statvfs, statvfs},
};
use pandastack_sys::{private, reflink::supports_clone};

use crate::image::{UnusedSpace, VolumeImage};

/// Smallest image. XFS itself requires 300 MB.
const IMAGE_BYTES_MIN: u64 = 1 << 30;

/// The kind of storage for the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataVolumeKind {
    /// The data folder's own file system shares blocks.
    Native,
    /// Our XFS image, loop-mounted.
    Image,
    /// No sharing: every sandbox copies its template's disk.
    Copies,
}

/// An open data volume. Several processes may use one (a server and a bake). The last to close
/// unmounts it.
#[derive(Debug)]
pub struct DataVolume {
    root: PathBuf,
    kind: DataVolumeKind,
    data_dir: PathBuf,
    /// Shared lock while in use. The process that can lock it exclusively is the last user.
    users: Mutex<Option<Flock<fs::File>>>,
}

/// The volume cannot be made or mounted.
#[derive(Debug, thiserror::Error)]
pub enum DataVolumeError {
    #[error("{action}")]
    Io {
        action: String,
        #[source]
        cause: io::Error,
    },
    #[error("{command}: {reason}")]
    Command { command: String, reason: String },
}

impl DataVolume {
    /// Finds or makes the volume of a data folder. `image_bytes` is the maximum size of an image.
    pub fn open(data_dir: &Path, image_bytes: u64) -> Result<Self, DataVolumeError> {
        private::make_folder(data_dir).map_err(io("create the data folder"))?;
        let mounting = lock_file(data_dir, "volume.mounting", FlockArg::LockExclusive)?;
        let (root, kind) = Self::find_or_make(data_dir, image_bytes)?;
        let users = lock_file(data_dir, "volume.users", FlockArg::LockShared)?;
        drop(mounting);
        let volume = Self { root, kind, data_dir: data_dir.to_owned(), users: Mutex::new(Some(users)) };
        if let Err(error) = volume.level() {
            tracing::warn!(%error, "could not limit the data volume to the space of the disk below it");
        }
        Ok(volume)
    }

    /// Uses the data folder as it is: nothing is mounted, and disks are copied whole. For tests
    /// with tiny layers.
    pub fn copies(data_dir: &Path) -> Result<Self, DataVolumeError> {
        private::make_folder(data_dir).map_err(io("create the data folder"))?;
        let (root, kind) = Self::plain(data_dir, DataVolumeKind::Copies)?;
        let users = lock_file(data_dir, "volume.users", FlockArg::LockShared)?;
        Ok(Self { root, kind, data_dir: data_dir.to_owned(), users: Mutex::new(Some(users)) })
    }

    fn find_or_make(data_dir: &Path, image_bytes: u64) -> Result<(PathBuf, DataVolumeKind), DataVolumeError> {
        let mount_point = data_dir.join("volume");
        let image = VolumeImage::of(data_dir);
        if is_mount_point(&mount_point) {
            return Ok((mount_point, DataVolumeKind::Image));
        }
        if !image.exists() && supports_clone(data_dir) {
            return Self::plain(data_dir, DataVolumeKind::Native);
        }
        match image.mount(&mount_point, image_bytes.max(IMAGE_BYTES_MIN)) {
            Ok(()) => Ok((mount_point, DataVolumeKind::Image)),
            // An existing image holds data. Continuing without it would look like data loss.
            Err(error) if image.exists() && !image.is_fresh() => Err(error),
            Err(error) => {
                tracing::warn!(%error, "no data volume with reflinks: each sandbox copies its whole disk");
                image.remove();
                Self::plain(data_dir, DataVolumeKind::Copies)
            }
        }
    }

    fn plain(data_dir: &Path, kind: DataVolumeKind) -> Result<(PathBuf, DataVolumeKind), DataVolumeError> {
        let root = data_dir.join("volume");
        private::make_folder(&root).map_err(io("create the volume folder"))?;
        Ok((root, kind))
    }

    /// The data folder that this volume belongs to.
    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// Folder for all files of the volume.
    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn kind(&self) -> DataVolumeKind {
        self.kind
    }

    /// Free bytes for new data. For an image, the smaller of the volume's and of the disk under it.
    pub fn free_bytes(&self) -> u64 {
        self.least(|stat| stat.blocks_available())
    }

    /// Total bytes, by the same rule.
    pub fn total_bytes(&self) -> u64 {
        self.least(|stat| stat.blocks())
    }

    fn least(&self, blocks: impl Fn(&Statvfs) -> u64) -> u64 {
        let bytes = |path: &Path| statvfs(path).map_or(0, |stat| blocks(&stat) * stat.fragment_size());
        match (self.kind, self.root.parent()) {
            (DataVolumeKind::Image, Some(under)) => bytes(&self.root).min(bytes(under)),
            _ => bytes(&self.root),
        }
    }

    /// Reports how much a trim could free. `None` without an image.
    pub fn slack(&self) -> Option<UnusedSpace> {
        match self.kind {
            DataVolumeKind::Image => VolumeImage::of(&self.data_dir).slack(&self.root),
            DataVolumeKind::Native | DataVolumeKind::Copies => None,
        }
    }

    /// Keeps an image from offering more space than the disk under it has. Call it periodically,
    /// because other writes to that disk are not reported.
    pub fn level(&self) -> Result<(), DataVolumeError> {
        match self.kind {
            DataVolumeKind::Image => VolumeImage::of(&self.data_dir).level(&self.root),
            DataVolumeKind::Native | DataVolumeKind::Copies => Ok(()),
        }
    }

    /// Returns unused space to the disk under the image, in steps. Each step is followed by a pause
    /// of `rest` times its duration. Stops early when `is_over` says so, and does nothing if
    /// another process is trimming.
    pub fn trim(&self, rest: u32, is_over: impl Fn() -> bool) -> Result<(), DataVolumeError> {
        match self.kind {
            DataVolumeKind::Image => VolumeImage::of(&self.data_dir).trim(&self.root, rest, is_over),
            DataVolumeKind::Native | DataVolumeKind::Copies => Ok(()),
        }
    }

    /// Stops using the volume. The last user unmounts an image, which also removes its loop device.
    /// Idempotent.
    pub fn close(&self) {
        let Some(users) = self.users.lock().expect("no holder panics").take() else { return };
        drop(users);
        if self.kind != DataVolumeKind::Image {
            return;
        }
        let unmount = || {
            let _mounting = lock_file(&self.data_dir, "volume.mounting", FlockArg::LockExclusive)?;
            // Fails while another process uses the volume, as intended.
            let Ok(_last) = lock_file(&self.data_dir, "volume.users", FlockArg::LockExclusiveNonblock) else {
                return Ok(());
            };
            run("umount", &[self.root.as_os_str()]).map(drop)
        };
        if let Err(error) = unmount() {
            tracing::info!(%error, "could not unmount the data volume");
        }
    }
}

impl Drop for DataVolume {
    /// A start that fails must not leave its mount behind.
    fn drop(&mut self) {
        self.close();
    }
}

fn is_mount_point(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let device = |path: &Path| fs::metadata(path).map(|meta| meta.dev()).ok();
    match (device(path), path.parent().and_then(device)) {
        (Some(here), Some(above)) => here != above,
        _ => false,
    }
}

fn lock_file(data_dir: &Path, name: &str, how: FlockArg) -> Result<Flock<fs::File>, DataVolumeError> {
    let file = private::file().write(true).open(data_dir.join(name)).map_err(io("open the volume's lock"))?;
    Flock::lock(file, how).map_err(|(_, errno)| io("lock the volume")(errno.into()))
}

pub fn io(action: &str) -> impl FnOnce(io::Error) -> DataVolumeError + '_ {
    move |cause| DataVolumeError::Io { action: action.to_owned(), cause }
}

pub fn run(program: &str, arguments: &[&OsStr]) -> Result<String, DataVolumeError> {
    let failed = |reason: String| DataVolumeError::Command { command: program.to_owned(), reason };
    let output =
        Command::new(program).args(arguments).env("LC_ALL", "C").output().map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_folder_without_reflinks_gets_an_image_and_gives_it_back() {
        let folder = tempfile::tempdir().unwrap();
        let volume = DataVolume::open(folder.path(), IMAGE_BYTES_MIN).unwrap();
        assert!(supports_clone(volume.root()), "{volume:?}");
        assert!(volume.free_bytes() > 0);
        fs::write(volume.root().join("kept"), b"kept").unwrap();
        let other = DataVolume::open(folder.path(), IMAGE_BYTES_MIN).unwrap();
        volume.close();
        assert!(other.root().join("kept").exists(), "the volume was taken from its other user");
        other.close();
        assert!(!other.root().join("kept").exists());
        let again = DataVolume::open(folder.path(), IMAGE_BYTES_MIN).unwrap();
        assert_eq!(fs::read(again.root().join("kept")).unwrap(), b"kept");
        again.close();
        wait_until_detached(folder.path());
    }

    #[test]
    fn what_was_removed_is_given_back_by_a_trim_and_not_before() {
        const MIB: u64 = 1 << 20;
        let folder = tempfile::tempdir().unwrap();
        let volume = DataVolume::open(folder.path(), IMAGE_BYTES_MIN).unwrap();
        let taken = || fs::metadata(folder.path().join("volume.xfs")).unwrap().blocks() * 512;
        for name in ["kept", "removed"] {
            let path = volume.root().join(name);
            fs::write(&path, vec![name.as_bytes()[0]; 100 << 20]).unwrap();
            fs::File::open(&path).unwrap().sync_all().unwrap();
        }
        assert!(volume.slack().unwrap().held < 10 * MIB, "{volume:?}");
        let full = taken();
        fs::remove_file(volume.root().join("removed")).unwrap();
        wait_until_held(&volume, 90 * MIB);
        assert!(taken() >= full && volume.slack().unwrap().free_under > 0);

        volume.trim(0, || true).unwrap();
        assert!(taken() >= full, "it was told to stop");
        volume.trim(1, || false).unwrap();
        assert!(taken() < full - 90 * MIB && volume.slack().unwrap().held < 10 * MIB, "{volume:?}");
        assert_eq!(fs::read(volume.root().join("kept")).unwrap(), vec![b'k'; 100 << 20]);
        volume.close();
        let again = DataVolume::open(folder.path(), IMAGE_BYTES_MIN).unwrap();
        assert!(again.slack().unwrap().since < std::time::Duration::from_secs(600), "the next process knows of it");
    }

    /// Waits until so many bytes are held without use: the kernel frees a removed file's blocks a
    /// little later.
    fn wait_until_held(volume: &DataVolume, bytes: u64) {
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while volume.slack().unwrap().held < bytes {
            assert!(std::time::Instant::now() < deadline, "{:?}", volume.slack());
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }

    /// A small file system without reflinks, unmounted on drop.
    struct Disk {
        mount: PathBuf,
        _folder: tempfile::TempDir,
    }

    impl Disk {
        fn make(size: &str) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let (mount, image) = (folder.path().join("disk"), folder.path().join("image"));
            fs::create_dir(&mount).unwrap();
            run("truncate", &["-s".as_ref(), size.as_ref(), image.as_os_str()]).unwrap();
            run("mkfs.ext4", &["-q".as_ref(), "-m".as_ref(), "0".as_ref(), image.as_os_str()]).unwrap();
            run("mount", &["-o".as_ref(), "loop".as_ref(), image.as_os_str(), mount.as_os_str()]).unwrap();
            Self { mount, _folder: folder }
        }

        fn free_bytes(&self) -> u64 {
            let stat = statvfs(&self.mount).unwrap();
            stat.blocks_available() * stat.fragment_size()
        }

        /// Fills the disk, and leaves so many bytes free.
        fn fill(&self, leave: u64) {
            let file = fs::File::create(self.mount.join("filler")).unwrap();
            let length = (self.free_bytes() - leave).cast_signed();
            nix::fcntl::fallocate(&file, nix::fcntl::FallocateFlags::empty(), 0, length).unwrap();
        }
    }

    impl Drop for Disk {
        fn drop(&mut self) {
            let _ = run("umount", &[self.mount.as_os_str()]);
        }
    }

    /// Writes and flushes files until the disk is full. Every successful write must be readable.
    fn write_all(root: &Path, name: &str) -> u64 {
        for number in 0.. {
            let path = root.join(format!("{name}-{number}"));
            let written = fs::File::create(&path).and_then(|mut file| {
                io::Write::write_all(&mut file, &content(name, number))?;
                file.sync_all()
            });
            match written {
                Ok(()) => {}
                Err(error) => {
                    assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{error}");
                    let _ = fs::remove_file(&path);
                    return number;
                }
            }
        }
        unreachable!("a disk is full some day")
    }

    fn content(name: &str, number: u64) -> Vec<u8> {
        format!("{name} {number:>20}").into_bytes().repeat(50_000)
    }

    #[test]
    fn an_image_on_a_disk_that_fills_says_so_and_loses_nothing() {
        const MIB: u64 = 1 << 20;
        let disk = Disk::make("2G");
        let data = disk.mount.join("data");
        let volume = DataVolume::open(&data, 4 << 30).unwrap();
        disk.fill(1200 * MIB);
        volume.level().unwrap();
        assert!(volume.free_bytes() < disk.free_bytes(), "promised: {}", volume.free_bytes());
        let first = write_all(volume.root(), "first");
        assert!(first > 400, "{first}");
        assert!(disk.free_bytes() > 64 * MIB, "others can still write: {}", disk.free_bytes());

        // Half of it is removed, but the image keeps the space.
        for number in (0..first).step_by(2) {
            fs::remove_file(volume.root().join(format!("first-{number}"))).unwrap();
        }
        // All but a little: what is freed after the next line is promised too.
        wait_until_held(&volume, first / 2 * content("first", 0).len() as u64 - 10 * MIB);
        volume.level().unwrap();
        let second = write_all(volume.root(), "second");
        // How much exactly depends on what other programs have written and the kernel has not.
        assert!(second < first / 2 - 50, "the removed files' space is not promised yet: {second} of {first}");
        assert!(disk.free_bytes() > 64 * MIB, "no more than there is: {}", disk.free_bytes());
        // The removed files' space is returned, from under the ballast too, and can be used again.
        volume.trim(0, || false).unwrap();
        assert!(disk.free_bytes() > 400 * MIB, "{}", disk.free_bytes());
        let third = write_all(volume.root(), "third");
        assert!(third > 200, "{third}");

        volume.close();
        let again = DataVolume::open(&data, 0).unwrap();
        let kept = (0..first).skip(1).step_by(2).map(|number| ("first", number));
        for (name, number) in kept.chain((0..second).map(|n| ("second", n))).chain((0..third).map(|n| ("third", n))) {
            let read = fs::read(again.root().join(format!("{name}-{number}"))).unwrap();
            assert!(read == content(name, number), "{name}-{number} is not what was written");
        }
        fs::remove_file(disk.mount.join("filler")).unwrap();
        again.level().unwrap();
        assert!(again.free_bytes() > 300 * MIB, "what is there is promised again: {}", again.free_bytes());
        again.close();
    }

    /// Waits until a folder's files have no devices: a mount namespace that another test has just
    /// made copies all mounts before it releases them.
    fn wait_until_detached(folder: &Path) {
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while !devices(folder).is_empty() {
            assert!(std::time::Instant::now() < deadline, "{:?}", devices(folder));
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }

    /// The loop devices of files in a folder.
    fn devices(folder: &Path) -> Vec<String> {
        let (loops, folder) = (run("losetup", &[OsStr::new("-l")]).unwrap(), folder.to_string_lossy().into_owned());
        loops.lines().filter(|line| line.contains(&folder)).map(str::to_owned).collect()
    }

    #[test]
    fn a_device_that_was_never_mounted_goes_with_the_next_use() {
        let folder = tempfile::tempdir().unwrap();
        let volume = DataVolume::open(folder.path(), IMAGE_BYTES_MIN).unwrap();
        fs::write(volume.root().join("kept"), b"kept").unwrap();
        volume.close();
        // The state that a process leaves if it is killed at this point.
        let image = folder.path().join("volume.xfs");
        run("losetup", &[OsStr::new("--find"), image.as_os_str()]).unwrap();
        assert_eq!(devices(folder.path()).len(), 1);
        let again = DataVolume::open(folder.path(), IMAGE_BYTES_MIN).unwrap();
        assert_eq!(fs::read(again.root().join("kept")).unwrap(), b"kept");
        assert_eq!(devices(folder.path()).len(), 1, "the one that is mounted");
        again.close();
        wait_until_detached(folder.path());
    }

    #[test]
    fn a_volume_that_another_namespace_holds_is_mounted_again() {
        let folder = tempfile::tempdir().unwrap();
        let volume = DataVolume::open(folder.path(), IMAGE_BYTES_MIN).unwrap();
        let kept = volume.root().join("kept");
        fs::write(&kept, b"kept").unwrap();
        fs::File::open(&kept).unwrap().sync_all().unwrap();
        let (in_it, held) = std::os::unix::net::UnixStream::pair().unwrap();
        // It holds this volume, and none of other tests.
        let script = "for folder in $(findmnt -rno TARGET,SOURCE -t xfs | grep ' /dev/loop' | cut -d ' ' -f 1); do
                [ $folder = $0 ] || umount $folder
            done
            echo; exec sleep 60";
        let words = ["--mount", "sh", "-c", script].map(OsStr::new);
        let mut holder = Command::new("unshare");
        holder.args(words).arg(volume.root());
        let mut holder = holder.stdout(std::os::fd::OwnedFd::from(held)).spawn().unwrap();
        io::Read::read_exact(&mut &in_it, &mut [0]).unwrap();
        volume.close();
        assert!(!volume.root().join("kept").exists(), "unmounted here");
        let again = DataVolume::open(folder.path(), IMAGE_BYTES_MIN).unwrap();
        assert_eq!(fs::read(again.root().join("kept")).unwrap(), b"kept");
        assert_eq!(devices(folder.path()).len(), 1, "the device of the first mount");

        // The disk under it fails: the file system that the other namespace holds is of no use.
        let shutdown = ["-x", "-c", "shutdown"].map(OsStr::new);
        run("xfs_io", &[&shutdown[..], &[again.root().as_os_str()]].concat()).unwrap();
        again.close();
        let opened = std::thread::scope(|scope| {
            let opened = scope.spawn(|| DataVolume::open(folder.path(), IMAGE_BYTES_MIN));
            std::thread::sleep(std::time::Duration::from_millis(500));
            holder.kill().unwrap();
            holder.wait().unwrap();
            opened.join().unwrap().unwrap()
        });
        assert_eq!(fs::read(opened.root().join("kept")).unwrap(), b"kept");
        opened.close();
    }
}
