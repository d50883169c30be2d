//! Tells which pages of a mapping another process writes, while it runs. The kernel protects the
//! pages and notes the first write to each (`userfaultfd`, `PAGEMAP_SCAN`). Needs Linux 6.7.
#![allow(unsafe_code)]

use std::{
    fs::File,
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
};

use crate::{
    inject,
    pagemap::{FileMapping, PageRange},
    pidfd::Pidfd,
};

/// Ranges per scan.
const RANGES_PER_SCAN: usize = 16 * 1024;

/// Faults in user mode only, which every user may watch. Our kind needs no handler at all.
const USER_MODE_ONLY: u64 = 1;

// From linux/userfaultfd.h and linux/fs.h.
const UFFD_API: u64 = 0xAA;
const UFFDIO_API: libc::Ioctl = 0xC018_AA3F_u32 as libc::Ioctl;
const UFFDIO_REGISTER: libc::Ioctl = 0xC020_AA00_u32 as libc::Ioctl;
const UFFDIO_WRITEPROTECT: libc::Ioctl = 0xC018_AA06_u32 as libc::Ioctl;
const REGISTER_MODE_WP: u64 = 1 << 1;
const FEATURE_WP_ASYNC: u64 = 1 << 15;
const PAGEMAP_SCAN: libc::Ioctl = 0xC060_6610_u32 as libc::Ioctl;
const SCAN_PROTECT: u64 = 1 << 0;
const SCAN_CHECK_WATCHED: u64 = 1 << 1;
const PAGE_IS_WRITTEN: u64 = 1 << 1;
const PAGE_IS_FILE: u64 = 1 << 2;
const PAGE_IS_PRESENT: u64 = 1 << 3;
const PAGE_IS_SWAPPED: u64 = 1 << 4;

#[repr(C)]
struct UffdApi {
    api: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
struct UffdRegister {
    start: u64,
    length: u64,
    mode: u64,
    ioctls: u64,
}

#[repr(C)]
struct UffdWriteProtect {
    start: u64,
    length: u64,
    mode: u64,
}

/// `struct page_region`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct PageRegion {
    start: u64,
    end: u64,
    categories: u64,
}

/// `struct pm_scan_arg`.
#[repr(C)]
#[derive(Default)]
struct ScanArguments {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    regions: u64,
    regions_max: u64,
    pages_max: u64,
    inverted: u64,
    required: u64,
    any_of: u64,
    reported: u64,
}

/// A mapping whose writes are noted, until this is dropped.
pub struct WrittenPages {
    mapping: FileMapping,
    pagemap: File,
    _watch: OwnedFd,
}

impl WrittenPages {
    /// Begins to note. The process stops for some microseconds, because only it can open the watch
    /// of its memory.
    pub fn watch(mapping: FileMapping) -> io::Result<Self> {
        let pagemap = File::open(format!("/proc/{}/pagemap", mapping.pid()))?;
        let watch = open_watch(mapping.pid())?;
        let mut api = UffdApi { api: UFFD_API, features: FEATURE_WP_ASYNC, ioctls: 0 };
        // SAFETY: the descriptor is open, and the kernel reads and writes one `uffdio_api`.
        told(unsafe { libc::ioctl(watch.as_raw_fd(), UFFDIO_API, &raw mut api) })?;
        let (start, length) = (mapping.address(), mapping.length());
        let mut register = UffdRegister { start, length, mode: REGISTER_MODE_WP, ioctls: 0 };
        // SAFETY: as above, with one `uffdio_register`.
        told(unsafe { libc::ioctl(watch.as_raw_fd(), UFFDIO_REGISTER, &raw mut register) })?;
        // Linux before 6.9 leaves the marks of an earlier watch behind. A page with an old mark
        // that is written already would count as unwritten for ever.
        let mut clear = UffdWriteProtect { start, length, mode: 0 };
        // SAFETY: as above, with one `uffdio_writeprotect`.
        told(unsafe { libc::ioctl(watch.as_raw_fd(), UFFDIO_WRITEPROTECT, &raw mut clear) })?;
        let watched = Self { mapping, pagemap, _watch: watch };
        watched.take()?;
        Ok(watched)
    }

