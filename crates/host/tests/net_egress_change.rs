//! Tests of egress lists over time: changes with open connections, expiry, adoption by another
//! process, and the reports of denials.

use std::{
    io::{self, Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    os::fd::AsRawFd as _,
    sync::Arc,
    time::{Duration, Instant},
};

use nix::sys::{
    socket::{
        AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, recv, sendto, setsockopt, socket,
        sockopt,
    },
    time::{TimeVal, TimeValLike},
};

use crate::net_support::{
    Guest, PATIENCE, SILENCE, World,
    outside::{OutsideNetwork, run},
    zone::{Zone, told, unlisted},
};
use pandastack_host::net::{Denial, GATEWAY, GATEWAY_MAC, GUEST, GUEST_MAC, NameTtlBounds, NetPool, NetSettings};
use pandastack_kit::Scope;
use pandastack_model::Egress;
use tokio::sync::broadcast::{Receiver, error::TryRecvError};

const WEB: &str = "203.0.113.7";
const OTHER: &str = "203.0.113.200";
/// Far longer than any operation in these tests.
const DEADLINE: Duration = Duration::from_secs(60);

fn at(address: &str, port: u16) -> SocketAddr {
    format!("{address}:{port}").parse().unwrap()
}

fn only(rules: &[&str]) -> Egress {
    Egress::Only(rules.iter().map(|rule| rule.parse().unwrap()).collect())
}

fn names() -> Zone {
    Zone { ttl: 300, ..Zone::default() }.with("web.test", &[WEB]).with("other.test", &[OTHER])
}

/// An outside world with a greeter on port 80, an echo on port 7 of each address, and a listener on
/// port 9000.
fn outside() -> (OutsideNetwork, TcpListener) {
    let addresses = [WEB, OTHER].map(|address| address.parse::<Ipv4Addr>().unwrap());
    let mut outside = OutsideNetwork::new(&addresses).unwrap();
    outside.greet(at("0.0.0.0", 80)).unwrap();
    for address in addresses {
        outside.echo((address, 7).into()).unwrap();
    }
    let listener = outside.netns().listen_tcp(at("0.0.0.0", 9000)).unwrap();
    listener.set_nonblocking(false).unwrap();
    (outside, listener)
}

/// A connection of the guest, with both ends.
struct Call {
    guest: TcpStream,
    server: TcpStream,
}

impl Call {
    fn open(guest: &Guest, listener: &TcpListener, address: &str) -> Call {
        let guest = guest.netns.connect(at(address, 9000), PATIENCE).unwrap();
        let (server, _) = listener.accept().unwrap();
        for stream in [&guest, &server] {
            stream.set_nonblocking(false).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
        }
        Call { guest, server }
    }

    /// The server sends first, because a guest that only receives must still be served.
    fn works(&mut self) -> bool {
        self.say().is_ok()
    }

    fn is_cut(&mut self) -> bool {
        self.wait_at_most(SILENCE);
        let said = self.say();
        self.wait_at_most(PATIENCE);
        said.is_err()
    }

    fn wait_at_most(&self, patience: Duration) {
        for stream in [&self.guest, &self.server] {
            stream.set_read_timeout(Some(patience)).unwrap();
        }
    }

    fn say(&mut self) -> io::Result<()> {
        self.server.write_all(b"down")?;
        self.guest.read_exact(&mut [0; 4])?;
        self.guest.write_all(b"up")?;
        self.server.read_exact(&mut [0; 2])
    }
}

fn connects(guest: &Guest, address: &str) -> bool {
    guest.netns.connect(at(address, 80), PATIENCE).is_ok()
}

fn refuses(guest: &Guest, address: &str) -> bool {
    guest.netns.connect(at(address, 80), SILENCE).is_err()
}

/// Runs a blocking action of the guest on another thread than the pool's.
async fn as_guest<T: Send + 'static>(
    world: &World,
    guest: &Arc<Guest>,
    act: impl FnOnce(&Guest) -> T + Send + 'static,
) -> T {
    let guest = guest.clone();
    world.block(move || act(&guest)).await
}

