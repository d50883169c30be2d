//! The image that a data folder without reflinks lies in: one sparse file with an XFS in it,
//! loop-mounted. It grows as files come, and is trimmed some time after they went: see
//! `docs/decisions/0025-trimming.md`. What it promises is there: see [`crate::ballast`].

use std::{
    ffi::OsStr,
    fs,
    ops::Range,
    os::{
        fd::AsFd,
        unix::fs::{FileExt, MetadataExt},
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
    volume::{VolumeError, io, run},
};

/// How long a mount is tried. A jailed machine sees parts of the volume in a mount namespace of its
/// own, which the kernel takes down some time after the machine's process; until then the file
/// system is in use and cannot be mounted a second time.
const MOUNT_PATIENCE: Duration = Duration::from_secs(5);

/// Between two attempts.
const MOUNT_PAUSE: Duration = Duration::from_millis(20);

/// The file system's log, which is there from the start.
const LOG_BYTES: u64 = 64 << 20;

/// How much of the image is trimmed at a time.
const TRIM_PIECE: usize = 1 << 30;

/// Shorter free pieces are left: they cost as much as long ones, and are the first to be used
/// again.
const TRIM_LEAST: u64 = 64 << 10;

/// The longest rest after a piece.
const TRIM_REST_MAX: Duration = Duration::from_secs(2);

/// What an image has come to hold for nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slack {
    /// Bytes that files have left since the last trim and that the image still takes of the disk
    /// under it.
    pub held: u64,
    /// Bytes that are free on the disk under it.
    pub free_under: u64,
    /// Since the last trim, by whichever process.
    pub since: Duration,
}

/// The image of one data folder.
pub struct Image {
    file: PathBuf,
    /// As old as the last trim; says how much more the image took after it than the file system
    /// calls used. That is not nothing: the file system's log is not counted, room it reserves for
    /// its own trees is, and some pieces are too small to give back.
    trimmed: PathBuf,
}

impl Image {
    pub fn of(data_dir: &Path) -> Self {
        Self { file: data_dir.join("volume.xfs"), trimmed: data_dir.join("volume.trimmed") }
    }

    pub fn exists(&self) -> bool {
        self.file.exists()
    }

    /// One that was made but never mounted with success holds nothing yet.
    pub fn is_fresh(&self) -> bool {
        fs::metadata(&self.file).is_ok_and(|meta| meta.blocks() * 512 < LOG_BYTES + (16 << 20))
    }

    pub fn remove(&self) {
        let _ = fs::remove_file(&self.file);
    }

    /// Mounts the image, which is made if there is none yet.
    pub fn mount(&self, mount_point: &Path, bytes: u64) -> Result<(), VolumeError> {
        private::make_folder(mount_point).map_err(io("make the mount point"))?;
        let is_new = !self.exists();
        if is_new {
            self.make(bytes)?;
        }
        let deadline = Instant::now() + MOUNT_PATIENCE;
        loop {
            match self.attach_and_mount(mount_point) {
                Err(error) if Instant::now() < deadline => {
                    tracing::debug!(%error, "the data volume is not free yet");
                    std::thread::sleep(MOUNT_PAUSE);
                }
                outcome => {
                    outcome?;
                    break;
                }
            }
        }
        if is_new && let Err(error) = used(mount_point).and_then(|used| self.note(used)) {
            tracing::info!(%error, "a new volume may be trimmed for nothing once");
        }
        Ok(())
    }

    fn make(&self, bytes: u64) -> Result<(), VolumeError> {
        let fresh = self.file.with_extension("new");
        let file = private::file().write(true).truncate(true).open(&fresh).map_err(io("make the volume image"))?;
        file.set_len(bytes).map_err(io("size the volume image"))?;
        let log = format!("size={LOG_BYTES}");
        let options = ["-q", "-m", "reflink=1,rmapbt=0", "-i", "sparse=1", "-l", &log].map(OsStr::new);
        run("mkfs.xfs", &[&options[..], &[fresh.as_os_str()]].concat())?;
        fs::rename(&fresh, &self.file).map_err(io("name the volume image"))
    }

    fn attach_and_mount(&self, mount_point: &Path) -> Result<(), VolumeError> {
        self.detach()?;
        // Direct I/O on the loop device, or every page is cached twice.
        let attach = ["--find", "--show", "--direct-io=on"].map(OsStr::new);
        let device = run("losetup", &[&attach[..], &[self.file.as_os_str()]].concat())?;
        let device = device.trim();
        // Without `discard`: who clones or flushes next would wait until the disk has taken back
        // what others removed.
        let options = ["-t", "xfs", "-o", "noatime", device].map(OsStr::new);
        let mounted = run("mount", &[&options[..], &[mount_point.as_os_str()]].concat());
        // Detaching a mounted device only marks it to go away with the mount.
        let _ = run("losetup", &["-d", device].map(OsStr::new));
        mounted.map(drop)
    }

