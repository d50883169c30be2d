//! Starts a program in a jail: its own root, processes, network, user and limits, and no other
//! rights. As in `process`, the child shares our memory until it runs the program, so nothing is
//! copied. Knows no machine: files arrive as descriptors, the root and its mounts come from
//! `mounts`.
//!
//! ```text
//! clone (new pids, ipc, host name) -> control groups -> network -> copy of the root + mounts -> descriptors
//!   -> no capabilities, own user, nothing regained -> filter -> program
//! ```
#![allow(unsafe_code)]

use std::{
    ffi::{CStr, CString, c_char, c_int, c_void},
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
    ptr,
};

use crate::{
    filter::{self, OpenCalls, SeccompListener},
    mounts::{MountNamespace, MountTree, put},
    pidfd::Pidfd,
};

/// Stack of the child until it runs the program. The child only makes system calls.
const STACK_BYTES: usize = 64 * 1024;

/// Exit status of a child that could not run the program. The caller gets the error instead.
const EXIT_UNSTARTED: c_int = 127;

/// More than the number of capabilities. The kernel refuses the first that does not exist.
const CAPABILITIES_MAX: c_int = 64;

/// The host name in every jail.
const HOSTNAME: &CStr = c"machine";

/// A program to start, and its limits.
#[derive(Debug)]
pub struct JailLaunch<'a> {
    /// Path inside the jail.
    pub program: &'a CStr,
    pub argv: &'a [CString],
    pub env: &'a [CString],
    /// All descriptors that the program inherits. The first becomes standard input, and so on.
    pub descriptors: &'a [BorrowedFd<'a>],
    pub netns: BorrowedFd<'a>,
    /// The `cgroup.procs` of each control group to enter.
    pub groups: &'a [BorrowedFd<'a>],
    /// Longest file that the program may write, in bytes.
    pub file_bytes_max: u64,
    /// Without a cell only the network and the control groups are separate.
    pub cell: Option<Confinement<'a>>,
}

/// Root, mounts and user of a jailed program.
#[derive(Debug)]
pub struct Confinement<'a> {
    pub root: &'a MountNamespace,
    /// Trees, and the places in the root where they are mounted.
    pub mounts: &'a [(MountTree, CString)],
    /// User id, and also the group id.
    pub user: u32,
    /// Whether opens for reading and writing are held, to be answered through
    /// [`JailedProcess::opens`].
    pub opens: OpenCalls,
}

/// A started program. The caller reaps it.
#[derive(Debug)]
pub struct JailedProcess {
    /// Process id in the host's namespace.
    pub pid: u32,
    pub handle: Pidfd,
    pub opens: Option<SeccompListener>,
}

/// The step of the child that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JailStep {
    Session,
    Groups,
    Network,
    Root,
    Mounts,
    Hostname,
    Descriptors,
    Limits,
    Capabilities,
    User,
    Privileges,
    Filter,
    Program,
}

/// A program that did not start. No process is left.
#[derive(Debug, thiserror::Error)]
pub enum JailError {
    #[error("create a process")]
    Clone(#[source] io::Error),
    #[error("prepare the process ({step:?})")]
    Child { step: JailStep, cause: io::Error },
}

/// The child's input, in forms that need no allocation.
struct ChildInput<'a> {
    program: *const c_char,
    argv: *const *const c_char,
    env: *const *const c_char,
    /// Numbered above all descriptors that the program inherits.
    descriptors: &'a [OwnedFd],
    netns: RawFd,
    groups: &'a [BorrowedFd<'a>],
    file_bytes_max: u64,
    cell: Option<&'a Confinement<'a>>,
    filter: &'a [libc::sock_filter],
    opens: Option<RawFd>,
    /// Limit on open descriptors. `None` keeps ours.
    open_files: Option<libc::rlimit>,
    /// Written by the child. The parent reads it when the child no longer shares our memory.
    failed: Option<(JailStep, c_int)>,
}

/// Starts a program and returns when the child runs it.
pub fn launch(launch: &JailLaunch<'_>) -> Result<JailedProcess, JailError> {
    let argv = pointers(launch.argv);
    let env = pointers(launch.env);
    let above = launch.descriptors.len() as c_int;
    let lift = |fd: &BorrowedFd<'_>| lift(*fd, above).map_err(JailError::Clone);
    let descriptors = launch.descriptors.iter().map(lift).collect::<Result<Vec<_>, _>>()?;
    let held = launch.cell.as_ref().is_some_and(|cell| cell.opens == OpenCalls::Held);
    let sockets = held.then(filter::pair).transpose().map_err(JailError::Clone)?;
    let theirs = sockets.as_ref().map(|(_, theirs)| lift(&theirs.as_fd())).transpose()?;
    let filter = launch.cell.as_ref().map(|cell| filter::program(cell.opens)).unwrap_or_default();
    let mut order = ChildInput {
        program: launch.program.as_ptr(),
        argv: argv.as_ptr(),
        env: env.as_ptr(),
        descriptors: &descriptors,
        netns: launch.netns.as_raw_fd(),
        groups: launch.groups,
        file_bytes_max: launch.file_bytes_max,
        cell: launch.cell.as_ref(),
        filter: &filter,
        opens: theirs.as_ref().map(AsRawFd::as_raw_fd),
        open_files: crate::descriptors::for_programs(),
        failed: None,
    };
    let (pid, handle) = clone_and_wait(&mut order).map_err(JailError::Clone)?;
    if let Some((step, errno)) = order.failed {
        // The child has ended, or is about to.
        // SAFETY: plain system call; the child is ours to reap.
        unsafe { libc::waitpid(pid, ptr::null_mut(), 0) };
        return Err(JailError::Child { step, cause: io::Error::from_raw_os_error(errno) });
    }
    let opens = sockets.map(|(ours, _)| filter::receive(ours.as_fd())).transpose();
    let opens = opens.map_err(|cause| {
        let _ = handle.kill();
        // SAFETY: as above.
        unsafe { libc::waitpid(pid, ptr::null_mut(), 0) };
        JailError::Child { step: JailStep::Filter, cause }
    })?;
    Ok(JailedProcess { pid: pid as u32, handle, opens })
}

fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
}

/// Duplicates a descriptor to a number above those that the program inherits.
fn lift(fd: BorrowedFd<'_>, above: c_int) -> io::Result<OwnedFd> {
    // SAFETY: the descriptor is open; the answer is a new one or an error.
    let lifted = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, above) };
    if lifted < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned this descriptor, and no other code holds it.
    Ok(unsafe { OwnedFd::from_raw_fd(lifted) })
}

/// Runs [`child`] in a new process that shares our memory. Blocks until it runs the program or
/// ends.
fn clone_and_wait(order: &mut ChildInput<'_>) -> io::Result<(c_int, Pidfd)> {
    let mut flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD;
    if order.cell.is_some() {
        flags |= libc::CLONE_NEWPID | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;
    }
    let mut stack: Vec<u8> = Vec::with_capacity(STACK_BYTES);
    let mut handle: c_int = -1;
    // SAFETY: one comment for the whole block, because it is one operation.
    // - `stack` outlives the child's use of it: CLONE_VFORK blocks us until the child calls execve
    //   or _exit.
    // - its top is aligned to 16 bytes and inside the allocation.
    // - `order` and everything it points to stay valid and unused meanwhile, for the same reason.
    // - signals are blocked, so no handler of ours can run in the child on our memory; handlers are
    //   reset by execve, and the child unblocks only right before it.
    // - `handle` receives the new descriptor of CLONE_PIDFD, which no other code holds.
    unsafe {
        let top = stack.as_mut_ptr().add(STACK_BYTES);
        let top = top.sub(top as usize % 16);
        let mut every = std::mem::zeroed::<libc::sigset_t>();
        let mut before = std::mem::zeroed::<libc::sigset_t>();
        libc::sigfillset(&mut every);
        libc::pthread_sigmask(libc::SIG_BLOCK, &every, &mut before);
        let argument = ptr::from_mut(order).cast::<c_void>();
        let pid = libc::clone(child, top.cast::<c_void>(), flags, argument, &raw mut handle);
        let error = io::Error::last_os_error();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, ptr::null_mut());
        if pid < 0 { Err(error) } else { Ok((pid, Pidfd::from_fd(OwnedFd::from_raw_fd(handle)))) }
    }
}

/// Runs in the child before the program: system calls only, no allocation, no lock, no return.
extern "C" fn child(order: *mut c_void) -> c_int {
    // SAFETY: `clone_and_wait` passes a live, exclusive `ChildInput` and waits until the child is
    // done with it.
    let order = unsafe { &mut *order.cast::<ChildInput<'_>>() };
    // SAFETY: see `become_program`; `order` holds valid pointers.
    let step = unsafe { become_program(order) };
    order.failed = Some((step, io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL)));
    // SAFETY: ends only the child; runs no handlers and flushes no buffers that belong to the
    // parent.
    unsafe { libc::_exit(EXIT_UNSTARTED) }
}