#[test]
fn a_change_holds_for_open_connections_too() {
    World::run(|world| async move {
        let (_outside, listener) = outside();
        let (resolver, _) = names().serve(&world.scope).await;
        let pool = world.pool(NetSettings { resolvers: vec![resolver], ..world.settings() }).await;
        let slot = pool.take().await.unwrap();
        let guest = Arc::new(Guest::in_slot(&slot));
        let mut before = Call::open(&guest, &listener, OTHER);
        assert!(before.works());

        slot.set_egress(&only(&["web.test", "other.test"])).await.unwrap();
        assert!(before.is_cut(), "what was open before the list is cut if the list does not know it");
        assert_eq!(as_guest(&world, &guest, |guest| guest.resolve("web.test")).await, told(&[WEB]));
        assert_eq!(as_guest(&world, &guest, |guest| guest.resolve("other.test")).await, told(&[OTHER]));
        let mut web = Call::open(&guest, &listener, WEB);
        let mut other = Call::open(&guest, &listener, OTHER);
        assert!(web.works() && other.works());
        guest.echo(GUEST, at(OTHER, 7)).unwrap();

        slot.set_egress(&only(&["web.test"])).await.unwrap();
        assert!(web.works(), "what both lists allow goes on");
        let cut = other.guest.write_all(b"up").and_then(|()| other.guest.read_exact(&mut [0; 4])).unwrap_err();
        assert_eq!(cut.kind(), io::ErrorKind::ConnectionReset, "and what is cut is told so at once");
        other.server.write_all(b"down").unwrap();
        assert!(refuses(&guest, OTHER), "the address of a name that left the list is closed");
        assert!(guest.has_no_echo(GUEST, at(OTHER, 7)));
        assert!(connects(&guest, WEB), "the address of a name that stayed is open without asking again");
        assert_eq!(as_guest(&world, &guest, |guest| guest.resolve("other.test")).await, unlisted());

        slot.set_egress(&only(&["203.0.113.0/24"])).await.unwrap();
        assert!(web.works());
        assert!(connects(&guest, OTHER), "a longer list works at once");
        slot.set_egress(&only(&[])).await.unwrap();
        assert!(web.is_cut());
        slot.set_egress(&Egress::Open).await.unwrap();
        assert!(connects(&guest, OTHER) && connects(&guest, WEB));
        guest.echo(GUEST, at(OTHER, 7)).unwrap();
        assert_eq!(as_guest(&world, &guest, |guest| guest.resolve("other.test")).await, told(&[OTHER]));
        pool.close().await.unwrap();
    });
}

#[test]
fn replies_alone_do_not_keep_a_flow_open() {
    World::run(|world| async move {
        let (outside, _listener) = outside();
        let pool = world.pool(world.settings()).await;
        let slot = pool.take().await.unwrap();
        let guest = Guest::in_slot(&slot);
        let server = outside.netns().bind_udp(at(OTHER, 5000)).unwrap();
        server.set_nonblocking(false).unwrap();
        let socket = guest.netns.bind_udp((GUEST, 5001).into()).unwrap();
        socket.set_nonblocking(false).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.send_to(b"start", at(OTHER, 5000)).unwrap();
        let (_, back) = server.recv_from(&mut [0; 16]).unwrap();
        let hears = |egress: &str| {
            server.send_to(egress.as_bytes(), back).unwrap();
            socket.recv(&mut [0; 16]).is_ok()
        };
        assert!(hears("open"));
        slot.set_egress(&only(&["203.0.113.0/24"])).await.unwrap();
        assert!(hears("listed"), "the guest has not sent anything since");
        slot.set_egress(&only(&[])).await.unwrap();
        socket.set_read_timeout(Some(SILENCE)).unwrap();
        assert!(!hears("closed"));
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        slot.set_egress(&only(&[OTHER])).await.unwrap();
        assert!(hears("listed again"));
        pool.close().await.unwrap();
    });
}

