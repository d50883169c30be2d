//! Starts processes cheaply: the child shares our memory until it runs the new program (as with
//! `vfork`), so nothing is copied however large the caller is. Knows no sandbox. Users and paths
//! arrive resolved.
#![allow(unsafe_code)]

use std::{
    ffi::{CStr, CString, c_char, c_int, c_void},
    io,
    os::fd::{AsRawFd, BorrowedFd, RawFd},
    ptr,
};

/// Stack of the child until it runs the new program. It only makes system calls, so this is enough.
const STACK_BYTES: usize = 64 * 1024;

/// Exit status of a child that could not run the program. The caller gets the error instead.
const EXIT_UNSTARTED: c_int = 127;

/// A process to start. The child gets its own session and process group, no blocked signals and
/// default `SIGPIPE`.
#[derive(Debug)]
pub struct ChildSpec<'a> {
    /// Paths to try in order. The first that can be executed is used.
    pub programs: &'a [CString],
    pub argv: &'a [CString],
    pub env: &'a [CString],
    pub cwd: Option<&'a CStr>,
    /// If absent, the child keeps the caller's credentials.
    pub credentials: Option<&'a ProcessCredentials>,
    pub stdio: Stdio<'a>,
}

/// User and groups of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessCredentials {
    pub user: u32,
    pub group: u32,
    pub groups: Vec<u32>,
}

/// Standard streams of the child. The descriptors must be above 2 and should be close-on-exec.
#[derive(Clone, Copy, Debug)]
pub enum Stdio<'a> {
    Pipes {
        stdin: BorrowedFd<'a>,
        stdout: BorrowedFd<'a>,
        stderr: BorrowedFd<'a>,
    },
    /// One terminal for all three streams. It becomes the controlling terminal of the session.
    Terminal(BorrowedFd<'a>),
}

/// The step of the child that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpawnStep {
    Session,
    Streams,
    Terminal,
    Credentials,
    Cwd,
    Program,
}

/// A process that did not start. No process is left.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    #[error("create a process")]
    Clone(#[source] io::Error),
    #[error("prepare the process ({step:?})")]
    Child { step: SpawnStep, cause: io::Error },
}

/// The child's input, in forms that need no allocation.
struct ChildInput {
    programs: *const *const c_char,
    argv: *const *const c_char,
    env: *const *const c_char,
    cwd: *const c_char,
    credentials: Option<(u32, u32, *const u32, usize)>,
    streams: [RawFd; 3],
    controlling: bool,
    /// Written by the child. The parent reads it when the child no longer shares our memory.
    failed: Option<(SpawnStep, c_int)>,
}

/// Starts a process and returns its id (also its group id) when it runs the program. The caller
/// reaps it.
pub fn spawn(spawn: &ChildSpec<'_>) -> Result<i32, SpawnError> {
    let programs = pointers(spawn.programs);
    let argv = pointers(spawn.argv);
    let env = pointers(spawn.env);
    let (streams, controlling) = match spawn.stdio {
        Stdio::Pipes { stdin, stdout, stderr } => ([stdin.as_raw_fd(), stdout.as_raw_fd(), stderr.as_raw_fd()], false),
        Stdio::Terminal(terminal) => ([terminal.as_raw_fd(); 3], true),
    };
    assert!(streams.iter().all(|fd| *fd > 2), "descriptors 0 to 2 must stay open, or streams overwrite each other");
    let mut order = ChildInput {
        programs: programs.as_ptr(),
        argv: argv.as_ptr(),
        env: env.as_ptr(),
        cwd: spawn.cwd.map_or(ptr::null(), CStr::as_ptr),
        credentials: spawn.credentials.map(|c| (c.user, c.group, c.groups.as_ptr(), c.groups.len())),
        streams,
        controlling,
        failed: None,
    };
    let pid = clone_and_wait(&mut order).map_err(SpawnError::Clone)?;
    match order.failed {
        None => Ok(pid),
        Some((step, errno)) => {
            // SAFETY: plain system call; the child has ended or is about to, and is ours to reap.
            unsafe { libc::waitpid(pid, ptr::null_mut(), 0) };
            Err(SpawnError::Child { step, cause: io::Error::from_raw_os_error(errno) })
        }
    }
}

