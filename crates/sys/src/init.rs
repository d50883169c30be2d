//! System calls for the guest's first process: kernel modules, power, freezing and growing file
//! systems.
#![allow(unsafe_code)]

use std::{
    fs::File,
    io,
    os::fd::{AsRawFd, BorrowedFd},
};

// From linux/fs.h: _IOWR('X', 119, int) and _IOWR('X', 120, int).
const FIFREEZE: libc::Ioctl = 0xC004_5877_u32 as libc::Ioctl;
const FITHAW: libc::Ioctl = 0xC004_5878_u32 as libc::Ioctl;
// From linux/ext4.h: _IOW('f', 16, __u64).
const EXT4_IOC_RESIZE_FS: libc::Ioctl = 0x4008_6610;

/// The highest precedence of an ordinary thread.
const NICE_FIRST: libc::c_int = -20;

/// Loads a kernel module from an uncompressed file. Succeeds if it is loaded already.
pub fn load_module(file: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open and the parameter string is a valid C string.
    let result = unsafe { libc::syscall(libc::SYS_finit_module, file.as_raw_fd(), c"".as_ptr(), 0) };
    if result == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::EEXIST) { Ok(()) } else { Err(error) }
}

/// Restarts the machine at once, without flushing anything. Returns only on failure.
pub fn restart() -> io::Error {
    // SAFETY: plain system call without pointers.
    unsafe { libc::reboot(libc::RB_AUTOBOOT) };
    io::Error::last_os_error()
}

/// Lets the calling thread run before ordinary ones. The processes and threads that it starts are
/// ordinary again.
pub fn run_first() -> io::Result<()> {
    let usual = libc::sched_param { sched_priority: 0 };
    // SAFETY: plain system calls; `usual` is read only.
    let told = unsafe {
        libc::setpriority(libc::PRIO_PROCESS, 0, NICE_FIRST) < 0
            || libc::sched_setscheduler(0, libc::SCHED_OTHER | libc::SCHED_RESET_ON_FORK, &raw const usual) < 0
    };
    if told { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Flushes a file system and stops writes to it until [`thaw`]. Succeeds if it is frozen already.
pub fn freeze(root: BorrowedFd<'_>) -> io::Result<()> {
    control(root, FIFREEZE, libc::EBUSY)
}

/// Allows writes again. Succeeds if the file system is not frozen.
pub fn thaw(root: BorrowedFd<'_>) -> io::Result<()> {
    control(root, FITHAW, libc::EINVAL)
}

/// Grows a mounted ext4 file system to a number of blocks. Succeeds if it is that large already.
pub fn grow_ext4(root: BorrowedFd<'_>, blocks: u64) -> io::Result<()> {
    // SAFETY: the request reads one 64-bit number, which `blocks` is and stays for the whole call.
    let result = unsafe { libc::ioctl(root.as_raw_fd(), EXT4_IOC_RESIZE_FS, &raw const blocks) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn control(root: BorrowedFd<'_>, request: libc::Ioctl, already: libc::c_int) -> io::Result<()> {
    // SAFETY: both requests ignore their argument.
    if unsafe { libc::ioctl(root.as_raw_fd(), request, 0) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(already) { Ok(()) } else { Err(error) }
}