#[test]
fn an_address_runs_out_and_its_connections_go_on() {
    World::run(|world| async move {
        let (_outside, listener) = outside();
        let zone = Zone { ttl: 0, ..names() };
        let (resolver, _) = zone.serve(&world.scope).await;
        let named_for = NameTtlBounds { floor: Duration::from_secs(3), ceiling: Duration::from_secs(6) };
        let pool = world.pool(NetSettings { resolvers: vec![resolver], named_for, ..world.settings() }).await;
        let slot = pool.take().await.unwrap();
        let guest = Arc::new(Guest::in_slot(&slot));
        slot.set_egress(&only(&["web.test", "other.test"])).await.unwrap();
        assert_eq!(as_guest(&world, &guest, |guest| guest.resolve("web.test")).await, told(&[WEB]));
        let mut call = Call::open(&guest, &listener, WEB);
        assert!(connects(&guest, WEB));
        let start = Instant::now();
        while connects(&guest, WEB) {
            assert!(start.elapsed() < DEADLINE, "the address stays open");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(call.works());
        slot.set_egress(&only(&["web.test"])).await.unwrap();
        assert!(call.works(), "a change remembers what the name stood for");
        assert!(refuses(&guest, WEB), "but opens nothing new");
        assert_eq!(as_guest(&world, &guest, |guest| guest.resolve("web.test")).await, told(&[WEB]));
        assert!(connects(&guest, WEB), "asking again opens it again");
        slot.set_egress(&only(&["other.test"])).await.unwrap();
        assert!(call.is_cut());
        pool.close().await.unwrap();
    });
}

#[test]
fn another_process_takes_a_restricted_slot_over() {
    World::run(|world| async move {
        let (_outside, listener) = outside();
        let (resolver, _) = names().serve(&world.scope).await;
        let settings = NetSettings { ready: 0, resolvers: vec![resolver], ..world.settings() };
        let crashed = Scope::new();
        let pool = NetPool::start(settings.clone(), &crashed).await.unwrap();
        let slot = pool.take().await.unwrap();
        let name = slot.name().to_owned();
        let guest = Arc::new(Guest::in_slot(&slot));
        let list = only(&["web.test"]);
        slot.set_egress(&list).await.unwrap();
        slot.set_bandwidth(Some(50)).await.unwrap();
        assert_eq!(as_guest(&world, &guest, |guest| guest.resolve("web.test")).await, told(&[WEB]));
        let mut call = Call::open(&guest, &listener, WEB);
        assert!(call.works());
        crashed.close(DEADLINE).await;
        drop((slot, pool));
        assert!(call.works() && refuses(&guest, OTHER), "nobody is there, and the wall stands");

        let next = Scope::new();
        let pool = NetPool::start(settings.clone(), &next).await.unwrap();
        let mut denials = pool.denials();
        let start = Instant::now();
        let slot = pool.adopt(&name, &list).await.unwrap();
        eprintln!("adopt a restricted slot: {:?}", start.elapsed());
        assert!(call.works(), "the same list lets the same connections through");
        assert!(connects(&guest, WEB), "and knows the same addresses");
        assert_eq!(as_guest(&world, &guest, |guest| guest.resolve("other.test")).await, unlisted());
        assert!(refuses(&guest, OTHER));
        hear(&mut denials, &name, &["other.test", "203.0.113.200:80/tcp"]).await;
        slot.set_bandwidth(None).await.unwrap();
        let shaped = slot.netns().run(|| run("tc", &["qdisc", "show", "dev", "up0"], "")).unwrap().unwrap();
        assert!(!shaped.contains("tbf"), "{shaped}");
        next.close(DEADLINE).await;
        drop((slot, pool));

        let pool = world.pool(settings).await;
        let slot = pool.adopt(&name, &only(&["other.test"])).await.unwrap();
        assert!(call.is_cut(), "another list lets other connections through");
        assert!(refuses(&guest, WEB));
        assert_eq!(as_guest(&world, &guest, |guest| guest.resolve("web.test")).await, unlisted());
        pool.give_back(slot).await.unwrap();
        pool.close().await.unwrap();
    });
}

/// Waits for these denials of a slot, in any order. Any other denial is an error.
async fn hear(denials: &mut Receiver<Denial>, slot: &str, targets: &[&str]) {
    let mut wanted: Vec<_> = targets.to_vec();
    while !wanted.is_empty() {
        let denial = tokio::time::timeout(DEADLINE, denials.recv()).await;
        let denial = denial.unwrap_or_else(|_| panic!("{wanted:?} are told")).unwrap();
        assert_eq!(denial.slot, slot);
        let at = wanted.iter().position(|target| *target == denial.target);
        wanted.remove(at.unwrap_or_else(|| panic!("{:?} was not expected; {wanted:?} are", denial.target)));
    }
}

/// Sends packets that are refused with any list: another source address, another MAC, IPv6. Each
/// more than once.
fn forge(guest: &Guest) {
    // A change of the MAC clears the neighbour table, and ARP from a forged MAC gets no answer.
    let knows = format!("neigh replace {GATEWAY} lladdr {GATEWAY_MAC} dev eth0 nud permanent\n");
    guest.ip(&format!("addr add 172.16.0.9/32 dev eth0\nlink set eth0 address 06:00:ac:10:00:03\n{knows}"));
    guest.ip(&format!("addr add fd00::2/64 dev eth0 nodad\n{}", knows.replace(&GATEWAY.to_string(), "fd00::1")));
    for _ in 0..3 {
        assert!(guest.has_no_echo(GUEST, at(WEB, 1001)));
    }
    guest.ip(&format!("link set eth0 address {GUEST_MAC}\n{knows}"));
    guest.ip(&knows.replace(&GATEWAY.to_string(), "fd00::1"));
    for _ in 0..3 {
        assert!(guest.has_no_echo(Ipv4Addr::new(172, 16, 0, 9), at(WEB, 1002)));
        assert!(guest.netns.connect("[fd00::1]:443".parse().unwrap(), SILENCE).is_err());
    }
}

#[test]
fn denials_are_told_once_each() {
    World::run(|world| async move {
        let (_outside, _listener) = outside();
        let zone = names().with("rebind.test", &["10.1.2.3", WEB]);
        let (resolver, _) = zone.serve(&world.scope).await;
        let pool = world.pool(NetSettings { resolvers: vec![resolver], ..world.settings() }).await;
        let slot = pool.take().await.unwrap();
        let guest = Arc::new(Guest::in_slot(&slot));
        let mut denials = pool.denials();
        assert!(refuses(&guest, "10.1.2.3"), "the host's own policy is not a list's business");
        slot.set_egress(&only(&["web.test", "rebind.test"])).await.unwrap();
        as_guest(&world, &guest, |guest| {
            for _ in 0..3 {
                assert_eq!(guest.resolve("web.test"), told(&[WEB]));
                assert_eq!(guest.resolve("rebind.test"), told(&[WEB]));
                assert_eq!(guest.resolve("Other.test"), unlisted());
                assert!(connects(guest, WEB));
                assert!(refuses(guest, OTHER));
                assert!(guest.netns.connect(at(OTHER, 443), SILENCE).is_err());
                assert!(guest.has_no_echo(GUEST, at(OTHER, 53)));
                assert!(guest.netns.connect(at("172.16.0.1", 80), SILENCE).is_err());
            }
            forge(guest);
        })
        .await;
        let expected = [
            "rebind.test (10.1.2.3)",
            "Other.test",
            "203.0.113.200:80/tcp",
            "203.0.113.200:443/tcp",
            "203.0.113.200:53/udp",
            "172.16.0.1:80/tcp",
            "203.0.113.7:1001/udp",
            "203.0.113.7:1002/udp",
            "[fd00::1]:443/tcp",
        ];
        hear(&mut denials, slot.name(), &expected).await;
        assert_eq!(denials.try_recv(), Err(TryRecvError::Empty), "each target once, and nothing that was allowed");
        pool.close().await.unwrap();
    });
}

/// Parts of connections that a sealed guest had from its gateway: FIN, RST, data, and the answer to
/// a connection.
const LEFT_FLAGS: [u8; 4] = [0x11, 0x04, 0x18, 0x12];
/// How many of them get an answer: a reset gets none.
const RESETS: usize = 3;
const RST: u8 = 0x04;

#[test]
fn connections_that_a_seal_left_are_reset_and_not_told() {
    World::run(|world| async move {
        let (resolver, _) = names().serve(&world.scope).await;
        let pool = world.pool(NetSettings { resolvers: vec![resolver], ..world.settings() }).await;
        let slot = pool.take().await.unwrap();
        let guest = Arc::new(Guest::in_slot(&slot));
        slot.set_egress(&only(&[])).await.unwrap();
        let mut denials = pool.denials();
        let resets = as_guest(&world, &guest, |guest| {
            let resets = guest.netns.run(|| go_on_with_connections(40_000)).unwrap();
            assert!(guest.netns.connect(at("172.16.0.1", 80), PATIENCE).is_err());
            resets
        })
        .await;
        assert_eq!(resets, RESETS, "the guest learns that they are gone");
        hear(&mut denials, slot.name(), &["172.16.0.1:80/tcp"]).await;
        assert_eq!(denials.try_recv(), Err(TryRecvError::Empty), "only a new connection is an attempt");
        pool.close().await.unwrap();
    });
}

/// Sends packets of connections that the gateway does not know, each to a port of its own. Returns
/// how many were reset.
fn go_on_with_connections(first_port: u16) -> usize {
    let raw = socket(AddressFamily::Inet, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::Tcp).unwrap();
    setsockopt(&raw, sockopt::ReceiveTimeout, &TimeVal::seconds(20)).unwrap();
    let [a, b, c, d] = GATEWAY.octets();
    for (port, flags) in (first_port..).zip(LEFT_FLAGS) {
        let mut packet = vec![0x19, 0x20];
        packet.extend(port.to_be_bytes());
        packet.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, flags, 0x20, 0, 0, 0, 0, 0]);
        let sum = checksum(&packet);
        packet[16..18].copy_from_slice(&sum.to_be_bytes());
        sendto(raw.as_raw_fd(), &packet, &SockaddrIn::new(a, b, c, d, 0), MsgFlags::empty()).unwrap();
    }
    let mut resets = 0;
    while resets < RESETS {
        let mut answer = [0; 128];
        let size = recv(raw.as_raw_fd(), &mut answer, MsgFlags::empty()).expect("each of them is reset");
        let header = usize::from(answer[0] & 0xf) * 4;
        let is_mine = size >= header + 20 && answer[12..16] == GATEWAY.octets();
        resets += usize::from(is_mine && answer[header + 13] & RST != 0);
    }
    resets
}