/// Sets close-on-exec on inherited descriptors, so child processes do not get them. Our own have it
/// already.
pub fn keep_inherited_descriptors() -> io::Result<()> {
    // SAFETY: only sets a flag on descriptors; closes none.
    if unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Signals every process of a group. Succeeds if the group is gone.
pub fn signal_group(group: i32, signal: i32) -> io::Result<()> {
    assert!(group > 1, "group {group} is not one of ours");
    // SAFETY: plain system call without pointers.
    if unsafe { libc::kill(-group, signal) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::ESRCH) { Ok(()) } else { Err(error) }
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExitResult {
    /// Exit status, or 128 + N after signal N.
    pub code: i32,
    /// The signal that ended it, if any.
    pub signal: Option<i32>,
}

/// Reaps one ended child, if there is one.
pub fn reap_any() -> Option<(i32, ExitResult)> {
    loop {
        let mut status = 0;
        // SAFETY: `status` is a valid place for the kernel to write to.
        let pid = unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG) };
        if pid <= 0 {
            return None;
        }
        if libc::WIFEXITED(status) {
            return Some((pid, ExitResult { code: libc::WEXITSTATUS(status), signal: None }));
        }
        if libc::WIFSIGNALED(status) {
            let signal = libc::WTERMSIG(status);
            return Some((pid, ExitResult { code: 128 + signal, signal: Some(signal) }));
        }
    }
}

/// Counts the unread bytes in a pipe.
pub fn pending_bytes(pipe: BorrowedFd<'_>) -> io::Result<usize> {
    let mut count: c_int = 0;
    // SAFETY: FIONREAD writes one int to the place given, which is one.
    if unsafe { libc::ioctl(pipe.as_raw_fd(), libc::FIONREAD, &mut count) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(usize::try_from(count).unwrap_or(0))
}

fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
}

/// Runs [`child`] in a new process that shares our memory. Blocks until it runs the program or
/// ends.
fn clone_and_wait(order: &mut ChildInput) -> io::Result<i32> {
    let mut stack: Vec<u8> = Vec::with_capacity(STACK_BYTES);
    // SAFETY: one comment for the whole block, because it is one operation.
    // - `stack` outlives the child's use of it: CLONE_VFORK blocks us until the child calls execve
    //   or _exit.
    // - its top is aligned to 16 bytes and inside the allocation.
    // - `order` and everything it points to stay valid and unused meanwhile, for the same reason.
    // - signals are blocked, so no handler of ours can run in the child on our memory; handlers are
    //   reset by execve, and the child unblocks only right before it.
    unsafe {
        let top = stack.as_mut_ptr().add(STACK_BYTES);
        let top = top.sub(top as usize % 16);
        let mut every = std::mem::zeroed::<libc::sigset_t>();
        let mut before = std::mem::zeroed::<libc::sigset_t>();
        libc::sigfillset(&mut every);
        libc::pthread_sigmask(libc::SIG_BLOCK, &every, &mut before);
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        let pid = libc::clone(child, top.cast::<c_void>(), flags, ptr::from_mut(order).cast::<c_void>());
        let error = io::Error::last_os_error();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, ptr::null_mut());
        if pid < 0 { Err(error) } else { Ok(pid) }
    }
}

