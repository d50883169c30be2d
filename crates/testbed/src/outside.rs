//! A small outside network for tests: a namespace that represents the Internet, with addresses of
//! the test's choice, reachable from the namespace of the calling thread. Test traffic goes only
//! here. Needs root. Removes everything on drop, also on panic.

use std::{
    fs::File,
    io::{self, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    path::Path,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use pandastack_sys::netns::Netns;

/// How often a server checks whether it should end.
const POLL: Duration = Duration::from_millis(5);

/// Timeout for another test to give an address back.
const ADDRESS_PATIENCE: Duration = Duration::from_secs(180);

/// Timeout for a new link to carry packets, and for one attempt.
const LINK_PATIENCE: Duration = Duration::from_secs(60);
const LINK_TRY: Duration = Duration::from_millis(50);

/// A port without a listener, which refuses connections.
const DISCARD: u16 = 9;

/// Lock file for picking a link, in the temporary folder.
const TURN: &str = "pandastack-outside.lock";

/// A namespace with servers at addresses of the test's choice.
pub struct OutsideNetwork {
    name: String,
    netns: Netns,
    near: Ipv4Addr,
    far: Ipv4Addr,
    end: Arc<AtomicBool>,
    servers: Vec<JoinHandle<()>>,
}

impl OutsideNetwork {
    /// Makes the namespace with the addresses, and routes each of them there from the caller's
    /// namespace.
    pub fn new(addresses: &[Ipv4Addr]) -> io::Result<OutsideNetwork> {
        let name = unique("pdo");
        // Held until the link exists: two tests that search at the same time would pick the same
        // link.
        let _turn = turn_for(addresses)?;
        let (near, far) = free_link()?;
        let mut lines = format!(
            "netns add {name}\n\
             link add {name} type veth peer name eth0 netns {name}\n\
             addr add {near}/30 dev {name}\n\
             link set {name} up\n"
        );
        let mut inside =
            format!("link set lo up\naddr add {far}/30 dev eth0\nlink set eth0 up\nroute add default via {near}\n");
        for address in addresses {
            lines.push_str(&format!("route add {address}/32 via {far}\n"));
            inside.push_str(&format!("addr add {address}/32 dev lo\n"));
        }
        let built = ip(&["-batch", "-"], &lines).and_then(|_| ip(&["-n", &name, "-batch", "-"], &inside));
        let reached = built.and_then(|_| until_reached((far, DISCARD).into()));
        let opened = reached.and_then(|()| Netns::open(Path::new("/run/netns").join(&name).as_path()));
        match opened {
            Ok(netns) => Ok(OutsideNetwork { name, netns, near, far, end: Arc::default(), servers: Vec::new() }),
            Err(error) => {
                remove(&name);
                Err(error)
            }
        }
    }

    /// Name of the namespace.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The namespace, for the test's own servers and clients.
    pub fn netns(&self) -> &Netns {
        &self.netns
    }

    /// The host's own address on this link: servers here see it when the host masquerades.
    pub fn near_address(&self) -> Ipv4Addr {
        self.near
    }

    /// The namespace's own address. It looks public and differs between parallel tests on one host,
    /// while an address of the test's choice can be routed only once.
    pub fn far_address(&self) -> Ipv4Addr {
        self.far
    }

    /// Starts a TCP server that sends each client its own address, and closes the connection.
    pub fn greet(&mut self, address: SocketAddr) -> io::Result<()> {
        let listener = self.netns.listen_tcp(address)?;
        self.servers.push(greeter(listener, self.end.clone()));
        Ok(())
    }

    /// Starts a UDP echo server, and returns the counter of received datagrams.
    pub fn echo(&mut self, address: SocketAddr) -> io::Result<Arc<AtomicUsize>> {
        let socket = self.netns.bind_udp(address)?;
        let count = Arc::new(AtomicUsize::new(0));
        self.servers.push(echoer(socket, count.clone(), self.end.clone()));
        Ok(count)
    }
}

/// Waits until no other test routes one of the addresses, and returns the locked file of whose turn
/// it is.
fn turn_for(addresses: &[Ipv4Addr]) -> io::Result<File> {
    let turn = File::create(std::env::temp_dir().join(TURN))?;
    let deadline = Instant::now() + ADDRESS_PATIENCE;
    loop {
        turn.lock()?;
        let routes = ip(&["-4", "route", "show"], "")?;
        let mut taken = routes.lines().filter_map(|line| line.split(' ').next()?.parse::<Ipv4Addr>().ok());
        // Past the deadline the kernel says which one is taken.
        if !taken.any(|address| addresses.contains(&address)) || Instant::now() > deadline {
            return Ok(turn);
        }
        turn.unlock()?;
        thread::sleep(POLL);
    }
}

/// Waits until a new link carries packets. Earlier packets are lost, and a lost first packet of a
/// connection is repeated only after a second.
fn until_reached(closed: SocketAddr) -> io::Result<()> {
    let deadline = Instant::now() + LINK_PATIENCE;
    loop {
        match TcpStream::connect_timeout(&closed, LINK_TRY) {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Ok(()),
            Err(error) if Instant::now() > deadline => return Err(error),
            Err(_) => {}
        }
    }
}

impl Drop for OutsideNetwork {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        for server in self.servers.drain(..) {
            let _ = server.join();
        }
        remove(&self.name);
    }
}

/// Runs `ip` in the namespace of the calling thread, with commands on standard input, and returns
/// its output.
pub fn ip(arguments: &[&str], input: &str) -> io::Result<String> {
    run("ip", arguments, input)
}

/// Runs a program in the namespace of the calling thread. The error contains its error output.
pub fn run(program: &str, arguments: &[&str], input: &str) -> io::Result<String> {
    let mut command = Command::new(program);
    command.args(arguments).env("LC_ALL", "C").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes())?;
    }
    let output = child.wait_with_output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{program} {arguments:?}: {}", complaint.trim())))
}

