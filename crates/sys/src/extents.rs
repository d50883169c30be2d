//! Finds where a file's blocks lie on the device under its file system.
#![allow(unsafe_code)]

use std::{fs::File, io, ops::Range, os::fd::AsRawFd};

/// Number of extents requested per call.
const AT_ONCE: usize = 256;

/// Flag of the last extent of the file.
const LAST: u32 = 0x1;
/// Flag of an extent that is allocated but never written. It reads as zeros.
const UNWRITTEN: u32 = 0x800;

/// The kernel's `struct fiemap`, with space for some extents.
#[repr(C)]
pub struct Fiemap {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extents: [FiemapExtent; AT_ONCE],
}

/// The kernel's `struct fiemap_extent`.
#[repr(C)]
#[derive(Clone, Copy)]
struct FiemapExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved_long: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

const HEADER_BYTES: usize = std::mem::offset_of!(Fiemap, extents);

mod ioctl {
    // The request number covers the header only. The header states the length of the array after
    // it.
    nix::ioctl_readwrite_bad!(fiemap, nix::request_code_readwrite!(b'f', 11, super::HEADER_BYTES), super::Fiemap);
}

/// Lists the device ranges of a file's blocks that are allocated but never written, in file order.
pub fn unwritten(file: &File) -> io::Result<Vec<Range<u64>>> {
    let mut found = Vec::new();
    let none = FiemapExtent { logical: 0, physical: 0, length: 0, reserved_long: [0; 2], flags: 0, reserved: [0; 3] };
    let (mut start, count) = (0, AT_ONCE as u32);
    loop {
        let length = u64::MAX - start;
        let mut map = Fiemap { start, length, flags: 0, mapped: 0, count, reserved: 0, extents: [none; AT_ONCE] };
        // SAFETY: FIEMAP reads and writes one header and at most as many extents after it as the
        // header's count, which are there.
        unsafe { ioctl::fiemap(file.as_raw_fd(), &raw mut map) }?;
        let extents = &map.extents[..AT_ONCE.min(map.mapped as usize)];
        let plain = extents.iter().filter(|extent| extent.flags & !LAST == UNWRITTEN);
        found.extend(plain.map(|extent| extent.physical..extent.physical + extent.length));
        match extents.last() {
            Some(last) if last.flags & LAST == 0 => start = last.logical + last.length,
            _ => return Ok(found),
        }
    }
}
