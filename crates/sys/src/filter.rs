//! The system call filter of a jailed program. The program cannot remove it. It refuses calls that
//! no machine needs and that reach deep into the kernel (see `REFUSED`), new namespaces, and all
//! sockets but local ones: some other kinds (`AF_VSOCK`) belong to no network namespace.
//!
//! It can hold `openat` with exactly `O_RDWR` until the [`SeccompListener`] answers. Needs Linux
//! 5.14.
#![allow(unsafe_code)]

use std::{
    io,
    mem::offset_of,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
    time::{Duration, Instant},
};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Whether opens for reading and writing are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenCalls {
    Free,
    /// Held until a [`SeccompListener`] answers with a read-only descriptor.
    Held,
}

/// Receives the calls that the kernel holds.
#[derive(Debug)]
pub struct SeccompListener {
    fd: OwnedFd,
}

impl SeccompListener {
    /// Answers the first held call with a file and stops listening: later calls fail. Returns
    /// `false` if the process ended first.
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
                // The caller cancelled the call in between.
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
                Err(error) => return Err(error),
                Ok(()) => return Ok(true),
            }
        }
    }

    fn answer_one(&self, file: BorrowedFd<'_>) -> io::Result<()> {
        // SAFETY: plain data for which all zeroes is a valid value; the kernel wants it zeroed.
        let mut held: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        // SAFETY: the descriptor is open and the kernel writes one `seccomp_notif`, which `held`
        // is.
        checked(unsafe { libc::ioctl(self.fd.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut held) })?;
        let answer = libc::seccomp_notif_addfd {
            id: held.id,
            flags: libc::SECCOMP_ADDFD_FLAG_SEND as u32,
            srcfd: file.as_raw_fd() as u32,
            newfd: 0,
            newfd_flags: libc::O_CLOEXEC as u32,
        };
        // SAFETY: both descriptors are open and the kernel reads one `seccomp_notif_addfd`, which
        // `answer` is.
        checked(unsafe { libc::ioctl(self.fd.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ADDFD, &raw const answer) })
    }
}

/// A socket pair over which a child sends its listener: our end, and the child's.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
    Ok(socketpair(AddressFamily::Unix, SockType::Stream, None, SockFlag::SOCK_CLOEXEC)?)
}

/// Receives the listener that a child has sent.
pub(crate) fn receive(from: BorrowedFd<'_>) -> io::Result<SeccompListener> {
    let mut byte = 0_u8;
    let mut part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let mut control = DescriptorMessage::default();
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
    Ok(SeccompListener { fd: unsafe { OwnedFd::from_raw_fd(control.fd) } })
}

/// Installs a filter on the calling process, and sends the listener if one is requested.
///
/// # Safety
/// Only for a child that shares our memory: makes system calls only. The filter stays until the
/// process ends.
pub(crate) unsafe fn install(filter: &[libc::sock_filter], listener_to: Option<RawFd>) -> bool {
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    let flags = if listener_to.is_some() { libc::SECCOMP_FILTER_FLAG_NEW_LISTENER } else { 0 };
    // SAFETY: `program` points to `filter`, which lives to the end of this function.
    let listener =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program) };
    let Some(to) = listener_to else { return listener == 0 };
    if listener < 0 {
        return false;
    }
    let mut byte = 0_u8;
    let mut part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let mut control = DescriptorMessage { fd: listener as RawFd, ..DescriptorMessage::default() };
    let message = control.message(&mut part);
    // SAFETY: `message` points to one byte and to `control`, which both outlive the call.
    unsafe { libc::sendmsg(to, &raw const message, libc::MSG_NOSIGNAL) == 1 }
}

/// Calls that are refused with any arguments.
const REFUSED: [libc::c_long; 49] = [
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_kcmp,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_iopl,
    libc::SYS_ioperm,
];

/// Flags of `clone` that make a namespace.
const NAMESPACES: libc::c_int = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;

