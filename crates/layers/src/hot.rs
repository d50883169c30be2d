//! The parts of a layer's memory that a restore needs first. A new clone has no pages in memory,
//! and its guest would wait for the disk at every page. So the parts that the sealed guest had used
//! are listed, and read ahead during the start. A missing or damaged list only costs time.

use std::{fs, io, os::fd::AsFd, path::Path};

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use pandastack_vmm::MemoryRange;

/// Most bytes that a list makes the host read ahead.
const AHEAD_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Gaps up to this size are read too: one long read costs less than two short ones.
const GAP_BYTES: u64 = 64 * 1024;

/// Writes a list.
pub fn write(file: &Path, runs: &[MemoryRange]) -> io::Result<()> {
    let mut bytes = Vec::new();
    for run in merged(runs) {
        bytes.extend_from_slice(&run.offset.to_le_bytes());
        bytes.extend_from_slice(&run.length.to_le_bytes());
    }
    fs::write(file, bytes)
}

/// Reads a list. A missing or invalid one is empty.
pub fn read(file: &Path) -> Vec<MemoryRange> {
    let bytes = fs::read(file).unwrap_or_default();
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    bytes.chunks_exact(16).map(|pair| MemoryRange { offset: number(&pair[..8]), length: number(&pair[8..]) }).collect()
}

/// Makes the kernel read parts of a memory file ahead. Does not wait for the reads.
pub fn read_ahead(mem: &Path, runs: &[MemoryRange]) -> io::Result<()> {
    let file = fs::File::open(mem)?;
    let size = file.metadata()?.len();
    let mut left = AHEAD_BYTES_MAX;
    for run in runs {
        if run.offset >= size || left == 0 {
            break;
        }
        let length = run.length.min(size - run.offset).min(left);
        left -= length;
        let (offset, length) = (i64::try_from(run.offset), i64::try_from(length));
        let (Ok(offset), Ok(length)) = (offset, length) else { break };
        posix_fadvise(file.as_fd(), offset, length, PosixFadviseAdvice::POSIX_FADV_WILLNEED)?;
    }
    Ok(())
}

fn merged(runs: &[MemoryRange]) -> Vec<MemoryRange> {
    let mut merged: Vec<MemoryRange> = Vec::new();
    for run in runs {
        match merged.last_mut() {
            Some(last) if last.offset + last.length + GAP_BYTES >= run.offset => {
                last.length = run.offset + run.length - last.offset;
            }
            _ => merged.push(*run),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_comes_back_merged() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("hot");
        let run = |offset, length| MemoryRange { offset, length };
        write(&file, &[run(0, 4096), run(8192, 4096), run(1 << 20, 4096)]).unwrap();
        assert_eq!(read(&file), [run(0, 12288), run(1 << 20, 4096)]);
        assert_eq!(read(&folder.path().join("none")), []);
        fs::write(&file, b"odd").unwrap();
        assert_eq!(read(&file), []);
    }

    #[test]
    fn reading_ahead_stays_inside_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let mem = folder.path().join("mem");
        fs::write(&mem, vec![1; 8192]).unwrap();
        let run = |offset, length| MemoryRange { offset, length };
        read_ahead(&mem, &[run(0, u64::MAX), run(u64::MAX, 1)]).unwrap();
        assert!(read_ahead(&folder.path().join("none"), &[]).is_err());
    }
}