/// Returns a name that no other test has, short enough for a link.
pub fn unique(prefix: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{prefix}-{:x}-{number:x}", std::process::id())
}

/// Picks a /30 of a documentation network without a route.
fn free_link() -> io::Result<(Ipv4Addr, Ipv4Addr)> {
    let start = std::process::id() as u8;
    for step in 0..64_u8 {
        let base = start.wrapping_add(step) % 64 * 4;
        if ip(&["-4", "route", "show", "exact", &format!("198.51.100.{base}/30")], "")?.trim().is_empty() {
            return Ok((Ipv4Addr::new(198, 51, 100, base + 1), Ipv4Addr::new(198, 51, 100, base + 2)));
        }
    }
    Err(io::Error::other("all links of 198.51.100.0/24 are in use"))
}

fn remove(name: &str) {
    // Best effort: the link may be gone with the namespace already.
    let _ = ip(&["link", "del", name], "");
    let _ = ip(&["netns", "del", name], "");
}

fn greeter(listener: TcpListener, end: Arc<AtomicBool>) -> JoinHandle<()> {
    thread::spawn(move || {
        while !end.load(Ordering::Relaxed) {
            match listener.accept() {
                // In one piece: clients read once.
                Ok((mut stream, from)) => drop(stream.write_all(format!("{}\n", from.ip()).as_bytes())),
                Err(_) => thread::sleep(POLL),
            }
        }
    })
}

fn echoer(socket: UdpSocket, count: Arc<AtomicUsize>, end: Arc<AtomicBool>) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut buffer = [0; 2048];
        while !end.load(Ordering::Relaxed) {
            match socket.recv_from(&mut buffer) {
                Ok((length, from)) => {
                    count.fetch_add(1, Ordering::Relaxed);
                    let _ = socket.send_to(&buffer[..length], from);
                }
                Err(_) => thread::sleep(POLL),
            }
        }
    })
}