/// Builds the filter: refusals, and the held open if requested.
pub(crate) fn program(opens: OpenCalls) -> Vec<libc::sock_filter> {
    let load = |at: usize| step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, at as u32);
    let jump = |test: u32, value: u32, skip_if_not: u8| step(libc::BPF_JMP | test | libc::BPF_K, 0, skip_if_not, value);
    let equal = |value: libc::c_long, skip_if_not: u8| jump(libc::BPF_JEQ, value as u32, skip_if_not);
    let answer = |value: u32| step(libc::BPF_RET | libc::BPF_K, 0, 0, value);
    let refuse = |errno: libc::c_int| answer(libc::SECCOMP_RET_ERRNO | errno as u32);
    // Loads the lower half of an argument, which comes first.
    let argument = |number: usize| load(offset_of!(libc::seccomp_data, args) + number * size_of::<u64>());
    let mut steps = vec![
        load(offset_of!(libc::seccomp_data, arch)),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, 0, AUDIT_ARCH_X86_64),
        answer(libc::SECCOMP_RET_KILL_PROCESS),
        load(offset_of!(libc::seccomp_data, nr)),
        jump(libc::BPF_JGE, X32_SYSCALLS, 1),
        refuse(libc::ENOSYS),
    ];
    for call in REFUSED {
        steps.extend([equal(call, 1), refuse(libc::EPERM)]);
    }
    // The flags of `clone3` lie in memory, which a filter cannot read. On ENOSYS the C library
    // falls back to `clone`.
    steps.extend([equal(libc::SYS_clone3, 1), refuse(libc::ENOSYS)]);
    let allow = answer(libc::SECCOMP_RET_ALLOW);
    steps.extend([equal(libc::SYS_clone, 4), argument(0), jump(libc::BPF_JSET, NAMESPACES as u32, 1)]);
    steps.extend([refuse(libc::EPERM), allow]);
    // Only new sockets are refused. Inherited descriptors keep working.
    for call in [libc::SYS_socket, libc::SYS_socketpair] {
        steps.extend([equal(call, 4), argument(0), equal(libc::AF_UNIX.into(), 1), allow]);
        steps.push(refuse(libc::EAFNOSUPPORT));
    }
    if opens == OpenCalls::Held {
        steps.extend([equal(libc::SYS_openat, 3), argument(2), equal(libc::O_RDWR.into(), 1)]);
        steps.push(answer(libc::SECCOMP_RET_USER_NOTIF));
    }
    steps.push(allow);
    steps
}

fn step(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}

// From linux/audit.h. The numbers here are valid for this architecture only.
const AUDIT_ARCH_X86_64: u32 = 0xC000_003E;

/// System calls of the x32 ABI start here. They would bypass the list.
const X32_SYSCALLS: u32 = 0x4000_0000;

/// Control data of a message that carries one descriptor.
#[repr(C)]
struct DescriptorMessage {
    header: libc::cmsghdr,
    fd: RawFd,
    /// Control data is padded to whole words.
    padding: u32,
}

impl Default for DescriptorMessage {
    fn default() -> Self {
        let length = size_of::<libc::cmsghdr>() + size_of::<RawFd>();
        let header = libc::cmsghdr { cmsg_len: length, cmsg_level: libc::SOL_SOCKET, cmsg_type: libc::SCM_RIGHTS };
        Self { header, fd: -1, padding: 0 }
    }
}

impl DescriptorMessage {
    fn message(&mut self, part: &mut libc::iovec) -> libc::msghdr {
        // SAFETY: plain data for which all zeroes is a valid value.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = part;
        message.msg_iovlen = 1;
        message.msg_control = std::ptr::from_mut(self).cast();
        message.msg_controllen = size_of::<DescriptorMessage>();
        message
    }
}

