//! A browser in a network of its own, and programs that drive it.
//!
//! Chromium drops its requests whenever the computer gets a network interface, and each new machine
//! makes one. So it runs in a network namespace where only the loopback interface exists, and
//! connections to the server's port there are handed to the server.

#![allow(clippy::unwrap_used, reason = "a browser that cannot be started is the end of a test")]

use std::{
    fs::{self, File},
    io,
    net::{Shutdown, TcpListener, TcpStream},
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use nix::{
    sched::{CloneFlags, setns},
    sys::socket,
};

use crate::{
    own_sdk::gather,
    published::{kept, node, run},
};

const NAMES: &str = "/var/run/netns";
/// Begin of the names of our namespaces; the id of the process that made it follows.
const PREFIX: &str = "psbrowser-";
/// Namespaces that this process made.
static MADE: AtomicUsize = AtomicUsize::new(0);

/// A network namespace with only a loopback interface, on which some ports of this computer can be
/// reached. Removed on drop.
pub struct QuietNetwork {
    name: String,
    listeners: Vec<TcpListener>,
}

/// A port of the namespace, and the port of this computer that it leads to.
#[derive(Clone, Copy)]
pub struct ForwardedPort {
    pub inside: u16,
    pub outside: u16,
}

impl QuietNetwork {
    /// Makes the namespace. The address in a URL stays the same inside.
    pub fn with_port(port: u16) -> Self {
        Self::with_ports(&[ForwardedPort { inside: port, outside: port }])
    }

    /// Makes the namespace with several ports.
    pub fn with_ports(ports: &[ForwardedPort]) -> Self {
        sweep();
        let name = format!("{PREFIX}{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        run(Command::new("ip").args(["netns", "add", &name]));
        run(Command::new("ip").args(["-n", &name, "link", "set", "lo", "up"]));
        let listeners = ports.iter().map(|port| forward(&name, *port)).collect();
        Self { name, listeners }
    }

    /// A program that runs inside.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        // `ip netns exec` would copy all mounts, and keep volumes of other tests in use.
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={NAMES}/{}", self.name)).arg(program.as_ref());
        command
    }
}

impl Drop for QuietNetwork {
    fn drop(&mut self) {
        // This ends the accepting threads.
        for listener in &self.listeners {
            let _ = socket::shutdown(listener.as_raw_fd(), socket::Shutdown::Both);
        }
        let _ = Command::new("ip").args(["netns", "del", &self.name]).status();
    }
}

/// Accepts connections to a port of a namespace.
fn forward(name: &str, port: ForwardedPort) -> TcpListener {
    let inside = File::open(Path::new(NAMES).join(name)).unwrap();
    // A thread changes its namespace only for itself, and a socket stays where it was made.
    let bound = thread::spawn(move || {
        setns(inside, CloneFlags::CLONE_NEWNET).unwrap();
        TcpListener::bind(("127.0.0.1", port.inside)).unwrap()
    });
    let listener = bound.join().unwrap();
    let accepting = listener.try_clone().unwrap();
    thread::spawn(move || {
        accepting.incoming().map_while(Result::ok).for_each(|inside| hand_over(inside, port.outside));
    });
    listener
}

/// Connects a connection from inside with the server.
fn hand_over(inside: TcpStream, port: u16) {
    let Ok(outside) = TcpStream::connect(("127.0.0.1", port)) else { return };
    for stream in [&inside, &outside] {
        let _ = stream.set_nodelay(true);
    }
    let (inside_too, outside_too) = (inside.try_clone().unwrap(), outside.try_clone().unwrap());
    for (mut from, mut to) in [(inside, outside), (outside_too, inside_too)] {
        thread::spawn(move || {
            let _ = io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Write);
        });
    }
}

/// Removes namespaces of tests that were killed.
fn sweep() {
    for entry in fs::read_dir(NAMES).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let maker = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once('-'));
        if maker.is_some_and(|(pid, _)| !Path::new("/proc").join(pid).exists()) {
            let _ = Command::new("ip").args(["netns", "del", &name]).status();
        }
    }
}

/// Programs for Node with the packages that they need. Removed on drop.
pub struct BrowserProgram {
    folder: tempfile::TempDir,
}

impl BrowserProgram {
    /// Copies the programs of a folder. Their packages are installed once, into a cache.
    pub fn of(name: &str, source: &Path) -> Self {
        let files = ["package.json", "package-lock.json"];
        let state: String = files.iter().map(|file| fs::read_to_string(source.join(file)).unwrap()).collect();
        let packages = kept(name, &state, |folder| {
            for file in files {
                fs::copy(source.join(file), folder.join(file)).unwrap();
            }
            let install = ["ci", "--silent", "--no-fund", "--no-audit", "--ignore-scripts"];
            run(Command::new("npm").args(install).current_dir(folder));
        });
        let folder = tempfile::tempdir().unwrap();
        let mut programs = Vec::new();
        gather(source, &mut programs);
        crate::own_sdk::copy(source, &programs, folder.path());
        std::os::unix::fs::symlink(packages.join("node_modules"), folder.path().join("node_modules")).unwrap();
        Self { folder }
    }

    /// One of them, as a command inside a network.
    pub fn command(&self, network: &QuietNetwork, name: &str) -> Command {
        let mut command = network.command(node());
        command.arg(self.path(name));
        command
    }

    /// Where one of them is.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}
