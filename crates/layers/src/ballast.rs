//! Keeps the file system in an image from promising room that the disk under it does not have: a
//! file of blocks that nobody writes takes the difference. Who writes more than there is hears so
//! then, instead of losing what was accepted: see `docs/decisions/0024-a-full-or-lost-disk.md`.

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

use crate::volume::{VolumeError, io};

/// What is free under the image and not promised inside: others write to that disk between two
/// looks, our databases among them, and its own records of where the image lies take room too.
const MARGIN: u64 = 128 << 20;

/// Left inside, so that the file's own records have room.
const LEAST: u64 = 4 << 20;

/// A smaller difference is left, and so is a sixteenth of what is free: where there is plenty the
/// file need not follow everything.
const STEP: u64 = 16 << 20;
const STEP_SHARE: u64 = 16;

/// Taken at a time: the file system wants all of it to be free before it takes the first block.
const PIECE: u64 = 256 << 20;

/// The file of one mounted image, for whoever changes it now.
pub struct Ballast {
    file: Flock<File>,
}

impl Ballast {
    /// Opens the file of a mounted image, and makes it if there is none; waits for whoever changes
    /// it.
    pub fn open(mount_point: &Path) -> Result<Self, VolumeError> {
        match Flock::lock(file(mount_point)?, FlockArg::LockExclusive) {
            Ok(file) => Ok(Self { file }),
            Err((_, errno)) => Err(io("lock the volume's ballast")(errno.into())),
        }
    }

    /// Does the same if nobody changes it.
    pub fn open_if_free(mount_point: &Path) -> Result<Option<Self>, VolumeError> {
        match Flock::lock(file(mount_point)?, FlockArg::LockExclusiveNonblock) {
            Ok(file) => Ok(Some(Self { file })),
            Err((_, Errno::EWOULDBLOCK)) => Ok(None),
            Err((_, errno)) => Err(io("lock the volume's ballast")(errno.into())),
        }
    }

    /// Takes as much as what is free inside is more than what is free under it.
    pub fn level(&self, mount_point: &Path) -> io::Result<()> {
        let under = mount_point.parent().map_or(Ok(u64::MAX), free)?;
        let have = self.bytes()?;
        let Some(want) = wanted(have, free(mount_point)?, under.saturating_sub(unwritten_bytes()?)) else {
            return Ok(());
        };
        tracing::debug!(have, want, "the data volume's ballast");
        if want < have {
            return self.file.set_len(want);
        }
        let (mut end, mut missing) = (self.file.metadata()?.len(), want - have);
        while missing > 0 {
            let piece = missing.min(PIECE);
            let taken = fallocate(self.file.as_fd(), FallocateFlags::empty(), end.cast_signed(), piece.cast_signed());
            match taken {
                Ok(()) => (end, missing) = (end + piece, missing - piece),
                // A guest was faster: what could be had is had.
                Err(Errno::ENOSPC) => break,
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// Where its blocks lie in the image. They stay there as long as this is held; nothing in them
    /// is anybody's.
    pub fn places(&self) -> io::Result<Vec<Range<u64>>> {
        // So that after a cut of the power, too, they are nobody's else.
        self.file.sync_all()?;
        unwritten(&self.file)
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.blocks() * 512)
    }
}

/// Bytes that the file of a mounted image takes of it.
pub fn bytes(mount_point: &Path) -> u64 {
    fs::metadata(path(mount_point)).map_or(0, |file| file.blocks() * 512)
}

fn file(mount_point: &Path) -> Result<File, VolumeError> {
    let opened = private::file().read(true).write(true).truncate(false).open(path(mount_point));
    opened.map_err(io("open the volume's ballast"))
}

fn path(mount_point: &Path) -> PathBuf {
    mount_point.join("ballast")
}

/// Decides how large the file is to be; nothing if it is well as it is.
fn wanted(have: u64, inside: u64, under: u64) -> Option<u64> {
    let may_use = under.saturating_sub(MARGIN);
    let want = (have + inside).saturating_sub(may_use.max(LEAST));
    let is_near = have.abs_diff(want) < STEP.max(may_use / STEP_SHARE);
    (have != want && (!is_near || want == 0)).then_some(want)
}

/// Bytes that are free for new data on a file system.
fn free(path: &Path) -> io::Result<u64> {
    let stat = statvfs(path)?;
    Ok(stat.blocks_available() * stat.fragment_size())
}

/// Bytes of all file systems that are accepted and not written: those inside the image are no
/// longer free there, and still free below.
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
            // Room for all.
            (0, 10 * GIB, 20 * GIB, None),
            (5 * GIB, 5 * GIB, 20 * GIB, Some(0)),
            (MIB, 10 * GIB, 20 * GIB, Some(0)),
            // Others take of the disk.
            (0, 10 * GIB, 5 * GIB, Some(5 * GIB + MARGIN)),
            (0, 10 * GIB, 10 * GIB, None),
            (0, GIB, GIB, Some(MARGIN)),
            // Guests write: both fall.
            (5 * GIB + MARGIN, 2 * GIB - MARGIN, 2 * GIB, None),
            (5 * GIB + MARGIN, 0, MARGIN, None),
            (5 * GIB, 60 * MIB, MARGIN + 50 * MIB, None),
            (5 * GIB, 60 * MIB, MARGIN + 40 * MIB, Some(5 * GIB + 20 * MIB)),
            // A trim gave back.
            (5 * GIB, 60 * MIB, MARGIN + GIB, Some(5 * GIB + 60 * MIB - GIB)),
            // Nothing is left under it.
            (0, GIB, 0, Some(GIB - LEAST)),
            (GIB, LEAST, 0, None),
        ] {
            assert_eq!(wanted(have, inside, under), expected, "{have} {inside} {under}");
        }
    }
}