fn checked(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates the filter for a call and returns the kernel's decision.
    fn outcome(opens: OpenCalls, arch: u32, call: u32, arguments: [u64; 6]) -> u32 {
        let steps = program(opens);
        let low = |word: u64| word as u32;
        let high = |word: u64| (word >> 32) as u32;
        let mut data = vec![call, arch, 0, 0];
        data.extend(arguments.iter().flat_map(|word| [low(*word), high(*word)]));
        let (mut at, mut held) = (0, 0_u32);
        loop {
            let libc::sock_filter { code, jt, jf, k } = steps[at];
            let jump = |yes: bool| usize::from(if yes { jt } else { jf });
            at += 1;
            match u32::from(code) {
                code if code == libc::BPF_LD | libc::BPF_W | libc::BPF_ABS => held = data[k as usize / 4],
                code if code == libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K => at += jump(held == k),
                code if code == libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K => at += jump(held >= k),
                code if code == libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K => at += jump(held & k != 0),
                code if code == libc::BPF_RET | libc::BPF_K => return k,
                other => panic!("step {other:#x} is not known here"),
            }
        }
    }

    fn check(call: libc::c_long, arguments: &[u64], expected: u32) {
        let mut all = [0; 6];
        all[..arguments.len()].copy_from_slice(arguments);
        for opens in [OpenCalls::Free, OpenCalls::Held] {
            let got = outcome(opens, AUDIT_ARCH_X86_64, call as u32, all);
            assert_eq!(got, expected, "call {call} with {arguments:?}, opens {opens:?}");
        }
    }

    const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;

    fn refused(errno: libc::c_int) -> u32 {
        libc::SECCOMP_RET_ERRNO | errno as u32
    }

    #[test]
    fn every_call_of_the_list_is_refused_and_others_pass() {
        for call in REFUSED {
            check(call, &[], refused(libc::EPERM));
        }
        for call in [libc::SYS_read, libc::SYS_mmap, libc::SYS_futex, libc::SYS_recvmsg, libc::SYS_exit_group] {
            check(call, &[], ALLOW);
        }
    }

    #[test]
    fn other_sets_of_calls_lead_nowhere() {
        for call in [libc::SYS_read, libc::SYS_unshare, libc::SYS_ptrace] {
            check(call | libc::c_long::from(X32_SYSCALLS), &[], refused(libc::ENOSYS));
            // A 32-bit program, and another architecture.
            for arch in [0x4000_0003, 0xC000_00B7] {
                assert_eq!(outcome(OpenCalls::Free, arch, call as u32, [0; 6]), libc::SECCOMP_RET_KILL_PROCESS);
            }
        }
    }

    #[test]
    fn threads_can_be_made_and_namespaces_not() {
        let thread = libc::CLONE_VM | libc::CLONE_FS | libc::CLONE_FILES | libc::CLONE_SIGHAND | libc::CLONE_THREAD;
        check(libc::SYS_clone, &[thread as u64], ALLOW);
        for bit in (0..31).map(|bit| 1 << bit).filter(|bit| NAMESPACES & bit != 0) {
            check(libc::SYS_clone, &[(thread | bit) as u64], refused(libc::EPERM));
        }
        check(libc::SYS_clone, &[libc::CLONE_NEWUSER as u64 | 0xff << 32], refused(libc::EPERM));
        check(libc::SYS_clone3, &[], refused(libc::ENOSYS));
    }

    #[test]
    fn sockets_are_local_ones() {
        for call in [libc::SYS_socket, libc::SYS_socketpair] {
            check(call, &[libc::AF_UNIX as u64], ALLOW);
            for family in (0..=64).filter(|family| *family != libc::AF_UNIX) {
                check(call, &[family as u64], refused(libc::EAFNOSUPPORT));
            }
        }
    }

    #[test]
    fn only_an_open_for_reading_and_writing_is_held() {
        let open = |flags: libc::c_int| {
            outcome(OpenCalls::Held, AUDIT_ARCH_X86_64, libc::SYS_openat as u32, [0, 0, flags as u64, 0, 0, 0])
        };
        assert_eq!(open(libc::O_RDWR), libc::SECCOMP_RET_USER_NOTIF);
        for flags in [libc::O_RDONLY, libc::O_WRONLY, libc::O_RDWR | libc::O_CLOEXEC] {
            assert_eq!(open(flags), ALLOW);
        }
        check(libc::SYS_openat, &[0, 0, libc::O_RDONLY as u64], ALLOW);
    }
}
