//! Answers one kind of `open` of another process with a file of our choice: a program that insists on opening a file for
//! writing, although it never writes, gets a read-only descriptor. The kernel holds the call (a seccomp filter with a
//! listener) until we have answered it. Needs Linux 5.14.
//!
//! Only calls with exactly the flags `O_RDWR` are held, all others go through. When the [`Listener`] is gone they fail.
#![allow(unsafe_code)]

use std::{
    io,
    mem::offset_of,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
    time::{Duration, Instant},
};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Hears of the calls that the kernel holds for us.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
}

impl Listener {
    /// Answers the first held call with a file, and hears no more: later ones fail. `false` if the process ended first.
    pub fn answer_with(self, file: BorrowedFd<'_>, patience: Duration) -> io::Result<bool> {
        let deadline = Instant::now() + patience;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let mut wanted = [PollFd::new(self.fd.as_fd(), PollFlags::POLLIN)];
            let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
            match poll(&mut wanted, timeout) {
                Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
                Ok(_) => {}
                Err(nix::errno::Errno::EINTR) => continue,
                Err(error) => return Err(error.into()),
            }
            if !wanted[0].revents().is_some_and(|events| events.contains(PollFlags::POLLIN)) {
                return Ok(false);
            }
            match self.answer_one(file) {
                // The call was given up in between.
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
                Err(error) => return Err(error),
                Ok(()) => return Ok(true),
            }
        }
    }

    fn answer_one(&self, file: BorrowedFd<'_>) -> io::Result<()> {
        // SAFETY: plain data for which all zeroes is a valid value; the kernel wants it zeroed.
        let mut held: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        // SAFETY: the descriptor is open and the kernel writes one `seccomp_notif`, which `held` is.
        checked(unsafe { libc::ioctl(self.fd.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut held) })?;
        let answer = libc::seccomp_notif_addfd {
            id: held.id,
            flags: libc::SECCOMP_ADDFD_FLAG_SEND as u32,
            srcfd: file.as_raw_fd() as u32,
            newfd: 0,
            newfd_flags: libc::O_CLOEXEC as u32,
        };
        // SAFETY: both descriptors are open and the kernel reads one `seccomp_notif_addfd`, which `answer` is.
        checked(unsafe { libc::ioctl(self.fd.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ADDFD, &raw const answer) })
    }
}

/// A pair of sockets over which a child hands us its listener: ours, and the child's.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
    Ok(socketpair(AddressFamily::Unix, SockType::Stream, None, SockFlag::SOCK_CLOEXEC)?)
}

/// Takes the listener that a child has sent.
pub(crate) fn receive(from: BorrowedFd<'_>) -> io::Result<Listener> {
    let mut byte = 0_u8;
    let mut part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let mut control = Control::default();
    let mut message = control.message(&mut part);
    // SAFETY: `message` points to one byte and to `control`, which both outlive the call.
    let got = unsafe { libc::recvmsg(from.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) };
    if got < 0 {
        return Err(io::Error::last_os_error());
    }
    if got == 0 || control.header.cmsg_type != libc::SCM_RIGHTS {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(Listener { fd: unsafe { OwnedFd::from_raw_fd(control.fd) } })
}

/// Installs the filter on the calling process and sends the listener away.
///
/// # Safety
/// For a borrowed child only: makes nothing but system calls. The filter stays for the life of the process.
pub(crate) unsafe fn install(to: RawFd) -> bool {
    let filter = filter();
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    // SAFETY: `program` points to `filter`, which lives to the end of this function.
    let listener =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program) };
    if listener < 0 {
        return false;
    }
    let mut byte = 0_u8;
    let mut part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let mut control = Control { fd: listener as RawFd, ..Control::default() };
    let message = control.message(&mut part);
    // SAFETY: `message` points to one byte and to `control`, which both outlive the call.
    unsafe { libc::sendmsg(to, &raw const message, libc::MSG_NOSIGNAL) == 1 }
}

/// Holds `openat(…, O_RDWR)`, lets everything else through.
fn filter() -> [libc::sock_filter; 8] {
    let load = |at: usize| step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, at as u32);
    let equal = |value: u32, skip_if_not: u8| step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, skip_if_not, value);
    let answer = |value: u32| step(libc::BPF_RET | libc::BPF_K, 0, 0, value);
    let flags = offset_of!(libc::seccomp_data, args) + 2 * size_of::<u64>();
    [
        load(offset_of!(libc::seccomp_data, arch)),
        equal(AUDIT_ARCH_X86_64, 5),
        load(offset_of!(libc::seccomp_data, nr)),
        equal(libc::SYS_openat as u32, 3),
        load(flags),
        equal(libc::O_RDWR as u32, 1),
        answer(libc::SECCOMP_RET_USER_NOTIF),
        answer(libc::SECCOMP_RET_ALLOW),
    ]
}

fn step(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}

// From linux/audit.h.
const AUDIT_ARCH_X86_64: u32 = 0xC000_003E;

/// Control data of a message that carries one descriptor.
#[repr(C)]
struct Control {
    header: libc::cmsghdr,
    fd: RawFd,
    /// Control data is counted in whole words.
    padding: u32,
}

impl Default for Control {
    fn default() -> Self {
        let length = size_of::<libc::cmsghdr>() + size_of::<RawFd>();
        let header = libc::cmsghdr { cmsg_len: length, cmsg_level: libc::SOL_SOCKET, cmsg_type: libc::SCM_RIGHTS };
        Self { header, fd: -1, padding: 0 }
    }
}

impl Control {
    fn message(&mut self, part: &mut libc::iovec) -> libc::msghdr {
        // SAFETY: plain data for which all zeroes is a valid value.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = part;
        message.msg_iovlen = 1;
        message.msg_control = std::ptr::from_mut(self).cast();
        message.msg_controllen = size_of::<Control>();
        message
    }
}

fn checked(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
