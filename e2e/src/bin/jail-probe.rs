//! A program that a test runs in a jail in place of QEMU. It tries what a compromised machine
//! process would try, and prints the result of each attempt on standard error: `attempt: done` or
//! `attempt: refused, why`. Targets are in its bundle, in `share/targets`, one per line. The line
//! `spare the host` skips attempts that would change a host without a jail.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read},
    net::{SocketAddr, TcpStream},
    os::linux::net::SocketAddrExt,
    os::unix::{
        fs::PermissionsExt,
        net::{SocketAddr as UnixAddress, UnixStream},
    },
    path::Path,
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use nix::{
    errno::Errno,
    mount::{MntFlags, MsFlags, mount, umount2},
    sched::{CloneFlags, unshare},
    sys::{
        signal::kill,
        socket::{AddressFamily, SockFlag, SockProtocol, SockType, socket},
        stat::{Mode, SFlag, mknod},
    },
    unistd::{Gid, Pid, Uid, chroot, pivot_root, setgid, setgroups, setuid},
};
use pandastack_sys::raw;

/// Long enough for a host that answers. A jail's network does not answer.
const PATIENCE: Duration = Duration::from_millis(100);

const SPARE: &str = "spare the host";

/// Number of reported attempts.
static TOLD: AtomicUsize = AtomicUsize::new(0);

fn main() {
    if std::env::args().any(|word| word.ends_with(",help")) {
        // As a QEMU that opens a layer's memory read-only.
        println!("  rom=<OnOffAuto>");
        return;
    }
    let targets = targets();
    for line in targets.lines().filter(|line| *line != SPARE) {
        let (attempt, target) = line.split_once(' ').unwrap_or((line, ""));
        report(line, aimed(attempt, target));
    }
    let spare = targets.lines().any(|line| line == SPARE);
    looks();
    if !spare {
        files();
    }
    rights();
    sockets();
    // Before the root is changed, if that works: after a chroot no user namespace can be made.
    calls();
    if !spare {
        report("rename the host", flat(nix::unistd::sethostname("x")));
        namespaces();
    }
    for folder in ["/", "/dev"] {
        eprintln!("holds {folder}: {}", list(Path::new(folder)));
    }
    eprintln!("parent: {}", nix::unistd::getppid());
    eprintln!("name: {}", nix::unistd::gethostname().unwrap_or_default().to_string_lossy());
    // Printed last: it proves that no attempt was skipped.
    eprintln!("attempts: {}", TOLD.load(Ordering::Relaxed));
}

/// Reads the targets. The arguments name QEMU's own files, inside and outside a jail.
fn targets() -> String {
    let share = std::env::args().skip_while(|word| word != "-L").nth(1).expect("a machine's arguments name its files");
    fs::read_to_string(Path::new(&share).join("targets")).expect("the bundle says what to try")
}

/// Attempts on host resources that the test knows to exist.
fn aimed(attempt: &str, target: &str) -> io::Result<()> {
    match attempt {
        "read" => read(target),
        "write" => OpenOptions::new().append(true).open(target).map(drop),
        "climb" => read(&format!("{}{target}", "/..".repeat(40))),
        "kill" => Ok(kill(Pid::from_raw(target.parse().map_err(io::Error::other)?), None)?),
        "connect" => {
            let address: SocketAddr = target.parse().map_err(io::Error::other)?;
            TcpStream::connect_timeout(&address, PATIENCE).map(drop)
        }
        "abstract" => UnixStream::connect_addr(&UnixAddress::from_abstract_name(target)?).map(drop),
        "unix" => UnixStream::connect(target).map(drop),
        other => panic!("{other} is no attempt"),
    }
}

/// Reads only the first byte, because some are whole disks.
fn read(path: &str) -> io::Result<()> {
    File::open(path)?.read_exact(&mut [0])
}

/// Attempts that only read.
fn looks() {
    for device in ["mem", "kmsg", "loop0", "vda", "sda", "fuse", "net/tun", "null", "tty"] {
        report(&format!("open /dev/{device}"), File::open(format!("/dev/{device}")).map(drop));
    }
    report("see processes", fs::read_dir("/proc").map(drop));
    report("see the kernel", fs::read_dir("/sys").map(drop));
    report("run a shell", Command::new("/bin/sh").arg("-c").arg("true").status().map(drop));
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
    let mode = Mode::from_bits_truncate(0o666);
    report("make a disk device", flat(mknod("/dev/disk", SFlag::S_IFBLK, mode, 7 << 8)));
}

fn rights() {
    report("become user 0", flat(setuid(Uid::from_raw(0))));
    report("become group 0", flat(setgid(Gid::from_raw(0))));
    report("join group 0", flat(setgroups(&[Gid::from_raw(0)])));
    let raw = socket(AddressFamily::Inet, SockType::Raw, SockFlag::empty(), SockProtocol::Icmp);
    report("open a raw socket", raw.map(drop).map_err(io::Error::from));
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

/// System calls that any user may make on most hosts, and that reach deep into the kernel.
fn calls() {
    for (attempt, call) in raw::CALLS {
        report(attempt, call());
    }
}

/// Sockets of every kind that an attacker might use. Not all are bound to a network namespace.
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
    TOLD.fetch_add(1, Ordering::Relaxed);
    match outcome {
        Ok(()) => eprintln!("{attempt}: done"),
        Err(error) => eprintln!("{attempt}: refused, {error}"),
    }
}
