//! Reads the pages that another process has changed in a private mapping of a file. The caller must
//! stop the process first, or the pages are from different moments.

#![allow(unsafe_code)]

use std::{
    ffi::c_void,
    fs, io,
    io::IoSliceMut,
    os::unix::fs::{FileExt, MetadataExt},
    path::Path,
    ptr::NonNull,
};

use nix::{
    sys::{
        mman::{MmapAdvise, madvise},
        uio::{RemoteIoVec, process_vm_readv},
    },
    unistd::Pid,
};

/// Page size in bytes, as the kernel's interface counts.
pub const PAGE_BYTES: u64 = 4096;

/// Page entries per read.
const ENTRIES_PER_READ: usize = 16 * 1024;

/// Ranges per system call, the kernel's limit.
const PIECES_PER_CALL: usize = 1024;

const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
/// Set for pages of the file itself. A private copy lacks it.
const FILE_PAGE: u64 = 1 << 61;

/// A file mapped in another process, from its first byte on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileMapping {
    pid: i32,
    address: u64,
    length: u64,
}

/// A run of adjacent pages of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRange {
    /// From the start of the mapping, which is also the start of the file.
    pub offset: u64,
    pub length: u64,
}

/// The pages of a mapping that its process has touched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TouchedPages {
    /// Changed pages: the process has private copies.
    pub changed: Vec<PageRange>,
    /// Pages that were only read: the file's pages, now in memory.
    pub read: Vec<PageRange>,
}

impl FileMapping {
    /// Finds a process's mapping of a file by the file's identity. The path may differ inside the
    /// process's mount namespace.
    pub fn of(pid: u32, file: &Path) -> io::Result<Self> {
        let wanted = fs::metadata(file)?;
        let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
        let mut found: Option<FileMapping> = None;
        for line in maps.lines() {
            let Some(map) = MapsLine::parse(line) else { continue };
            if map.inode != wanted.ino() || !map.is_of(pid, &wanted) {
                continue;
            }
            // The kernel may have split the mapping. The pieces are adjacent.
            match &mut found {
                None if map.offset == 0 => {
                    let (address, length) = (map.start, map.end - map.start);
                    found = Some(FileMapping { pid: pid as i32, address, length });
                }
                Some(whole) if whole.address + whole.length == map.start && whole.length == map.offset => {
                    whole.length += map.end - map.start;
                }
                _ => {}
            }
        }
        let missing = || io::Error::new(io::ErrorKind::NotFound, "the process does not map this file");
        found.filter(|map| map.length >= wanted.len()).ok_or_else(missing)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid.cast_unsigned()
    }

    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Lists the pages that were touched, changed ones and read ones.
    pub fn touched(&self) -> io::Result<TouchedPages> {
        let pagemap = fs::File::open(format!("/proc/{}/pagemap", self.pid))?;
        let first = self.address / PAGE_BYTES;
        let pages = self.length / PAGE_BYTES;
        let mut touched = TouchedPages::default();
        let mut buffer = vec![0_u8; ENTRIES_PER_READ * 8];
        let mut page = 0;
        while page < pages {
            let count = ENTRIES_PER_READ.min((pages - page) as usize);
            let bytes = &mut buffer[..count * 8];
            pagemap.read_exact_at(bytes, (first + page) * 8)?;
            for (entry, at) in bytes.chunks_exact(8).zip(page..) {
                let entry = u64::from_ne_bytes(entry.try_into().expect("chunks of eight"));
                if entry & SWAPPED != 0 || entry & (PRESENT | FILE_PAGE) == PRESENT {
                    extend(&mut touched.changed, at * PAGE_BYTES);
                } else if entry & PRESENT != 0 {
                    extend(&mut touched.read, at * PAGE_BYTES);
                }
            }
            page += count as u64;
        }
        Ok(touched)
    }

    /// Reads ranges of the mapping, one after the other, into a buffer of exactly their total size.
    pub fn read(&self, pieces: &[PageRange], mut into: &mut [u8]) -> io::Result<()> {
        for group in pieces.chunks(PIECES_PER_CALL) {
            let wanted: usize = group.iter().map(|piece| piece.length as usize).sum();
            let remote: Vec<_> = group
                .iter()
                .map(|piece| RemoteIoVec { base: (self.address + piece.offset) as usize, len: piece.length as usize })
                .collect();
            let (part, rest) = into.split_at_mut(wanted);
            let read = process_vm_readv(Pid::from_raw(self.pid), &mut [IoSliceMut::new(part)], &remote)?;
            if read != wanted {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the process unmapped a page while it was read",
                ));
            }
            into = rest;
        }
        Ok(())
    }
}

