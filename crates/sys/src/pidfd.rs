//! A handle on one process. Unlike a process id, it never refers to another process later.
#![allow(unsafe_code)]

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
    ptr,
};

/// A process, running or ended. The descriptor is readable for `poll` when the process has ended.
#[derive(Debug)]
pub struct Pidfd {
    fd: OwnedFd,
}

/// How a child process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildExit {
    Status(i32),
    Signal(i32),
}

impl Pidfd {
    /// Opens the process that currently has this id.
    pub fn open(pid: u32) -> io::Result<Pidfd> {
        // SAFETY: plain system call without pointers; the answer is a new descriptor or an error.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just returned this descriptor, and no other code holds it.
        Ok(Pidfd { fd: unsafe { OwnedFd::from_raw_fd(fd as RawFd) } })
    }

    pub(crate) fn from_fd(fd: OwnedFd) -> Pidfd {
        Pidfd { fd }
    }

    /// Kills the process. Succeeds if it has ended already.
    pub fn kill(&self) -> io::Result<()> {
        let none = ptr::null::<libc::siginfo_t>();
        // SAFETY: plain system call; without a `siginfo_t` the kernel makes its own.
        let result = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, self.fd.as_raw_fd(), libc::SIGKILL, none, 0) };
        if result == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() == Some(libc::ESRCH) { Ok(()) } else { Err(error) }
    }

    /// Takes the exit status of a child that has ended. `None` while it runs. Fails for processes
    /// that are not our children.
    pub fn reap(&self) -> io::Result<Option<ChildExit>> {
        // SAFETY: all zeroes is a valid `siginfo_t`.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let id = self.fd.as_raw_fd() as libc::id_t;
        // SAFETY: `info` is a valid place for the kernel to write to.
        if unsafe { libc::waitid(libc::P_PIDFD, id, &raw mut info, libc::WEXITED | libc::WNOHANG) } < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: after a successful `waitid` these fields are filled in, or zero if nothing has
        // ended.
        let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
        Ok((pid != 0).then_some(match info.si_code {
            libc::CLD_EXITED => ChildExit::Status(status),
            _ => ChildExit::Signal(status),
        }))
    }
}

impl AsFd for Pidfd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Pidfd {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::{process::Command, time::Duration};

    use super::*;

    #[test]
    #[expect(clippy::zombie_processes, reason = "reaped through the handle, which is what is tested")]
    fn a_killed_child_tells_so_once() {
        let child = Command::new("sleep").arg("60").spawn().unwrap();
        let handle = Pidfd::open(child.id()).unwrap();
        assert_eq!(handle.reap().unwrap(), None);
        handle.kill().unwrap();
        let mut poll = [nix::poll::PollFd::new(handle.as_fd(), nix::poll::PollFlags::POLLIN)];
        let patience = nix::poll::PollTimeout::try_from(Duration::from_secs(60)).unwrap();
        assert_eq!(nix::poll::poll(&mut poll, patience).unwrap(), 1);
        assert_eq!(handle.reap().unwrap(), Some(ChildExit::Signal(libc::SIGKILL)));
        assert!(handle.reap().is_err(), "it is no child of ours any more");
        handle.kill().unwrap();
    }
}
