//! A program that a test puts into a jail in the place of QEMU. It tries what a machine process that was taken over would
//! try, and says on standard error how each attempt ended: `attempt: done` or `attempt: refused, why`.
//! What it looks for lies in its own bundle, in `share/targets`, because its arguments are the machine's.
#![allow(unsafe_code, reason = "the C library has no words for some of the calls that must be refused")]

use std::{
    fs::{self, File, OpenOptions},
    io,
    net::{SocketAddr, TcpStream},
    os::linux::net::SocketAddrExt,
    os::unix::{
        fs::PermissionsExt,
        net::{SocketAddr as UnixAddress, UnixStream},
    },
    path::Path,
    process::Command,
    time::Duration,
};

use nix::{
    errno::Errno,
    libc,
    mount::{MntFlags, MsFlags, mount, umount2},
    sched::{CloneFlags, unshare},
    sys::{
        signal::kill,
        socket::{AddressFamily, SockFlag, SockProtocol, SockType, socket},
        stat::{Mode, SFlag, mknod},
    },
    unistd::{Gid, Pid, Uid, chroot, pivot_root, setgid, setgroups, setuid},
};

/// Long enough for a host that answers; a jail's network answers nothing.
const PATIENCE: Duration = Duration::from_millis(100);

fn main() {
    if std::env::args().any(|word| word.ends_with(",help")) {
        // As a QEMU that opens a layer's memory for reading only.
        println!("  rom=<OnOffAuto>");
        return;
    }
    for line in fs::read_to_string("/runtime/share/targets").unwrap_or_default().lines() {
        let (attempt, target) = line.split_once(' ').unwrap_or((line, ""));
        report(line, aimed(attempt, target));
    }
    files();
    rights();
    sockets();
    // Before the root is changed, where that works: who has done so may not make users any more.
    calls();
    namespaces();
    for folder in ["/", "/dev"] {
        eprintln!("holds {folder}: {}", list(Path::new(folder)));
    }
    eprintln!("parent: {}", nix::unistd::getppid());
    eprintln!("name: {}", nix::unistd::gethostname().unwrap_or_default().to_string_lossy());
}

/// Attempts on something of the host that the test knows to be there.
fn aimed(attempt: &str, target: &str) -> io::Result<()> {
    match attempt {
        "read" => fs::read(target).map(drop),
        "write" => OpenOptions::new().append(true).open(target).map(drop),
        "climb" => fs::read(format!("{}{target}", "/..".repeat(40))).map(drop),
        "kill" => Ok(kill(Pid::from_raw(target.parse().map_err(io::Error::other)?), None)?),
        "connect" => {
            let address: SocketAddr = target.parse().map_err(io::Error::other)?;
            TcpStream::connect_timeout(&address, PATIENCE).map(drop)
        }
        "abstract" => UnixStream::connect_addr(&UnixAddress::from_abstract_name(target)?).map(drop),
        "unix" => UnixStream::connect(target).map(drop),
        other => Err(io::Error::other(format!("{other} is no attempt"))),
    }
}

fn files() {
    let made = OpenOptions::new().write(true).create(true).truncate(true).clone();
    let create = |path: &str| made.open(path).map(drop);
    report("create /x", create("/x"));
    report("create /runtime/x", create("/runtime/x"));
    report("create /dev/x", create("/dev/x"));
    report("overwrite /runtime/bin/qemu", create("/runtime/bin/qemu"));
    report("remove /runtime/bin/qemu", fs::remove_file("/runtime/bin/qemu"));
    report("write /mem", OpenOptions::new().append(true).open("/mem").map(drop));
    report("write and read /mem", OpenOptions::new().read(true).write(true).open("/mem").map(drop));
    report("truncate /mem", create("/mem"));
    report("open up /mem", fs::set_permissions("/mem", fs::Permissions::from_mode(0o666)));
    for device in ["mem", "kmsg", "loop0", "vda", "sda", "fuse", "net/tun", "null", "tty"] {
        report(&format!("open /dev/{device}"), File::open(format!("/dev/{device}")).map(drop));
    }
    let mode = Mode::from_bits_truncate(0o666);
    report("make a disk device", flat(mknod("/dev/disk", SFlag::S_IFBLK, mode, 7 << 8)));
    report("see processes", fs::read_dir("/proc").map(drop));
    report("see the kernel", fs::read_dir("/sys").map(drop));
    report("run a shell", Command::new("/bin/sh").arg("-c").arg("true").status().map(drop));
}

fn rights() {
    report("become user 0", flat(setuid(Uid::from_raw(0))));
    report("become group 0", flat(setgid(Gid::from_raw(0))));
    report("join group 0", flat(setgroups(&[Gid::from_raw(0)])));
    let raw = socket(AddressFamily::Inet, SockType::Raw, SockFlag::empty(), SockProtocol::Icmp);
    report("open a raw socket", raw.map(drop).map_err(io::Error::from));
    report("rename the host", flat(nix::unistd::sethostname("x")));
}

