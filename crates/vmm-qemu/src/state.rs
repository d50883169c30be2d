//! The device state that a machine's process writes during a seal. The process writes to a memory
//! buffer, never to the layer's file: a process that its guest has compromised could keep the file
//! open, and change or fill it later.

use std::{
    fs::File,
    io::{self, Read},
    os::fd::AsRawFd,
    path::Path,
};

use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::limits::DEVICE_STATE_BYTES_MAX;

/// Memory for a process's device state. It counts against that process's limit.
pub struct StateBuffer(File);

impl StateBuffer {
    /// Makes an empty buffer, and the write-only end for the process, as QEMU requires.
    pub fn make() -> io::Result<(Self, File)> {
        let buffer = File::from(memfd_create("device-state", MFdFlags::MFD_CLOEXEC)?);
        let lent = File::options().write(true).open(format!("/proc/self/fd/{}", buffer.as_raw_fd()))?;
        Ok((Self(buffer), lent))
    }

    /// Copies the written state to a new file.
    pub fn keep(mut self, to: &Path) -> io::Result<()> {
        let length = self.0.metadata()?.len();
        check_length(length)?;
        // The process may still be writing. Only the bytes present now are copied.
        let copied = io::copy(&mut Read::by_ref(&mut self.0).take(length), &mut File::create(to)?)?;
        match copied == length {
            true => Ok(()),
            false => Err(io::Error::other("the device state was truncated while it was copied")),
        }
    }
}

/// Rejects a device state that is too large.
pub fn check_length(length: u64) -> io::Result<()> {
    match length <= DEVICE_STATE_BYTES_MAX {
        true => Ok(()),
        false => {
            let text = format!("the device state has {length} bytes; at most {DEVICE_STATE_BYTES_MAX} are allowed");
            Err(io::Error::new(io::ErrorKind::FileTooLarge, text))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write};

    use super::*;

    #[test]
    fn a_state_is_kept_as_it_was_when_the_machine_answered() {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("dev");
        let (buffer, mut lent) = StateBuffer::make().unwrap();
        lent.write_all(b"devices").unwrap();
        buffer.keep(&to).unwrap();
        // A process that keeps the file cannot change the layer any more.
        lent.write_all(b" and more").unwrap();
        assert_eq!(fs::read(&to).unwrap(), b"devices");
        assert!((&lent).read(&mut [0]).is_err(), "it is lent for writing only");
    }

    #[test]
    fn a_state_that_is_too_large_does_not_reach_the_layer() {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("dev");
        let (buffer, lent) = StateBuffer::make().unwrap();
        lent.set_len(DEVICE_STATE_BYTES_MAX + 1).unwrap();
        let error = buffer.keep(&to).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert!(!to.exists());
    }
}