    /// Detaches the devices of an image: whoever was killed before it had mounted one left it, and
    /// nobody is about to mount one while we hold the lock. One that is mounted elsewhere, in a
    /// machine's namespace, goes with that mount as it would have anyway.
    fn detach(&self) -> Result<(), VolumeError> {
        let list = ["--noheadings", "--output", "NAME", "--associated"].map(OsStr::new);
        let devices = run("losetup", &[&list[..], &[self.file.as_os_str()]].concat())?;
        for device in devices.split_whitespace() {
            run("losetup", &["-d", device].map(OsStr::new))?;
        }
        Ok(())
    }

    /// Tells what a trim could give back, if that can be told.
    pub fn slack(&self, mount_point: &Path) -> Option<Slack> {
        let under = statvfs(self.file.parent()?).ok()?;
        let mark = fs::metadata(&self.trimmed).and_then(|mark| mark.modified());
        let at = mark.or_else(|_| fs::metadata(&self.file).and_then(|image| image.created()));
        let (taken, used) = (self.taken().ok()?, used(mount_point).ok()?);
        // Never trimmed, or by a process that was killed while it noted so: all of it may be.
        let held = self.usual().map_or(taken, |usual| taken - used - usual);
        Some(Slack {
            held: held.try_into().unwrap_or(0),
            free_under: under.blocks_available() * under.fragment_size(),
            since: at.ok().and_then(|at| at.elapsed().ok()).unwrap_or_default(),
        })
    }

    /// Promises no more inside than is there. See [`crate::Volume::level`].
    pub fn level(&self, mount_point: &Path) -> Result<(), VolumeError> {
        let Some(ballast) = Ballast::open_if_free(mount_point)? else { return Ok(()) };
        ballast.level(mount_point).map_err(io("level the volume"))
    }

    /// Gives what no file uses back to the disk under the image, in pieces. See
    /// [`crate::Volume::trim`].
    pub fn trim(&self, mount_point: &Path, rest: u32, is_over: impl Fn() -> bool) -> Result<(), VolumeError> {
        let within = fs::File::open(mount_point).map_err(io("open the volume"))?;
        // The folder itself, so that a full disk needs no room for a lock.
        let within = match Flock::lock(within, FlockArg::LockExclusiveNonblock) {
            Ok(within) => within,
            Err((_, Errno::EWOULDBLOCK)) => return Ok(()),
            Err((_, errno)) => return Err(io("lock the volume")(errno.into())),
        };
        let length = fs::metadata(&self.file).map_err(io("look at the volume image"))?.len();
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
        // Also of one that failed, which is not to be tried over and over. Who looks next still
        // sees what was removed meanwhile.
        self.note(used(mount_point)?.max(before))?;
        trimmed
    }

    /// Gives back what lies under the ballast: blocks that files had before it took them. The file
    /// system calls them used, so its own trim leaves them; and the ballast cannot go meanwhile,
    /// for this is done where the disk is short.
    fn trim_ballast(&self, mount_point: &Path) -> Result<(), VolumeError> {
        let ballast = Ballast::open(mount_point)?;
        let file = fs::File::options().write(true).open(&self.file).map_err(io("open the volume image"))?;
        let how = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        for piece in ballast.places().map_err(io("look at the volume's ballast"))?.into_iter().flat_map(pieces) {
            let (start, length) = (piece.start.cast_signed(), (piece.end - piece.start).cast_signed());
            fallocate(file.as_fd(), how, start, length).map_err(|errno| io("trim the ballast")(errno.into()))?;
        }
        ballast.level(mount_point).map_err(io("level the volume"))
    }

    /// Bytes that the image takes of the disk under it.
    fn taken(&self) -> Result<i64, VolumeError> {
        let image = fs::metadata(&self.file).map_err(io("look at the volume image"))?;
        Ok((image.blocks() * 512).cast_signed())
    }

    /// Notes that nothing can be given back now. In place and always as long, so that a full disk
    /// has room for it.
    fn note(&self, used: i64) -> Result<(), VolumeError> {
        let usual = format!("{:>20}", self.taken()? - used);
        let mark = private::file().write(true).truncate(false).open(&self.trimmed);
        mark.and_then(|mark| mark.write_all_at(usual.as_bytes(), 0)).map_err(io("note that the volume is trimmed"))
    }

    /// What was noted last.
    fn usual(&self) -> Option<i64> {
        fs::read_to_string(&self.trimmed).ok()?.trim().parse().ok()
    }
}

/// Cuts a stretch into pieces that do not take long to trim.
fn pieces(stretch: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    stretch.clone().step_by(TRIM_PIECE).map(move |start| start..stretch.end.min(start + TRIM_PIECE as u64))
}

/// Bytes that a file system calls used, without the ballast.
fn used(mount_point: &Path) -> Result<i64, VolumeError> {
    let inside = statvfs(mount_point).map_err(|errno| io("look at the volume")(errno.into()))?;
    let used = inside.blocks().saturating_sub(inside.blocks_free()) * inside.fragment_size();
    Ok(used.cast_signed() - ballast::bytes(mount_point).cast_signed())
}
