//! The image for a data folder without reflinks: one sparse file with an XFS, loop-mounted. It
//! grows with its files, and is trimmed some time after files are removed: see
//! `docs/decisions/0025-trimming.md`. [`crate::ballast`] keeps its free space honest.

use std::{
    ffi::OsStr,
    fs,
    ops::Range,
    os::{
        fd::AsFd,
        unix::fs::{FileExt, MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    fcntl::{FallocateFlags, Flock, FlockArg, fallocate},
    sys::statvfs::statvfs,
};
use pandastack_sys::{private, trim::trim};

use crate::{
    ballast::{self, Ballast},
    volume::{DataVolumeError, io, run},
};

/// How long a mount is retried: while the kernel removes the last mount of the file system, it can
/// be mounted neither again nor anew.
const MOUNT_PATIENCE: Duration = Duration::from_secs(5);

/// Interval between two attempts.
const MOUNT_PAUSE: Duration = Duration::from_millis(20);

/// Size of the file system's log, allocated from the start.
const LOG_BYTES: u64 = 64 << 20;

/// Bytes of the image trimmed per step.
const TRIM_PIECE: usize = 1 << 30;

/// Shorter free ranges are skipped: they cost as much as long ones, and are reused first.
const TRIM_LEAST: u64 = 64 << 10;

/// The longest pause after a step.
const TRIM_REST_MAX: Duration = Duration::from_secs(2);

/// Space that an image holds without use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnusedSpace {
    /// Bytes of files removed since the last trim that the image still takes from the disk under
    /// it.
    pub held: u64,
    /// Bytes that are free on the disk under it.
    pub free_under: u64,
    /// Time since the last trim, by any process.
    pub since: Duration,
}

/// The image of one data folder.
pub struct VolumeImage {
    file: PathBuf,
    /// Its modification time is that of the last trim. It holds the difference between the image's
    /// size and the used bytes of the file system at that time. That is not zero: the log is not
    /// counted as used, reserved metadata is, and some ranges are too small to trim.
    trimmed: PathBuf,
}

impl VolumeImage {
    pub fn of(data_dir: &Path) -> Self {
        Self { file: data_dir.join("volume.xfs"), trimmed: data_dir.join("volume.trimmed") }
    }

    pub fn exists(&self) -> bool {
        self.file.exists()
    }

    /// Whether the image was made but never mounted successfully. Such an image holds no data.
    pub fn is_fresh(&self) -> bool {
        fs::metadata(&self.file).is_ok_and(|meta| meta.blocks() * 512 < LOG_BYTES + (16 << 20))
    }

    pub fn remove(&self) {
        let _ = fs::remove_file(&self.file);
    }

    /// Mounts the image, and makes it first if there is none.
    pub fn mount(&self, mount_point: &Path, bytes: u64) -> Result<(), DataVolumeError> {
        private::make_folder(mount_point).map_err(io("create the mount point"))?;
        let is_new = !self.exists();
        if is_new {
            self.make(bytes)?;
        }
        let deadline = Instant::now() + MOUNT_PATIENCE;
        loop {
            match self.attach_and_mount(mount_point) {
                Err(error) if Instant::now() < deadline => {
                    tracing::debug!(%error, "the data volume is still in use; trying again");
                    std::thread::sleep(MOUNT_PAUSE);
                }
                outcome => {
                    outcome?;
                    break;
                }
            }
        }
        if is_new && let Err(error) = used(mount_point).and_then(|used| self.note(used)) {
            tracing::info!(%error, "could not record the trim state of a new volume");
        }
        Ok(())
    }

    fn make(&self, bytes: u64) -> Result<(), DataVolumeError> {
        let fresh = self.file.with_extension("new");
        let file = private::file().write(true).truncate(true).open(&fresh).map_err(io("create the volume image"))?;
        file.set_len(bytes).map_err(io("set the size of the volume image"))?;
        let log = format!("size={LOG_BYTES}");
        let options = ["-q", "-m", "reflink=1,rmapbt=0", "-i", "sparse=1", "-l", &log].map(OsStr::new);
        run("mkfs.xfs", &[&options[..], &[fresh.as_os_str()]].concat())?;
        fs::rename(&fresh, &self.file).map_err(io("rename the volume image"))
    }

    fn attach_and_mount(&self, mount_point: &Path) -> Result<(), DataVolumeError> {
        if self.mount_again(mount_point)? {
            return Ok(());
        }
        // Direct I/O on the loop device, because otherwise every page is cached twice.
        let attach = ["--find", "--show", "--direct-io=on"].map(OsStr::new);
        let device = run("losetup", &[&attach[..], &[self.file.as_os_str()]].concat())?;
        let device = device.trim();
        let mounted = mount_device(device, mount_point);
        // Detaching a mounted device only marks it for removal with the mount.
        let _ = run("losetup", &["-d", device].map(OsStr::new));
        mounted
    }

    /// Mounts a device that the image has already. Other mount namespaces, such as that of a
    /// machine or of a program of the host, may hold a copy of an earlier mount for as long as they
    /// live, and XFS refuses a second device with the same file system. Detaches a device that a
    /// killed process left before the mount, and one whose file system has failed. Nothing else
    /// mounts one meanwhile, because we hold the lock.
    fn mount_again(&self, mount_point: &Path) -> Result<bool, DataVolumeError> {
        let list = ["--noheadings", "--output", "NAME", "--associated"].map(OsStr::new);
        let devices = run("losetup", &[&list[..], &[self.file.as_os_str()]].concat())?;
        for device in devices.split_whitespace() {
            let mounted = mount_device(device, mount_point).is_ok();
            // A mounted device goes with its last mount.
            run("losetup", &["-d", device].map(OsStr::new))?;
            if mounted && has_failed(mount_point) {
                run("umount", &[mount_point.as_os_str()])?;
            } else if mounted {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reports how much a trim could free, if that is known.
    pub fn slack(&self, mount_point: &Path) -> Option<UnusedSpace> {
        let under = statvfs(self.file.parent()?).ok()?;
        let mark = fs::metadata(&self.trimmed).and_then(|mark| mark.modified());
        let at = mark.or_else(|_| fs::metadata(&self.file).and_then(|image| image.created()));
        let (taken, used) = (self.taken().ok()?, used(mount_point).ok()?);
        // Never trimmed, or the trim's note is incomplete: any part may be unused.
        let held = self.usual().map_or(taken, |usual| taken - used - usual);
        Some(UnusedSpace {
            held: held.try_into().unwrap_or(0),
            free_under: under.blocks_available() * under.fragment_size(),
            since: at.ok().and_then(|at| at.elapsed().ok()).unwrap_or_default(),
        })
    }

    /// Adjusts the ballast. See [`crate::Volume::level`].
    pub fn level(&self, mount_point: &Path) -> Result<(), DataVolumeError> {
        let Some(ballast) = Ballast::open_if_free(mount_point)? else { return Ok(()) };
        ballast.level(mount_point).map_err(io("resize the ballast of the volume"))
    }

    /// Returns unused space to the disk under the image, in steps. See [`crate::Volume::trim`].
    pub fn trim(&self, mount_point: &Path, rest: u32, is_over: impl Fn() -> bool) -> Result<(), DataVolumeError> {
        let within = fs::File::open(mount_point).map_err(io("open the volume"))?;
        // Locks the folder itself, so that a full disk needs no space for a lock file.
        let within = match Flock::lock(within, FlockArg::LockExclusiveNonblock) {
            Ok(within) => within,
            Err((_, Errno::EWOULDBLOCK)) => return Ok(()),
            Err((_, errno)) => return Err(io("lock the volume")(errno.into())),
        };
        let length = fs::metadata(&self.file).map_err(io("read the size of the volume image"))?.len();
        let before = used(mount_point)?;
        let mut trimmed = Ok(());
        for piece in pieces(0..length) {
            if is_over() {
                return Ok(());
            }
            let begun = Instant::now();
            trimmed = trim(&within, piece, TRIM_LEAST).map_err(io("trim the volume"));
            if trimmed.is_err() {
                break;
            }
            std::thread::sleep(begun.elapsed().saturating_mul(rest).min(TRIM_REST_MAX));
        }
        let trimmed = trimmed.and_then(|()| self.trim_ballast(mount_point));
        // Noted after a failure too, so that it is not retried constantly. The next check still
        // sees the space freed meanwhile.
        self.note(used(mount_point)?.max(before))?;
        trimmed
    }

    /// Frees the space under the ballast: blocks that files had before. The file system counts them
    /// as used, so its own trim skips them. The ballast must stay meanwhile, because the disk is
    /// short of space.
    fn trim_ballast(&self, mount_point: &Path) -> Result<(), DataVolumeError> {
        let ballast = Ballast::open(mount_point)?;
        let file = fs::File::options().write(true).open(&self.file).map_err(io("open the volume image"))?;
        let how = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        for piece in
            ballast.places().map_err(io("read the extents of the volume's ballast"))?.into_iter().flat_map(pieces)
        {
            let (start, length) = (piece.start.cast_signed(), (piece.end - piece.start).cast_signed());
            fallocate(file.as_fd(), how, start, length).map_err(|errno| io("trim the ballast")(errno.into()))?;
        }
        ballast.level(mount_point).map_err(io("resize the ballast of the volume"))
    }

    /// Bytes that the image takes from the disk under it.
    fn taken(&self) -> Result<i64, DataVolumeError> {
        let image = fs::metadata(&self.file).map_err(io("read the size of the volume image"))?;
        Ok((image.blocks() * 512).cast_signed())
    }

    /// Records that nothing can be freed now. Overwrites in place with a fixed length, so it works
    /// on a full disk.
    fn note(&self, used: i64) -> Result<(), DataVolumeError> {
        let usual = format!("{:>20}", self.taken()? - used);
        let mark = private::file().write(true).truncate(false).open(&self.trimmed);
        mark.and_then(|mark| mark.write_all_at(usual.as_bytes(), 0)).map_err(io("record the volume's trim state"))
    }

    /// The recorded difference.
    fn usual(&self) -> Option<i64> {
        fs::read_to_string(&self.trimmed).ok()?.trim().parse().ok()
    }
}

fn mount_device(device: &str, mount_point: &Path) -> Result<(), DataVolumeError> {
    // No `discard`: the next clone or flush would wait until the disk has freed the blocks that
    // others removed.
    let options = ["-t", "xfs", "-o", "noatime", device].map(OsStr::new);
    run("mount", &[&options[..], &[mount_point.as_os_str()]].concat()).map(drop)
}

/// Whether the file system has stopped after an error of the disk under it. It stays so until its
/// last mount has gone.
fn has_failed(mount_point: &Path) -> bool {
    let probe = fs::File::options().write(true).custom_flags(nix::libc::O_TMPFILE).open(mount_point);
    probe.is_err_and(|error| error.raw_os_error() == Some(nix::libc::EIO))
}

/// Splits a range into pieces that are quick to trim.
fn pieces(stretch: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    stretch.clone().step_by(TRIM_PIECE).map(move |start| start..stretch.end.min(start + TRIM_PIECE as u64))
}

/// Used bytes of a file system, without the ballast.
fn used(mount_point: &Path) -> Result<i64, DataVolumeError> {
    let inside = statvfs(mount_point).map_err(|errno| io("read the free space of the volume")(errno.into()))?;
    let used = inside.blocks().saturating_sub(inside.blocks_free()) * inside.fragment_size();
    Ok(used.cast_signed() - ballast::bytes(mount_point).cast_signed())
}
