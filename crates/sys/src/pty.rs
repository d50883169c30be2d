//! Terminal pairs: a master for the caller, a slave for a process.
#![allow(unsafe_code)]

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
};

/// Size of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PtySize {
    pub rows: u16,
    pub cols: u16,
}

/// Both ends of a terminal, close-on-exec. The master is nonblocking.
#[derive(Debug)]
pub struct PtyPair {
    pub master: OwnedFd,
    pub slave: OwnedFd,
}

/// Makes a terminal of the given size.
pub fn open(size: PtySize) -> io::Result<PtyPair> {
    // SAFETY: plain system call; a non-negative result is a new descriptor that nothing else owns.
    let master = unsafe {
        let fd = libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC | libc::O_NONBLOCK);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        OwnedFd::from_raw_fd(fd)
    };
    let unlock: libc::c_int = 0;
    // SAFETY: TIOCSPTLCK reads one int from the place given, which is one.
    if unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCSPTLCK, &unlock) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: TIOCGPTPEER takes open flags by value and gives a new descriptor that nothing else
    // owns.
    let slave = unsafe {
        let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
        let fd = libc::ioctl(master.as_raw_fd(), libc::TIOCGPTPEER, flags);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        OwnedFd::from_raw_fd(fd)
    };
    let pair = PtyPair { master, slave };
    resize(std::os::fd::AsFd::as_fd(&pair.master), size)?;
    Ok(pair)
}

/// Changes the size. The foreground process gets `SIGWINCH`.
pub fn resize(master: BorrowedFd<'_>, size: PtySize) -> io::Result<()> {
    let size = libc::winsize { ws_row: size.rows, ws_col: size.cols, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: TIOCSWINSZ reads one winsize from the place given, which is one.
    if unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCSWINSZ, &size) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
