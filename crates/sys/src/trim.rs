//! Gives blocks that no file of a mounted file system uses back to what lies under it.
#![allow(unsafe_code)]

use std::{fs::File, io, ops::Range, os::fd::AsRawFd};

/// The kernel's `struct fstrim_range`.
#[repr(C)]
pub struct Stretch {
    start: u64,
    length: u64,
    least: u64,
}

mod ioctl {
    nix::ioctl_readwrite!(fitrim, b'X', 121, super::Stretch);
}

/// Gives back the unused blocks among some bytes of a file system, any file or folder of which is
/// open; pieces shorter than `least` are left.
pub fn trim(within: &File, bytes: Range<u64>, least: u64) -> io::Result<()> {
    let mut stretch = Stretch { start: bytes.start, length: bytes.end.saturating_sub(bytes.start), least };
    // SAFETY: FITRIM reads and writes one structure of this layout, which lives until the call has
    // returned.
    unsafe { ioctl::fitrim(within.as_raw_fd(), &raw mut stretch) }?;
    Ok(())
}
