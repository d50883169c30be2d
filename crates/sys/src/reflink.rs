//! File copies that share blocks if the file system supports it, and sparse copies otherwise.
#![allow(unsafe_code)]

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
    os::fd::AsRawFd,
    path::Path,
};

use nix::unistd::{Whence, lseek64};

mod ioctl {
    nix::ioctl_write_int!(ficlone, 0x94, 9);
}

/// How a copy was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyMethod {
    /// Blocks are shared until one side writes.
    Shared,
    /// Every block with data was copied.
    Whole,
}

/// Makes `to` share all blocks of `from`. `to` must not exist.
pub fn clone_file(from: &Path, to: &Path) -> io::Result<()> {
    share(&File::open(from)?, &File::create_new(to)?)
}

fn share(source: &File, target: &File) -> io::Result<()> {
    // SAFETY: FICLONE takes the source descriptor as its plain integer argument; both descriptors
    // are open for the call.
    unsafe { ioctl::ficlone(target.as_raw_fd(), source.as_raw_fd() as nix::sys::ioctl::ioctl_param_type) }?;
    Ok(())
}

/// Tests whether files in a folder can share blocks.
pub fn supports_clone(folder: &Path) -> bool {
    let source = folder.join(format!(".reflink-{}-a", std::process::id()));
    let target = folder.join(format!(".reflink-{}-b", std::process::id()));
    let tried = std::fs::write(&source, [1; 4096]).and_then(|()| clone_file(&source, &target));
    let _ = std::fs::remove_file(&source);
    let _ = std::fs::remove_file(&target);
    tried.is_ok()
}

/// Shares blocks if possible. Otherwise copies the data and keeps the holes. `to` must not exist.
pub fn clone_or_copy(from: &Path, to: &Path) -> io::Result<CopyMethod> {
    fill(&File::open(from)?, &File::create_new(to)?)
}

/// Copies a file into an existing one, which other processes may have open. The target must be
/// empty or all holes, and no longer than the source.
pub fn clone_or_copy_into(from: &Path, to: &Path) -> io::Result<CopyMethod> {
    fill(&File::open(from)?, &File::options().write(true).open(to)?)
}

fn fill(source: &File, target: &File) -> io::Result<CopyMethod> {
    match share(source, target) {
        Ok(()) => Ok(CopyMethod::Shared),
        Err(error)
            if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EXDEV | libc::EINVAL | libc::ENOTTY)) =>
        {
            copy_sparse(source, target).map(|()| CopyMethod::Whole)
        }
        Err(error) => Err(error),
    }
}

fn copy_sparse(mut source: &File, mut target: &File) -> io::Result<()> {
    let length = source.metadata()?.len();
    target.set_len(length)?;
    for (start, end) in data_extents(source, length)? {
        source.seek(SeekFrom::Start(start))?;
        target.seek(SeekFrom::Start(start))?;
        io::copy(&mut source.take(end - start), &mut target)?;
    }
    target.flush()
}

/// Lists the ranges of a file that contain data, in order.
pub fn data_extents(file: &File, length: u64) -> io::Result<Vec<(u64, u64)>> {
    let mut extents = Vec::new();
    let mut at = 0;
    while at < length {
        let start = match lseek64(file, at as i64, Whence::SeekData) {
            Ok(start) => start as u64,
            Err(nix::errno::Errno::ENXIO) => break,
            Err(error) => return Err(error.into()),
        };
        let end = (lseek64(file, start as i64, Whence::SeekHole)? as u64).min(length);
        extents.push((start, end));
        at = end;
    }
    Ok(extents)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_the_same_bytes_and_keeps_its_holes() {
        let folder = std::env::temp_dir().join(format!("reflink-test-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (from, to) = (folder.join("a"), folder.join("b"));
        let mut file = File::create(&from).unwrap();
        file.set_len(8 << 20).unwrap();
        file.seek(SeekFrom::Start(4 << 20)).unwrap();
        file.write_all(b"middle").unwrap();
        clone_or_copy(&from, &to).unwrap();
        assert_eq!(std::fs::read(&from).unwrap(), std::fs::read(&to).unwrap());
        use std::os::unix::fs::MetadataExt;
        assert!(std::fs::metadata(&to).unwrap().blocks() * 512 < 1 << 20);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
