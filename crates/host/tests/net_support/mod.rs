//! Owns the environment of network tests: a *world*, which is a network namespace in the role of
//! the host, and a *guest*, which is a namespace in the role of a machine. Never touches the
//! network of the machine that runs the tests.

use std::{
    future::Future,
    io::{self, Read as _},
    net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket},
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use nix::sched::{CloneFlags, unshare};
use pandastack_host::net::{GATEWAY, GATEWAY_MAC, GUEST, GUEST_MAC, NetPool, NetSettings, NetSlot, TAP, sweep};
use pandastack_kit::Scope;
use pandastack_sys::netns::Netns;

// By path: the testbed room depends on every other room, and these tests need only this file.
#[path = "../../../testbed/src/outside.rs"]
pub mod outside;

pub mod zone;

use outside::{OutsideNetwork, ip, unique};

/// Timeout of an answer that must arrive, also on a slow machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How long to wait where no answer may arrive: longer than one usually takes.
pub const SILENCE: Duration = Duration::from_millis(700);

/// A host for one test: a new network namespace, and an instance in it.
pub struct World {
    pub instance: String,
    pub scope: Scope,
}

impl World {
    /// Runs a test in a new world, on one thread. Threads started from it are in the same
    /// namespace.
    pub fn run<F, W>(test: F)
    where
        F: FnOnce(Arc<World>) -> W + Send + 'static,
        W: Future<Output = ()>,
    {
        let played = std::thread::spawn(move || {
            unshare(CloneFlags::CLONE_NEWNET).expect("network tests need root");
            ip(&["link", "set", "lo", "up"], "").unwrap();
            let world = Arc::new(World { instance: unique("test"), scope: Scope::new() });
            let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let _cleanup = Cleanup(world.instance.clone());
            runtime().block_on(async {
                test(world.clone()).await;
                assert_eq!(world.scope.close(PATIENCE).await, 0, "tasks are left");
            });
        });
        if let Err(panic) = played.join() {
            std::panic::resume_unwind(panic);
        }
    }

    pub fn settings(&self) -> NetSettings {
        NetSettings {
            ready: 1,
            max: 20,
            resolvers: vec!["127.0.0.1:53".parse().unwrap()],
            ..NetSettings::of(&self.instance)
        }
    }

    pub async fn pool(&self, settings: NetSettings) -> Arc<NetPool> {
        NetPool::start(settings, &self.scope).await.unwrap()
    }

    /// Runs blocking work on another thread, because this one also runs the pool.
    pub async fn block<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        self.scope.block("test", work).await.unwrap()
    }
}

/// Removes what a failed test left.
struct Cleanup(String);

impl Drop for Cleanup {
    fn drop(&mut self) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _ = runtime.block_on(sweep(&self.0, &[]));
    }
}

/// Plays a machine: its namespace has the guest's addresses, and its link replaces the tap.
pub struct Guest {
    name: String,
    pub slot: String,
    pub netns: Arc<Netns>,
}

impl Guest {
    pub fn in_slot(slot: &NetSlot) -> Guest {
        let name = unique("pdg");
        ip(&["netns", "add", &name], "").unwrap();
        let netns = Arc::new(Netns::open(&Path::new("/run/netns").join(&name)).unwrap());
        let guest = Guest { name, slot: slot.name().to_owned(), netns };
        guest.in_slot_ip(&format!(
            "link del {TAP}\n\
             link add {TAP} address {GATEWAY_MAC} type veth peer name eth0 address {GUEST_MAC} netns {}\n\
             addr add {GATEWAY}/30 dev {TAP}\n\
             link set {TAP} up\n\
             neigh replace {GUEST} lladdr {GUEST_MAC} dev {TAP} nud permanent\n",
            guest.name
        ));
        guest.ip(&format!(
            "link set lo up\n\
             addr add {GUEST}/30 dev eth0\n\
             link set eth0 up\n\
             neigh replace {GATEWAY} lladdr {GATEWAY_MAC} dev eth0 nud permanent\n\
             route add default via {GATEWAY}\n"
        ));
        // The kernel drops packets until it has noticed that both ends are up, which may take a
        // while under load.
        for (namespace, link) in [(&guest.name, "eth0"), (&guest.slot, TAP)] {
            until_up(namespace, link);
        }
        guest
    }

    pub fn ip(&self, lines: &str) {
        ip(&["-n", &self.name, "-batch", "-"], lines).unwrap();
    }

    pub fn in_slot_ip(&self, lines: &str) {
        ip(&["-n", &self.slot, "-batch", "-"], lines).unwrap();
    }

    /// Returns the text that a greeter sends to the guest.
    pub fn greeting(&self, address: SocketAddr) -> io::Result<String> {
        greeting(&self.netns, address)
    }

    /// Sends a datagram from an address and waits for the echo.
    pub fn echo(&self, from: Ipv4Addr, to: SocketAddr) -> io::Result<()> {
        self.echo_within(from, to, PATIENCE)
    }

    /// Sends a datagram from an address that no echo may answer.
    pub fn has_no_echo(&self, from: Ipv4Addr, to: SocketAddr) -> bool {
        self.echo_within(from, to, SILENCE).is_err()
    }

    fn echo_within(&self, from: Ipv4Addr, to: SocketAddr, patience: Duration) -> io::Result<()> {
        self.netns.run(|| {
            let socket = UdpSocket::bind((from, 0))?;
            socket.set_read_timeout(Some(patience))?;
            socket.send_to(b"hello", to)?;
            socket.recv_from(&mut [0; 16]).map(drop)
        })?
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = ip(&["netns", "del", &self.name], "");
    }
}

/// Waits until a link in a namespace is up.
pub fn until_up(namespace: &str, link: &str) {
    let deadline = Instant::now() + PATIENCE;
    while !ip(&["-n", namespace, "-o", "link", "show", link], "").unwrap().contains("state UP") {
        assert!(Instant::now() < deadline, "{link} in {namespace} stays down");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Returns the text that a greeter sends to a connection from a namespace.
pub fn greeting(from: &Netns, address: SocketAddr) -> io::Result<String> {
    from.run(|| {
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text.trim().to_owned())
    })?
}

/// Returns the namespace of the calling thread.
pub fn here() -> Netns {
    Netns::open(Path::new("/proc/thread-self/ns/net")).unwrap()
}

/// An outside world with a greeter on port 80 of every address, and an echo on port 7 of the last
/// one. Also returns the counter of the echo.
pub fn outside(addresses: &[&str]) -> (OutsideNetwork, Arc<std::sync::atomic::AtomicUsize>) {
    let parsed: Vec<Ipv4Addr> = addresses.iter().map(|address| address.parse().unwrap()).collect();
    let mut outside = OutsideNetwork::new(&parsed).unwrap();
    outside.greet("0.0.0.0:80".parse().unwrap()).unwrap();
    // Bound to the address, because otherwise the echo could have another source address.
    let count = outside.echo((*parsed.last().unwrap(), 7).into()).unwrap();
    (outside, count)
}