    /// Returns the changed pages that were written since the last call. A page that is written
    /// after this returns is in the next answer.
    pub fn take(&self) -> io::Result<Vec<PageRange>> {
        let mut ranges: Vec<PageRange> = Vec::new();
        let mut regions = vec![PageRegion::default(); RANGES_PER_SCAN];
        let (first, end) = (self.mapping.address(), self.mapping.address() + self.mapping.length());
        let mut start = first;
        while start < end {
            let mut ask = ScanArguments {
                size: size_of::<ScanArguments>() as u64,
                flags: SCAN_PROTECT | SCAN_CHECK_WATCHED,
                start,
                end,
                regions: regions.as_mut_ptr() as u64,
                regions_max: regions.len() as u64,
                inverted: PAGE_IS_FILE,
                required: PAGE_IS_WRITTEN | PAGE_IS_FILE,
                any_of: PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
                reported: PAGE_IS_WRITTEN,
                ..ScanArguments::default()
            };
            // SAFETY: the descriptor is open, and the kernel writes at most `regions_max` entries
            // to `regions`, which outlives the call.
            let count = told(unsafe { libc::ioctl(self.pagemap.as_raw_fd(), PAGEMAP_SCAN, &raw mut ask) })?;
            for region in &regions[..count as usize] {
                let found = PageRange { offset: region.start - first, length: region.end - region.start };
                match ranges.last_mut() {
                    Some(last) if last.offset + last.length == found.offset => last.length += found.length,
                    _ => ranges.push(found),
                }
            }
            if ask.walk_end <= start {
                return Err(io::Error::other("the scan of a process's pages does not advance"));
            }
            start = ask.walk_end;
        }
        Ok(ranges)
    }
}

fn open_watch(pid: u32) -> io::Result<OwnedFd> {
    let process = Pidfd::open(pid)?;
    let flags = libc::O_CLOEXEC as u64 | libc::O_NONBLOCK as u64 | USER_MODE_ONLY;
    inject::within(pid, |thread| {
        let theirs = thread.call(libc::SYS_userfaultfd, flags)?;
        let ours = copy_of(&process, theirs);
        // The process must not keep it: it could answer its own faults.
        thread.call(libc::SYS_close, theirs)?;
        ours
    })
}

fn copy_of(process: &Pidfd, number: u64) -> io::Result<OwnedFd> {
    // SAFETY: plain system call without pointers; the answer is a new descriptor or an error.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), number, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

fn told(answer: libc::c_int) -> io::Result<libc::c_int> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer) }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        io::{BufRead, BufReader, Write},
        process::{Child, Command, Stdio},
    };

    use super::*;

    const PAGES: usize = 64;

    /// Maps the file privately, changes page 2, and then each page that a line names; `r` reads.
    const MAPPER: &str = "
import mmap, sys
file = open(sys.argv[1], 'r+b')
memory = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE)
memory[2 * 4096] = 120
print('ready', flush=True)
for line in sys.stdin:
    for word in line.split():
        if word[0] == 'r':
            memory[int(word[1:]) * 4096]
        else:
            memory[int(word) * 4096] = 121
    print('done', flush=True)
";

    struct Mapper {
        child: Child,
        file: tempfile::NamedTempFile,
    }

    impl Mapper {
        fn start() -> Self {
            let file = tempfile::NamedTempFile::new().unwrap();
            fs::write(file.path(), vec![b'a'; PAGES * 4096]).unwrap();
            let mut command = Command::new("python3");
            command.args(["-u", "-c", MAPPER]).arg(file.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut mapper = Self { child: command.spawn().unwrap(), file };
            mapper.hear();
            mapper
        }

        fn hear(&mut self) {
            let out = self.child.stdout.as_mut().unwrap();
            BufReader::with_capacity(1, out).read_line(&mut String::new()).unwrap();
        }

        fn touch(&mut self, words: &str) {
            writeln!(self.child.stdin.as_mut().unwrap(), "{words}").unwrap();
            self.hear();
        }

        fn mapping(&self) -> FileMapping {
            FileMapping::of(self.child.id(), self.file.path()).unwrap()
        }
    }

    impl Drop for Mapper {
        fn drop(&mut self) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    fn pages(ranges: &[PageRange]) -> Vec<u64> {
        ranges.iter().flat_map(|range| range.offset / 4096..(range.offset + range.length) / 4096).collect()
    }

    #[test]
    fn each_write_is_told_once_and_reads_never() {
        let mut mapper = Mapper::start();
        let written = WrittenPages::watch(mapper.mapping()).unwrap();
        assert_eq!(pages(&written.take().unwrap()), [0; 0], "nothing since it began");
        // Known and changed, known and never written, unknown; and reads of others.
        mapper.touch("2 3 40 41 r7 r50");
        assert_eq!(pages(&written.take().unwrap()), [2, 3, 40, 41]);
        assert_eq!(pages(&written.take().unwrap()), [0; 0]);
        mapper.touch("r2 7 41 50 r41");
        assert_eq!(pages(&written.take().unwrap()), [7, 41, 50]);
        mapper.touch("2");
        drop(written);
        // Without a watch, and with a new one. The old one had noted 3, but not yet 40.
        mapper.touch("9 3");
        let again = WrittenPages::watch(mapper.mapping()).unwrap();
        assert_eq!(pages(&again.take().unwrap()), [0; 0]);
        mapper.touch("9 10 3 40");
        assert_eq!(pages(&again.take().unwrap()), [3, 9, 10, 40]);
        assert_eq!(pages(&mapper.mapping().touched().unwrap().changed), [2, 3, 7, 9, 10, 40, 41, 50]);
    }
}
