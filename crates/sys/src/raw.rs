//! System calls that any user may make on most hosts, that reach deep into the kernel, and that
//! `filter` refuses. A program in a jail uses them to test the filter. Nothing else uses them. Each
//! undoes its own effect.
#![allow(unsafe_code)]

use std::{io, ptr};

use libc::{c_int, c_long, pid_t};

/// One attempt. `Ok` if the kernel allowed it.
type Call = fn() -> io::Result<()>;

/// Every attempt with its name.
pub const CALLS: [(&str, Call); 9] = [
    ("clone a namespace of users", clone_users),
    ("clone3 a namespace of users", clone3_users),
    ("set up io_uring", set_up_io_uring),
    ("add a key", add_key),
    ("join a ring of keys", join_keys),
    ("request a key", request_key),
    ("handle page faults", handle_faults),
    ("watch a child", watch_child),
    ("call in another way", call_by_x32),
];

/// System calls of the x32 ABI start here.
const X32: c_long = 0x4000_0000;

/// `UFFD_USER_MODE_ONLY`: handles user-mode faults only, which needs no privilege.
const OWN_FAULTS: c_long = 1;

fn clone_users() -> io::Result<()> {
    reaped(child(&[libc::SYS_clone, (libc::CLONE_NEWUSER | libc::SIGCHLD).into()])?)
}

fn clone3_users() -> io::Result<()> {
    // SAFETY: plain data for which all zeroes is a valid value.
    let mut wanted: libc::clone_args = unsafe { std::mem::zeroed() };
    wanted.flags = libc::CLONE_NEWUSER as u64;
    wanted.exit_signal = libc::SIGCHLD as u64;
    reaped(child(&[libc::SYS_clone3, (&raw const wanted) as c_long, size_of_val(&wanted) as c_long])?)
}

fn set_up_io_uring() -> io::Result<()> {
    // Larger than the parameter structure.
    let mut parameters = [0_u64; 32];
    closed(call(&[libc::SYS_io_uring_setup, 1, (&raw mut parameters) as c_long])?)
}

fn add_key() -> io::Result<()> {
    let own = libc::KEY_SPEC_PROCESS_KEYRING.into();
    let (kind, name) = (c"user".as_ptr() as c_long, c"probe".as_ptr() as c_long);
    call(&[libc::SYS_add_key, kind, name, name, 5, own]).map(drop)
}

fn join_keys() -> io::Result<()> {
    call(&[libc::SYS_keyctl, libc::KEYCTL_JOIN_SESSION_KEYRING.into(), 0]).map(drop)
}

fn request_key() -> io::Result<()> {
    match call(&[libc::SYS_request_key, c"user".as_ptr() as c_long, c"none".as_ptr() as c_long, 0, 0]) {
        // ENOKEY means that the kernel allowed the call and found no key.
        Err(error) if error.raw_os_error() == Some(libc::ENOKEY) => Ok(()),
        other => other.map(drop),
    }
}

fn handle_faults() -> io::Result<()> {
    closed(call(&[libc::SYS_userfaultfd, OWN_FAULTS])?)
}

fn watch_child() -> io::Result<()> {
    let child = child(&[libc::SYS_clone, libc::SIGCHLD.into()])?;
    let watched = call(&[libc::SYS_ptrace, libc::PTRACE_SEIZE.into(), child.into()]);
    reaped(child)?;
    watched.map(drop)
}

fn call_by_x32() -> io::Result<()> {
    call(&[X32 | libc::SYS_getpid]).map(drop)
}

/// Makes a child with a call that returns twice. The child waits until it is killed.
fn child(order: &[c_long]) -> io::Result<pid_t> {
    let made = call(order)?;
    if made == 0 {
        loop {
            // SAFETY: takes no memory, and the child never does anything else.
            unsafe { libc::pause() };
        }
    }
    Ok(made as pid_t)
}

/// Kills a child and waits for its end.
fn reaped(child: pid_t) -> io::Result<()> {
    // SAFETY: the child is ours and not reaped yet, so its id is still valid; no status is
    // requested.
    let gone = unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, ptr::null_mut::<c_int>(), 0)
    };
    if gone < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn closed(fd: c_long) -> io::Result<()> {
    // SAFETY: the kernel has just returned this descriptor, and no other code holds it.
    let closed = unsafe { libc::close(fd as c_int) };
    if closed < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Makes a system call with its number and up to five arguments.
fn call(order: &[c_long]) -> io::Result<c_long> {
    let mut words = [0; 6];
    words[..order.len()].copy_from_slice(order);
    let [number, a, b, c, d, e] = words;
    // SAFETY: whatever an argument points to is alive in the caller and as long as the call
    // expects; a child that a call makes has its own copy of our memory.
    let result = unsafe { libc::syscall(number, a, b, c, d, e) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