/// The checksum of a TCP packet from the guest to its gateway.
fn checksum(packet: &[u8]) -> u16 {
    let length = u16::try_from(packet.len()).unwrap().to_be_bytes();
    let around = [GUEST.octets(), GATEWAY.octets()].concat();
    let all = around.into_iter().chain([0, 6]).chain(length).chain(packet.iter().copied()).collect::<Vec<_>>();
    let mut sum: u32 = all.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).unwrap()
}

#[test]
fn a_guest_that_knocks_everywhere_is_not_told_of_everywhere() {
    World::run(|world| async move {
        let (resolver, _) = names().serve(&world.scope).await;
        let pool = world.pool(NetSettings { resolvers: vec![resolver], ..world.settings() }).await;
        let slot = pool.take().await.unwrap();
        let guest = Arc::new(Guest::in_slot(&slot));
        slot.set_egress(&only(&[])).await.unwrap();
        let mut denials = pool.denials();
        as_guest(&world, &guest, |guest| {
            for number in 0..200 {
                assert_eq!(guest.resolve(&format!("n{number}.test")), unlisted());
            }
        })
        .await;
        let mut heard = 0;
        while denials.try_recv().is_ok() {
            heard += 1;
        }
        assert_eq!(heard, 64);
        pool.give_back(slot).await.unwrap();
        pool.close().await.unwrap();
    });
}

#[test]
fn a_restricted_slot_leaves_no_task_and_no_namespace() {
    World::run(|world| async move {
        let pool = world.pool(NetSettings { ready: 0, ..world.settings() }).await;
        let before = world.scope.tasks();
        let mut took = Duration::ZERO;
        for _ in 0..20 {
            let slot = pool.take().await.unwrap();
            let start = Instant::now();
            slot.set_egress(&only(&["web.test", "*.web.test", "203.0.113.0/24"])).await.unwrap();
            took += start.elapsed();
            assert_eq!(world.scope.tasks(), before + 2, "the relay, and the watch for denials");
            pool.give_back(slot).await.unwrap();
        }
        eprintln!("restrict a slot: {:?}", took / 20);
        assert_eq!(world.scope.tasks(), before);
        pool.close().await.unwrap();
        assert!(pandastack_host::net::leftovers(&world.instance).await.unwrap().is_empty());
    });
}
