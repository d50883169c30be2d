//! Returns unused blocks of a mounted file system to the device under it.
#![allow(unsafe_code)]

use std::{fs::File, io, ops::Range, os::fd::AsRawFd};

/// The kernel's `struct fstrim_range`.
#[repr(C)]
pub struct FstrimRange {
    start: u64,
    length: u64,
    least: u64,
}

mod ioctl {
    nix::ioctl_readwrite!(fitrim, b'X', 121, super::FstrimRange);
}

/// Returns the unused blocks in a byte range of a file system. `within` is any open file or folder
/// of it. Ranges shorter than `least` are skipped.
pub fn trim(within: &File, bytes: Range<u64>, least: u64) -> io::Result<()> {
    let mut stretch = FstrimRange { start: bytes.start, length: bytes.end.saturating_sub(bytes.start), least };
    // SAFETY: FITRIM reads and writes one structure of this layout, which lives until the call has
    // returned.
    unsafe { ioctl::fitrim(within.as_raw_fd(), &raw mut stretch) }?;
    Ok(())
}
