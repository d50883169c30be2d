//! Owns a small outside world for tests: a network namespace that stands for the Internet, with
//! whatever addresses a test wants to exist there, reachable from the namespace of the thread that
//! makes it. Test traffic goes here and nowhere else. Never asks for privileges it does not have
//! (it needs root), and removes all it made when it is dropped, also on panic.

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

/// How often a server looks whether it should end.
const POLL: Duration = Duration::from_millis(5);

/// How long a new link may take to carry packets, and how long one try waits.
const LINK_PATIENCE: Duration = Duration::from_secs(10);
const LINK_TRY: Duration = Duration::from_millis(50);

/// A port that nobody listens on; who asks is told so.
const DISCARD: u16 = 9;

/// Whoever has this file locked picks a link; in the folder for temporary files.
const TURN: &str = "pandastack-outside.lock";

/// A namespace with servers at addresses of the test's choice.
pub struct Outside {
    name: String,
    netns: Netns,
    near: Ipv4Addr,
    far: Ipv4Addr,
    end: Arc<AtomicBool>,
    servers: Vec<JoinHandle<()>>,
}

impl Outside {
    /// Makes the namespace, gives it the addresses, and routes each of them there from the caller's
    /// namespace.
    pub fn new(addresses: &[Ipv4Addr]) -> io::Result<Outside> {
        let name = unique("pdo");
        // Held until the link is there: two tests that look for a free one at the same time would
        // find the same.
        let turn = File::create(std::env::temp_dir().join(TURN))?;
        turn.lock()?;
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
            Ok(netns) => Ok(Outside { name, netns, near, far, end: Arc::default(), servers: Vec::new() }),
            Err(error) => {
                remove(&name);
                Err(error)
            }
        }
    }

    /// Gives the name of the namespace.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Gives the namespace, for servers and clients of the test's own.
    pub fn netns(&self) -> &Netns {
        &self.netns
    }

    /// Gives the host's own address towards this world: what servers here see when the host
    /// masquerades.
    pub fn near_address(&self) -> Ipv4Addr {
        self.near
    }

    /// Gives the world's own address: it looks public, is always there, and differs between tests
    /// that run at once on one host, while an address of the test's choice can be routed once only.
    pub fn far_address(&self) -> Ipv4Addr {
        self.far
    }

    /// Starts a TCP server that tells every caller the address it was called from, and hangs up.
    pub fn greet(&mut self, address: SocketAddr) -> io::Result<()> {
        let listener = self.netns.listen_tcp(address)?;
        self.servers.push(greeter(listener, self.end.clone()));
        Ok(())
    }

    /// Starts a UDP server that sends everything back, and gives the counter of what it received.
    pub fn echo(&mut self, address: SocketAddr) -> io::Result<Arc<AtomicUsize>> {
        let socket = self.netns.bind_udp(address)?;
        let count = Arc::new(AtomicUsize::new(0));
        self.servers.push(echoer(socket, count.clone(), self.end.clone()));
        Ok(count)
    }
}

/// Waits until a link that was just made carries packets: what is sent until then is lost, and a
/// lost first packet of a connection is sent again only after a second.
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

impl Drop for Outside {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        for server in self.servers.drain(..) {
            let _ = server.join();
        }
        remove(&self.name);
    }
}

/// Runs `ip` in the namespace of the calling thread, with commands on its standard input, and gives
/// what it printed.
pub fn ip(arguments: &[&str], input: &str) -> io::Result<String> {
    run("ip", arguments, input)
}

/// Runs a program in the namespace of the calling thread. Its complaint is in the error.
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

/// Gives a name that no other test has, short enough for a link.
pub fn unique(prefix: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{prefix}-{:x}-{number:x}", std::process::id())
}

/// Picks a /30 of a documentation network that no route leads to yet.
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
    // The link may be gone with the namespace already; a test's clean-up has nobody to complain to.
    let _ = ip(&["link", "del", name], "");
    let _ = ip(&["netns", "del", name], "");
}

fn greeter(listener: TcpListener, end: Arc<AtomicBool>) -> JoinHandle<()> {
    thread::spawn(move || {
        while !end.load(Ordering::Relaxed) {
            match listener.accept() {
                Ok((mut stream, from)) => drop(writeln!(stream, "{}", from.ip())),
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