fn namespaces() {
    let none: Option<&str> = None;
    let kinds = [
        ("users", CloneFlags::CLONE_NEWUSER),
        ("mounts", CloneFlags::CLONE_NEWNS),
        ("networks", CloneFlags::CLONE_NEWNET),
        ("processes", CloneFlags::CLONE_NEWPID),
    ];
    for (name, flag) in kinds {
        report(&format!("make a namespace of {name}"), flat(unshare(flag)));
    }
    report("mount a file system", flat(mount(Some("x"), "/dev", Some("tmpfs"), MsFlags::empty(), none)));
    report("mount processes", flat(mount(Some("x"), "/dev", Some("proc"), MsFlags::empty(), none)));
    report("bind the root", flat(mount(Some("/"), "/dev", none, MsFlags::MS_BIND, none)));
    let writable = MsFlags::MS_REMOUNT | MsFlags::MS_BIND;
    for place in ["/", "/runtime", "/mem"] {
        report(&format!("make {place} writable"), flat(mount(none, place, none, writable, none)));
    }
    report("uncover /mem", flat(umount2("/mem", MntFlags::MNT_DETACH)));
    report("change the root", flat(chroot("/dev")));
    report("turn the root", flat(pivot_root("/", "/dev")));
}

/// Calls that any user may make on most hosts, and that reach deep into the kernel.
fn calls() {
    let new_user = libc::CLONE_NEWUSER | libc::SIGCHLD;
    report("clone a namespace of users", child(&[libc::SYS_clone, new_user.into()], Child::Ends).map(drop));
    let mut wanted = [0_u64; 8];
    (wanted[0], wanted[4]) = (libc::CLONE_NEWUSER as u64, libc::SIGCHLD as u64);
    let order = [libc::SYS_clone3, (&raw const wanted) as libc::c_long, size_of_val(&wanted) as libc::c_long];
    report("clone3 a namespace of users", child(&order, Child::Ends).map(drop));
    let mut ring = [0_u8; 256];
    report("set up io_uring", call(&[libc::SYS_io_uring_setup, 1, (&raw mut ring) as libc::c_long]).map(drop));
    let (kind, name) = (c"user".as_ptr() as libc::c_long, c"probe".as_ptr() as libc::c_long);
    let own = libc::KEY_SPEC_PROCESS_KEYRING.into();
    report("add a key", call(&[libc::SYS_add_key, kind, name, name, 5, own]).map(drop));
    let join = libc::KEYCTL_JOIN_SESSION_KEYRING.into();
    report("join a ring of keys", call(&[libc::SYS_keyctl, join, 0]).map(drop));
    report("request a key", refused_only(call(&[libc::SYS_request_key, kind, name, 0, own])));
    // Of its own memory only, which needs no right.
    report("handle page faults", call(&[libc::SYS_userfaultfd, 1]).map(drop));
    report("watch a child", watched_child());
    report("call in another way", call(&[0x4000_0000 | libc::SYS_getpid]).map(drop));
}

/// What a child does.
enum Child {
    Ends,
    Waits,
}

/// Makes a child by a call that returns twice.
fn child(order: &[libc::c_long], life: Child) -> io::Result<libc::pid_t> {
    let made = call(order)?;
    if made == 0 {
        // SAFETY: neither takes any memory, and the child does nothing else.
        unsafe {
            if matches!(life, Child::Waits) {
                libc::pause();
            }
            libc::_exit(0)
        }
    }
    Ok(made as libc::pid_t)
}

fn watched_child() -> io::Result<()> {
    let child = child(&[libc::SYS_clone, libc::SIGCHLD.into()], Child::Waits)?;
    let watched = call(&[libc::SYS_ptrace, libc::PTRACE_SEIZE.into(), child.into(), 0, 0]).map(drop);
    kill(Pid::from_raw(child), Some(nix::sys::signal::Signal::SIGKILL))?;
    nix::sys::wait::waitpid(Pid::from_raw(child), None)?;
    watched
}

/// A key that does not exist is an answer, too.
fn refused_only(outcome: io::Result<libc::c_long>) -> io::Result<()> {
    match outcome {
        Err(error) if error.raw_os_error() == Some(libc::ENOKEY) => Ok(()),
        other => other.map(drop),
    }
}

/// Makes a system call: its number, and up to five arguments.
fn call(order: &[libc::c_long]) -> io::Result<libc::c_long> {
    let mut words = [0; 6];
    words[..order.len()].copy_from_slice(order);
    let [number, a, b, c, d, e] = words;
    // SAFETY: whatever an argument points to is alive in the caller, and as long as the call expects.
    let result = unsafe { libc::syscall(number, a, b, c, d, e) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Sockets of every kind that a guest's device might tempt somebody to use. Not all are bound to a network namespace.
fn sockets() {
    let kinds = [
        ("vsock", AddressFamily::Vsock, SockType::Stream),
        ("alg", AddressFamily::Alg, SockType::SeqPacket),
        ("netlink", AddressFamily::Netlink, SockType::Datagram),
        ("inet", AddressFamily::Inet, SockType::Datagram),
        ("inet6", AddressFamily::Inet6, SockType::Stream),
        ("packet", AddressFamily::Packet, SockType::Raw),
    ];
    for (name, family, kind) in kinds {
        let made = socket(family, kind, SockFlag::empty(), None);
        report(&format!("make a socket of {name}"), made.map(drop).map_err(io::Error::from));
    }
    let local = socket(AddressFamily::Unix, SockType::Stream, SockFlag::empty(), None);
    eprintln!("local socket: {}", if local.is_ok() { "there" } else { "missing" });
}

fn flat(result: Result<(), Errno>) -> io::Result<()> {
    Ok(result?)
}

fn list(folder: &Path) -> String {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names.join(" ")
}

fn report(attempt: &str, outcome: io::Result<()>) {
    match outcome {
        Ok(()) => eprintln!("{attempt}: done"),
        Err(error) => eprintln!("{attempt}: refused, {error}"),
    }
}