/// Makes a buffer for large reads and has the kernel back it with memory now, with pages of two
/// megabytes if available. Made before a guest is stopped, it halves the time of the read.
pub fn buffer(bytes: usize) -> Vec<u8> {
    let buffer = vec![0_u8; bytes];
    let start = (buffer.as_ptr() as usize).next_multiple_of(PAGE_BYTES as usize);
    let end = (buffer.as_ptr() as usize + bytes) / PAGE_BYTES as usize * PAGE_BYTES as usize;
    if let (Some(length), Some(start)) =
        (end.checked_sub(start).filter(|length| *length > 0), NonNull::new(start as *mut c_void))
    {
        for advice in [MmapAdvise::MADV_HUGEPAGE, MmapAdvise::MADV_POPULATE_WRITE] {
            // SAFETY: the range lies within the buffer, which is ours alone; neither advice changes
            // its content. A kernel that does not know an advice allocates memory at the first
            // write, as usual.
            let _ = unsafe { madvise(start, length, advice) };
        }
    }
    buffer
}

/// Total length of extents.
pub fn total(extents: &[PageRange]) -> u64 {
    extents.iter().map(|extent| extent.length).sum()
}

fn extend(extents: &mut Vec<PageRange>, offset: u64) {
    match extents.last_mut() {
        Some(last) if last.offset + last.length == offset => last.length += PAGE_BYTES,
        _ => extents.push(PageRange { offset, length: PAGE_BYTES }),
    }
}

/// One line of `/proc/<pid>/maps`: `start-end perms offset major:minor inode name`.
struct MapsLine {
    start: u64,
    end: u64,
    offset: u64,
    inode: u64,
}

impl MapsLine {
    fn parse(line: &str) -> Option<Self> {
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        let mut words = line.split_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let (_perms, offset) = (words.next()?, words.next()?);
        let _device = words.next()?;
        let inode = words.next()?.parse().ok()?;
        Some(MapsLine { start: hex(start)?, end: hex(end)?, offset: hex(offset)?, inode })
    }

    /// Tells whether this line maps the file. Checks the mapping itself, because some file systems
    /// show a different device number in the text.
    fn is_of(&self, pid: u32, file: &fs::Metadata) -> bool {
        let mapped = fs::metadata(format!("/proc/{pid}/map_files/{:x}-{:x}", self.start, self.end));
        mapped.is_ok_and(|mapped| (mapped.dev(), mapped.ino()) == (file.dev(), file.ino()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    /// Another process that maps the file privately, reads page 1 and changes pages 2, 3 and 6.
    const MAPPER: &str = "
import mmap, sys
file = open(sys.argv[1], 'r+b')
memory = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE)
memory[4096]
for page in (2, 3, 6):
    memory[page * 4096] = 120
print('ready', flush=True)
sys.stdin.read()
";

    #[test]
    fn only_what_was_changed_is_found_and_read() {
        let folder = std::env::temp_dir().join(format!("pandastack-pagemap-{}", std::process::id()));
        fs::write(&folder, vec![b'a'; 8 * 4096]).unwrap();
        let mut child = Command::new("python3")
            .args(["-c", MAPPER])
            .arg(&folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        io::BufRead::read_line(&mut io::BufReader::new(child.stdout.as_mut().unwrap()), &mut line).unwrap();
        let mapping = FileMapping::of(child.id(), &folder).unwrap();
        let touched = mapping.touched().unwrap();
        let expected = [PageRange { offset: 2 * 4096, length: 8192 }, PageRange { offset: 6 * 4096, length: 4096 }];
        assert_eq!(touched.changed, expected);
        assert!(touched.read.iter().any(|extent| extent.offset <= 4096 && extent.offset + extent.length > 4096));
        let mut bytes = vec![0; total(&touched.changed) as usize];
        mapping.read(&touched.changed, &mut bytes).unwrap();
        assert_eq!((bytes[0], bytes[1], bytes[4096], bytes[8192]), (b'x', b'a', b'x', b'x'));
        child.stdin.take().unwrap().write_all(b"").unwrap();
        child.wait().unwrap();
        assert!(FileMapping::of(std::process::id(), &folder).is_err());
        fs::remove_file(&folder).unwrap();
    }
}
