//! Keeps the file system in an image from offering more space than the disk under it has. A ballast
//! file of unwritten blocks takes the difference. A writer then gets an error instead of losing
//! accepted data: see `docs/decisions/0024-a-full-or-lost-disk.md`.

use std::{
    fs::{self, File},
    io,
    ops::Range,
    os::{fd::AsFd, unix::fs::MetadataExt},
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    fcntl::{FallocateFlags, Flock, FlockArg, fallocate},
    sys::statvfs::statvfs,
};
use pandastack_sys::{extents::unwritten, private};

use crate::volume::{DataVolumeError, io};

/// Space under the image that is not offered inside. Other programs and our databases write to that
/// disk between two checks, and its own metadata for the image takes space too.
const MARGIN: u64 = 128 << 20;

/// Free space left inside the image, for the metadata of the ballast file.
const LEAST: u64 = 4 << 20;

/// Smaller differences are ignored, and so is a sixteenth of the usable space: with plenty of space
/// the file need not follow every change.
const STEP: u64 = 16 << 20;
const STEP_SHARE: u64 = 16;

/// Allocated per call: the file system requires all of it to be free before it takes the first
/// block.
const PIECE: u64 = 256 << 20;

/// The ballast file of one mounted image, locked for a change.
pub struct Ballast {
    file: Flock<File>,
}

impl Ballast {
    /// Opens the ballast file of a mounted image, and makes it if there is none. Waits for the
    /// lock.
    pub fn open(mount_point: &Path) -> Result<Self, DataVolumeError> {
        match Flock::lock(file(mount_point)?, FlockArg::LockExclusive) {
            Ok(file) => Ok(Self { file }),
            Err((_, errno)) => Err(io("lock the volume's ballast")(errno.into())),
        }
    }

    /// As [`Ballast::open`], but returns `None` if the file is locked.
    pub fn open_if_free(mount_point: &Path) -> Result<Option<Self>, DataVolumeError> {
        match Flock::lock(file(mount_point)?, FlockArg::LockExclusiveNonblock) {
            Ok(file) => Ok(Some(Self { file })),
            Err((_, Errno::EWOULDBLOCK)) => Ok(None),
            Err((_, errno)) => Err(io("lock the volume's ballast")(errno.into())),
        }
    }

    /// Sets the ballast to the excess of the free space inside over the free space under the image.
    pub fn level(&self, mount_point: &Path) -> io::Result<()> {
        let under = mount_point.parent().map_or(Ok(u64::MAX), free)?;
        let have = self.bytes()?;
        let Some(want) = wanted(have, free(mount_point)?, under.saturating_sub(unwritten_bytes()?)) else {
            return Ok(());
        };
        tracing::debug!(have, want, "resizing the data volume's ballast");
        if want < have {
            return self.file.set_len(want);
        }
        let (mut end, mut missing) = (self.file.metadata()?.len(), want - have);
        while missing > 0 {
            let piece = missing.min(PIECE);
            let taken = fallocate(self.file.as_fd(), FallocateFlags::empty(), end.cast_signed(), piece.cast_signed());
            match taken {
                Ok(()) => (end, missing) = (end + piece, missing - piece),
                // A guest used the space first. Keep what was allocated.
                Err(Errno::ENOSPC) => break,
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// The ballast's blocks in the image. They stay there while this is held, and contain no data.
    pub fn places(&self) -> io::Result<Vec<Range<u64>>> {
        // After a power failure, too, no other file may own them.
        self.file.sync_all()?;
        unwritten(&self.file)
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.blocks() * 512)
    }
}

/// Bytes that the ballast file takes of a mounted image.
pub fn bytes(mount_point: &Path) -> u64 {
    fs::metadata(path(mount_point)).map_or(0, |file| file.blocks() * 512)
}

fn file(mount_point: &Path) -> Result<File, DataVolumeError> {
    let opened = private::file().read(true).write(true).truncate(false).open(path(mount_point));
    opened.map_err(io("open the volume's ballast"))
}

fn path(mount_point: &Path) -> PathBuf {
    mount_point.join("ballast")
}

/// Decides the size of the ballast. `None` if the present size is good enough.
fn wanted(have: u64, inside: u64, under: u64) -> Option<u64> {
    let may_use = under.saturating_sub(MARGIN);
    let want = (have + inside).saturating_sub(may_use.max(LEAST));
    let is_near = have.abs_diff(want) < STEP.max(may_use / STEP_SHARE);
    (have != want && (!is_near || want == 0)).then_some(want)
}

/// Free bytes for new data on a file system.
fn free(path: &Path) -> io::Result<u64> {
    let stat = statvfs(path)?;
    Ok(stat.blocks_available() * stat.fragment_size())
}

/// Dirty bytes of all file systems. Inside the image they are no longer free, but under it they
/// still are.
fn unwritten_bytes() -> io::Result<u64> {
    let text = fs::read_to_string("/proc/meminfo")?;
    let kibibytes = |name: &str| -> u64 {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok()).unwrap_or(0)
    };
    Ok((kibibytes("Dirty:") + kibibytes("Writeback:")) * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    #[test]
    fn it_is_as_large_as_what_is_promised_and_not_there() {
        for (have, inside, under, expected) in [
            // Enough space for everything.
            (0, 10 * GIB, 20 * GIB, None),
            (5 * GIB, 5 * GIB, 20 * GIB, Some(0)),
            (MIB, 10 * GIB, 20 * GIB, Some(0)),
            // Other programs use the disk.
            (0, 10 * GIB, 5 * GIB, Some(5 * GIB + MARGIN)),
            (0, 10 * GIB, 10 * GIB, None),
            (0, GIB, GIB, Some(MARGIN)),
            // Guests write: both values fall.
            (5 * GIB + MARGIN, 2 * GIB - MARGIN, 2 * GIB, None),
            (5 * GIB + MARGIN, 0, MARGIN, None),
            (5 * GIB, 60 * MIB, MARGIN + 50 * MIB, None),
            (5 * GIB, 60 * MIB, MARGIN + 40 * MIB, Some(5 * GIB + 20 * MIB)),
            // After a trim.
            (5 * GIB, 60 * MIB, MARGIN + GIB, Some(5 * GIB + 60 * MIB - GIB)),
            // No space left under the image.
            (0, GIB, 0, Some(GIB - LEAST)),
            (GIB, LEAST, 0, None),
        ] {
            assert_eq!(wanted(have, inside, under), expected, "{have} {inside} {under}");
        }
    }
}