/// Runs in the child before the program: system calls only, no allocation, no lock, no return.
extern "C" fn child(order: *mut c_void) -> c_int {
    // SAFETY: `clone_and_wait` passes a live, exclusive `ChildInput` and waits until the child is
    // done with it.
    let order = unsafe { &mut *order.cast::<ChildInput>() };
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
/// the child of a CLONE_VFORK. Credentials are changed by raw system calls, because the C library's
/// wrappers would signal the other threads of the parent, whose memory this still is.
unsafe fn become_program(order: &ChildInput) -> SpawnStep {
    unsafe {
        if libc::setsid() < 0 {
            return SpawnStep::Session;
        }
        for (target, source) in order.streams.iter().enumerate() {
            if libc::dup2(*source, target as c_int) < 0 {
                return SpawnStep::Streams;
            }
        }
        if order.controlling && libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 {
            return SpawnStep::Terminal;
        }
        if let Some((user, group, groups, count)) = order.credentials
            && (libc::syscall(libc::SYS_setgroups, count, groups) < 0
                || libc::syscall(libc::SYS_setresgid, group, group, group) < 0
                || libc::syscall(libc::SYS_setresuid, user, user, user) < 0)
        {
            return SpawnStep::Credentials;
        }
        if !order.cwd.is_null() && libc::chdir(order.cwd) < 0 {
            return SpawnStep::Cwd;
        }
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        let mut none = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, ptr::null_mut());
        execute_first(order);
        SpawnStep::Program
    }
}

/// Tries each program in turn. Keeps the error of a file that may not be executed, because it
/// explains more than a missing file.
///
/// # Safety
/// As [`become_program`].
unsafe fn execute_first(order: &ChildInput) {
    unsafe {
        let mut program = order.programs;
        let mut denied = false;
        while !(*program).is_null() {
            libc::execve(*program, order.argv, order.env);
            match *libc::__errno_location() {
                libc::EACCES => denied = true,
                libc::ENOENT | libc::ENOTDIR => {}
                _ => return,
            }
            program = program.add(1);
        }
        *libc::__errno_location() = if denied { libc::EACCES } else { libc::ENOENT };
    }
}

#[cfg(test)]
mod tests {
    use std::{fs::File, io::Read, os::fd::AsFd};

    use super::*;

    fn strings(list: &[&str]) -> Vec<CString> {
        list.iter().map(|text| CString::new(*text).unwrap()).collect()
    }

    fn output(programs: &[&str], argv: &[&str], cwd: Option<&CStr>) -> Result<String, SpawnError> {
        let null = File::open("/dev/null").unwrap();
        let (read, write) = nix::unistd::pipe().unwrap();
        let (programs, argv, env) = (strings(programs), strings(argv), strings(&["A=1"]));
        let stdio = Stdio::Pipes { stdin: null.as_fd(), stdout: write.as_fd(), stderr: null.as_fd() };
        let pid = spawn(&ChildSpec { programs: &programs, argv: &argv, env: &env, cwd, credentials: None, stdio })?;
        drop(write);
        let mut text = String::new();
        File::from(read).read_to_string(&mut text).unwrap();
        // SAFETY: reaps our own child.
        unsafe { libc::waitpid(pid, ptr::null_mut(), 0) };
        Ok(text)
    }

    #[test]
    fn runs_the_first_program_there_is() {
        let text = output(&["/missing/sh", "/bin/sh"], &["sh", "-c", "pwd; echo $A"], Some(c"/usr")).unwrap();
        assert_eq!(text, "/usr\n1\n");
    }

    #[test]
    fn says_which_step_failed() {
        let step = |result: Result<String, SpawnError>| match result {
            Err(SpawnError::Child { step, cause }) => (step, cause.kind()),
            other => panic!("{other:?}"),
        };
        assert_eq!(step(output(&["/missing"], &["x"], None)), (SpawnStep::Program, io::ErrorKind::NotFound));
        assert_eq!(
            step(output(&["/missing", "/etc/passwd"], &["x"], None)),
            (SpawnStep::Program, io::ErrorKind::PermissionDenied)
        );
        assert_eq!(step(output(&["/bin/sh"], &["x"], Some(c"/missing"))), (SpawnStep::Cwd, io::ErrorKind::NotFound));
    }
}