/// Returns only if something failed; `errno` says why.
///
/// # Safety
/// Pointers in `order` must be valid, null-terminated where they are lists, and the caller must be
/// the child of a CLONE_VFORK. Users are changed by raw system calls, because the C library's
/// wrappers would signal the other threads of the parent, whose memory this still is.
unsafe fn become_program(order: &ChildInput<'_>) -> JailStep {
    unsafe {
        // A session of its own, so Ctrl-C in our terminal does not reach it.
        if libc::setsid() < 0 {
            return JailStep::Session;
        }
        for group in order.groups {
            // Zero means the writing process, in any process namespace.
            if libc::write(group.as_raw_fd(), c"0".as_ptr().cast(), 1) != 1 {
                return JailStep::Groups;
            }
        }
        if libc::setns(order.netns, libc::CLONE_NEWNET) < 0 {
            return JailStep::Network;
        }
        if let Some(cell) = order.cell
            && let Err(step) = enter(cell)
        {
            return step;
        }
        for (target, source) in order.descriptors.iter().enumerate() {
            if libc::dup2(source.as_raw_fd(), target as c_int) < 0 {
                return JailStep::Descriptors;
            }
        }
        let (above, cloexec) = (order.descriptors.len(), libc::CLOSE_RANGE_CLOEXEC);
        if libc::syscall(libc::SYS_close_range, above, libc::c_uint::MAX, cloexec) < 0 {
            return JailStep::Descriptors;
        }
        let longest = libc::rlimit { rlim_cur: order.file_bytes_max, rlim_max: order.file_bytes_max };
        if libc::setrlimit(libc::RLIMIT_FSIZE, &raw const longest) < 0 {
            return JailStep::Limits;
        }
        if let Some(limit) = &order.open_files
            && libc::setrlimit(libc::RLIMIT_NOFILE, ptr::from_ref(limit)) < 0
        {
            return JailStep::Limits;
        }
        if let Some(cell) = order.cell
            && let Err(step) = give_up_rights(cell.user)
        {
            return step;
        }
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        let mut none = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, ptr::null_mut());
        if !order.filter.is_empty() && !filter::install(order.filter, order.opens) {
            return JailStep::Filter;
        }
        libc::execve(order.program, order.argv, order.env);
        JailStep::Program
    }
}

/// Enters the root and mounts the trees over its places.
///
/// # Safety
/// As [`become_program`].
unsafe fn enter(cell: &Confinement<'_>) -> Result<(), JailStep> {
    unsafe {
        // Enters the shared root, then makes a private copy of it.
        if libc::setns(cell.root.as_fd().as_raw_fd(), libc::CLONE_NEWNS) < 0 || libc::unshare(libc::CLONE_NEWNS) < 0 {
            return Err(JailStep::Root);
        }
        for (tree, at) in cell.mounts {
            if !put(tree.as_fd().as_raw_fd(), at.as_ptr()) {
                return Err(JailStep::Mounts);
            }
        }
        let length = HOSTNAME.to_bytes().len();
        if libc::sethostname(HOSTNAME.as_ptr(), length) < 0
            || libc::syscall(libc::SYS_setdomainname, c"".as_ptr(), 0) < 0
        {
            return Err(JailStep::Hostname);
        }
    }
    Ok(())
}

/// Switches to an ordinary user that cannot regain rights.
///
/// # Safety
/// As [`become_program`].
unsafe fn give_up_rights(user: u32) -> Result<(), JailStep> {
    unsafe {
        // A core dump would write the guest's memory to the host's disk.
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        if libc::setrlimit(libc::RLIMIT_CORE, &raw const none) < 0 {
            return Err(JailStep::Limits);
        }
        for capability in 0..CAPABILITIES_MAX {
            if libc::prctl(libc::PR_CAPBSET_DROP, capability as libc::c_ulong, 0, 0, 0) < 0 {
                match *libc::__errno_location() {
                    libc::EINVAL if capability > 0 => break,
                    _ => return Err(JailStep::Capabilities),
                }
            }
        }
        if libc::syscall(libc::SYS_setgroups, 0, ptr::null::<u32>()) < 0
            || libc::syscall(libc::SYS_setresgid, user, user, user) < 0
            || libc::syscall(libc::SYS_setresuid, user, user, user) < 0
        {
            return Err(JailStep::User);
        }
        // Leaving user 0 has cleared the effective and permitted sets. This clears the inheritable
        // set.
        let header = CapabilityHeader { version: LINUX_CAPABILITY_VERSION_3, pid: 0 };
        let empty = [[0_u32; 3]; 2];
        if libc::syscall(libc::SYS_capset, &raw const header, &raw const empty) < 0 {
            return Err(JailStep::Capabilities);
        }
        if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 {
            return Err(JailStep::Privileges);
        }
    }
    Ok(())
}

// From linux/capability.h.
const LINUX_CAPABILITY_VERSION_3: u32 = 0x2008_0522;

#[repr(C)]
struct CapabilityHeader {
    version: u32,
    pid: c_int,
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    /// Runs a shell line with a file as standard output, and returns the file's length.
    fn written(line: &str, file_bytes_max: u64) -> u64 {
        let (null, output) = (File::open("/dev/null").unwrap(), tempfile::tempfile().unwrap());
        let netns = File::open("/proc/self/ns/net").unwrap();
        let jailed = launch(&JailLaunch {
            program: c"/bin/sh",
            argv: &["sh", "-c", line].map(|word| CString::new(word).unwrap()),
            env: &[],
            descriptors: &[null.as_fd(), output.as_fd(), null.as_fd()],
            netns: netns.as_fd(),
            groups: &[],
            file_bytes_max,
            cell: None,
        })
        .unwrap();
        // SAFETY: reaps our own child.
        unsafe { libc::waitpid(jailed.pid as c_int, ptr::null_mut(), 0) };
        output.metadata().unwrap().len()
    }

    #[test]
    fn a_program_writes_no_longer_file_than_it_may() {
        assert_eq!(written("exec head -c 3000000 /dev/zero", 1 << 20), 1 << 20);
        assert_eq!(written("exec head -c 3000000 /dev/zero", 4 << 20), 3_000_000);
    }
}
