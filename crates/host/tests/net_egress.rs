//! Tests of what a guest with an egress list can and cannot reach. Each target that must be out of
//! reach is first shown to answer, and packets are counted where they would arrive.

use std::{
    io::BufRead as _,
    net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket},
    os::fd::AsRawFd as _,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Instant,
};

use crate::net_support::{
    Guest, PATIENCE, SILENCE, World, here,
    outside::{OutsideNetwork, run},
    zone::{Zone, told, unlisted},
};
use hickory_proto::{op::ResponseCode, rr::RecordType};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, sendto, socket};
use pandastack_host::net::{
    GATEWAY, GUEST, NAMED_WRITES_AT_ONCE, NAMED_WRITES_PER_SECOND, NetPool, NetSettings, NetSlot,
};
use pandastack_model::Egress;
use pandastack_sys::netns::Netns;

const WEB: &str = "203.0.113.7";
const OTHER: &str = "203.0.113.200";

fn at(address: impl std::fmt::Display, port: u16) -> SocketAddr {
    format!("{address}:{port}").parse().unwrap()
}

fn only(rules: &[&str]) -> Egress {
    Egress::Only(rules.iter().map(|rule| rule.parse().unwrap()).collect())
}

/// An outside world with a greeter on port 80 of every address.
fn outside(addresses: &[&str]) -> OutsideNetwork {
    let parsed: Vec<Ipv4Addr> = addresses.iter().map(|address| address.parse().unwrap()).collect();
    let mut outside = OutsideNetwork::new(&parsed).unwrap();
    outside.greet(at("0.0.0.0", 80)).unwrap();
    for address in addresses {
        assert!(here().connect(at(address, 80), PATIENCE).is_ok(), "{address} must answer, or the test proves nothing");
    }
    outside
}

struct Stage {
    pool: Arc<NetPool>,
    slot: NetSlot,
    guest: Arc<Guest>,
    asked: Arc<std::sync::atomic::AtomicUsize>,
}

impl Stage {
    async fn set(world: &World, zone: Zone, settings: impl FnOnce(NetSettings) -> NetSettings) -> Stage {
        let (resolver, asked) = zone.serve(&world.scope).await;
        let pool = world.pool(settings(NetSettings { resolvers: vec![resolver], ..world.settings() })).await;
        let slot = pool.take().await.unwrap();
        let guest = Arc::new(Guest::in_slot(&slot));
        Stage { pool, slot, guest, asked }
    }

    /// Runs a blocking action of the guest while the pool keeps running.
    async fn guest<T: Send + 'static>(&self, world: &World, act: impl FnOnce(&Guest) -> T + Send + 'static) -> T {
        let guest = self.guest.clone();
        world.block(move || act(&guest)).await
    }
}

fn connects(guest: &Guest, address: &str) -> bool {
    guest.netns.connect(at(address, 80), PATIENCE).is_ok()
}

fn refuses(guest: &Guest, address: &str) -> bool {
    guest.netns.connect(at(address, 80), SILENCE).is_err()
}

#[test]
fn a_listed_name_opens_its_address_and_nothing_else() {
    World::run(|world| async move {
        let _outside = outside(&[WEB, OTHER]);
        let zone = Zone { ttl: 300, ..Zone::default() }.with("web.test", &[WEB]).with("other.test", &[OTHER]);
        let stage = Stage::set(&world, zone.with("sub.web.test", &[OTHER]), |it| it).await;
        let start = Instant::now();
        stage.slot.set_egress(&only(&["web.test"])).await.unwrap();
        eprintln!("restrict a slot: {:?}", start.elapsed());
        stage
            .guest(&world, |guest| {
                assert!(refuses(guest, WEB), "nobody has asked for the name yet");
                for name in ["other.test", "sub.web.test", "xweb.test", "test", "web.test.evil.test", "."] {
                    assert_eq!(guest.resolve(name), unlisted(), "{name}");
                    assert_eq!(guest.resolve_by_stream(name), unlisted(), "{name}");
                }
            })
            .await;
        assert_eq!(stage.asked.load(Ordering::Relaxed), 0, "the resolver never hears of unlisted names");
        stage
            .guest(&world, |guest| {
                let start = Instant::now();
                assert_eq!(guest.resolve("WEB.test."), told(&[WEB]));
                eprintln!("the first answer: {:?}", start.elapsed());
                let start = Instant::now();
                assert_eq!(guest.resolve("web.test"), told(&[WEB]));
                eprintln!("the same answer again: {:?}", start.elapsed());
                assert_eq!(guest.resolve_by_stream("web.test"), told(&[WEB]));
                assert!(connects(guest, WEB));
                assert!(refuses(guest, OTHER));
                for kind in [RecordType::AAAA, RecordType::HTTPS, RecordType::ANY] {
                    assert_eq!(guest.resolve_as("web.test", kind), told(&[]), "{kind}");
                    assert_eq!(guest.resolve_as("other.test", kind), unlisted(), "{kind}");
                }
            })
            .await;
        stage.pool.close().await.unwrap();
    });
}

#[test]
fn suffixes_aliases_and_networks() {
    World::run(|world| async move {
        let _outside = outside(&[WEB, OTHER, "203.0.113.8", "198.18.7.7"]);
        let zone = Zone { ttl: 300, ..Zone::default() }
            .with("web.test", &[OTHER])
            .with_alias("a.web.test", "cdn.elsewhere.test")
            .with("cdn.elsewhere.test", &[WEB]);
        let stage = Stage::set(&world, zone, |it| it).await;
        stage.slot.set_egress(&only(&["*.web.test", "203.0.113.8", "198.18.0.0/16"])).await.unwrap();
        stage
            .guest(&world, |guest| {
                assert_eq!(guest.resolve("web.test"), unlisted(), "a suffix does not mean the name itself");
                assert_eq!(guest.resolve("cdn.elsewhere.test"), unlisted(), "where an alias leads is no listed name");
                assert_eq!(guest.resolve("a.web.test"), told(&[WEB]));
                assert_eq!(guest.resolve("gone.web.test").0, ResponseCode::NXDomain);
                assert!(connects(guest, WEB));
                assert!(refuses(guest, OTHER));
                assert!(connects(guest, "203.0.113.8"), "an address on the list needs no name");
                assert!(refuses(guest, "198.18.7.7"), "a list opens no network that the host denies");
            })
            .await;
        stage.pool.close().await.unwrap();
    });
}

#[test]
fn an_empty_list_is_nothing_at_all() {
    World::run(|world| async move {
        let outside = outside(&[WEB, OTHER]);
        let zone = Zone { ttl: 300, ..Zone::default() }.with("web.test", &[WEB]);
        let stage = Stage::set(&world, zone, |it| it).await;
        let counter = Counter::of(&outside, OTHER);
        stage.guest(&world, |guest| attack(guest, OTHER)).await;
        let before = counter.read();
        assert!(before.0 > 0 && before.1 > 0, "without a list the attacks arrive: {before:?}");
        for egress in [only(&[]), only(&["web.test", "203.0.113.0/25"])] {
            stage.slot.set_egress(&egress).await.unwrap();
            stage.guest(&world, |guest| attack(guest, OTHER)).await;
            assert_eq!(counter.read(), before, "{egress:?} let something through");
        }
        stage.slot.set_egress(&only(&[])).await.unwrap();
        assert_eq!(stage.guest(&world, |guest| guest.resolve("web.test")).await, unlisted());
        assert_eq!(stage.asked.load(Ordering::Relaxed), 0);
        stage.pool.close().await.unwrap();
    });
}

/// Counts the packets that arrive at an address of the outside: all, and those that are neither TCP
/// nor UDP.
struct Counter<'a>(&'a OutsideNetwork);

impl Counter<'_> {
    fn of<'a>(outside: &'a OutsideNetwork, address: &str) -> Counter<'a> {
        let rules = format!(
            "table ip count {{ counter every {{ }}; counter odd {{ }};
               chain c {{ type filter hook prerouting priority raw;
                 ip daddr {address} counter name every; ip daddr {address} ip protocol != {{ tcp, udp }} counter name \
                 odd; }}; }}\n"
        );
        outside.netns().run(|| run("nft", &["-f", "-"], &rules)).unwrap().unwrap();
        Counter(outside)
    }

    fn read(&self) -> (u64, u64) {
        let listed = self.0.netns().run(|| run("nft", &["list", "counters"], "")).unwrap().unwrap();
        let packets = |name: &str| {
            let words = listed.split_whitespace().skip_while(|word| *word != name);
            words.skip_while(|word| *word != "packets").nth(1).unwrap().parse().unwrap()
        };
        (packets("every"), packets("odd"))
    }
}

/// Tries many ways to reach an address that the list does not contain.
fn attack(guest: &Guest, address: &str) {
    for port in [80, 443, 53, 853] {
        let _ = guest.netns.connect(at(address, port), SILENCE);
    }
    let to: Ipv4Addr = address.parse().unwrap();
    let forged = Ipv4Addr::new(198, 51, 100, 250);
    guest
        .netns
        .run(|| {
            let udp = UdpSocket::bind("0.0.0.0:0").unwrap();
            for port in [53, 443, 7] {
                let _ = udp.send_to(&crate::net_support::zone::question("web.test", RecordType::A), at(address, port));
            }
            for (from, protocol) in [(GUEST, 1), (GUEST, 17), (GUEST, 47), (GUEST, 253), (forged, 17), (GATEWAY, 17)] {
                send_raw(from, to, protocol);
            }
        })
        .unwrap();
    // With another MAC, and with another address.
    guest.ip("link set eth0 address 06:00:ac:10:00:03\n");
    let _ = guest.has_no_echo(GUEST, at(address, 7));
    guest.ip("link set eth0 address 06:00:ac:10:00:02\naddr add 172.16.0.9/32 dev eth0\n");
    let _ = guest.has_no_echo(Ipv4Addr::new(172, 16, 0, 9), at(address, 7));
    guest
        .ip("addr del 172.16.0.9/32 dev eth0\nroute replace default via 172.16.0.1\naddr replace fd00::2/64 dev eth0 \
        nodad\n");
    let connected = guest.netns.connect("[fd00::1]:53".parse().unwrap(), SILENCE);
    assert!(connected.is_err(), "there is no IPv6");
}

/// Sends a packet with a header that we write ourselves: an ICMP echo, a UDP datagram, or a body of
/// zeros.
fn send_raw(from: Ipv4Addr, to: Ipv4Addr, protocol: u8) {
    let body: &[u8] = match protocol {
        1 => &[8, 0, 0xf7, 0xfe, 0, 1, 0, 0],
        17 => &[0x0f, 0xa0, 0, 7, 0, 8, 0, 0],
        _ => &[0; 16],
    };
    let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0];
    packet.extend(from.octets());
    packet.extend(to.octets());
    packet.extend(body);
    // The kernel fills in the length and the checksum of the header.
    let raw = socket(AddressFamily::Inet, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::Raw).unwrap();
    let [a, b, c, d] = to.octets();
    let _ = sendto(raw.as_raw_fd(), &packet, &SockaddrIn::new(a, b, c, d, 0), MsgFlags::empty());
}

#[test]
fn a_name_opens_no_address_that_the_host_denies() {
    World::run(|world| async move {
        const PRIVATE: [&str; 4] = ["10.9.8.7", "192.168.77.1", "169.254.169.254", "100.100.100.200"];
        let outside = outside(&[&PRIVATE[..], &[WEB]].concat());
        let listener = TcpListener::bind("0.0.0.0:80").unwrap();
        let near: &'static str = outside.near_address().to_string().leak();
        let zone = Zone { ttl: 300, ..Zone::default() }
            .with("rebind.test", &[&PRIVATE[..], &["127.0.0.1", "172.16.0.1", "0.0.0.0", WEB]].concat())
            .with("all-private.test", &PRIVATE)
            .with("host.test", &[near]);
        let stage = Stage::set(&world, zone, |it| it).await;
        let other = stage.pool.take().await.unwrap();
        let neighbour = Guest::in_slot(&other);
        let _agent = neighbour.netns.listen_tcp(at("0.0.0.0", 80)).unwrap();
        let uplink = other.uplink_address();
        let list = only(&["rebind.test", "all-private.test", "host.test", "10.0.0.0/8", "0.0.0.0/0"]);
        for egress in [only(&["rebind.test", "all-private.test", "host.test", "10.0.0.0/8", "169.254.0.0/16"]), list] {
            stage.slot.set_egress(&egress).await.unwrap();
            stage
                .guest(&world, move |guest| {
                    assert_eq!(guest.resolve("rebind.test"), told(&[WEB]), "only what can be reached is told");
                    assert_eq!(guest.resolve_by_stream("all-private.test"), told(&[]));
                    assert_eq!(guest.resolve("host.test"), told(&[near]), "it looks like any public address");
                    for address in PRIVATE.into_iter().chain(["172.16.0.1", "127.0.0.1", near]) {
                        assert!(refuses(guest, address) || address == "127.0.0.1", "{address}");
                    }
                    assert!(refuses(guest, &uplink.to_string()), "a neighbour");
                    assert!(connects(guest, WEB));
                })
                .await;
        }
        drop(listener);
        stage.pool.close().await.unwrap();
    });
}

#[test]
fn the_operators_exceptions_hold_for_names_and_networks() {
    World::run(|world| async move {
        let _outside = outside(&["10.9.8.7", "10.9.8.8", "10.9.9.9", WEB]);
        let zone = Zone { ttl: 300, ..Zone::default() }.with("inner.test", &["10.9.8.7", "10.9.8.8", WEB]);
        let settings = |it: NetSettings| NetSettings {
            allow_nets: vec!["10.9.8.0/24".parse().unwrap()],
            deny_nets: vec!["10.9.8.8".parse().unwrap(), WEB.parse().unwrap()],
            ..it
        };
        let stage = Stage::set(&world, zone, settings).await;
        stage.slot.set_egress(&only(&["inner.test"])).await.unwrap();
        stage
            .guest(&world, |guest| {
                assert_eq!(guest.resolve("inner.test"), told(&["10.9.8.7"]));
                assert!(connects(guest, "10.9.8.7"));
                assert!(refuses(guest, "10.9.8.8") && refuses(guest, WEB), "refused is refused");
            })
            .await;
        stage.slot.set_egress(&only(&["10.9.0.0/16", WEB])).await.unwrap();
        stage
            .guest(&world, |guest| {
                assert!(connects(guest, "10.9.8.7"));
                for address in ["10.9.8.8", "10.9.9.9", WEB] {
                    assert!(refuses(guest, address), "{address}");
                }
            })
            .await;
        stage.pool.close().await.unwrap();
    });
}

#[test]
fn an_address_is_open_before_its_name_is_answered() {
    World::run(|world| async move {
        let addresses: Vec<&'static str> = (1..=40).map(|last| &*format!("203.0.113.{last}").leak()).collect();
        let _outside = outside(&addresses);
        let zone = addresses.iter().fold(Zone { ttl: 300, ..Zone::default() }, |zone, address| {
            zone.with(format!("n{}.web.test", address.rsplit('.').next().unwrap()).leak(), &[address])
        });
        let stage = Stage::set(&world, zone, |it| it).await;
        stage.slot.set_egress(&only(&["*.web.test"])).await.unwrap();
        let start = Instant::now();
        stage
            .guest(&world, move |guest| {
                // One by one, and then many at once: several answers then share one write.
                for last in 1..=8 {
                    assert!(resolve_and_connect(guest, last), "{last}");
                }
                std::thread::scope(|scope| {
                    let all: Vec<_> =
                        (9..=40).map(|last| scope.spawn(move || resolve_and_connect(guest, last))).collect();
                    assert!(all.into_iter().all(|one| one.join().unwrap()));
                });
            })
            .await;
        eprintln!("40 names resolved and called: {:?}", start.elapsed());
        stage.pool.close().await.unwrap();
    });
}

#[test]
fn many_new_names_cost_few_writes() {
    World::run(|world| async move {
        const NAMES: u32 = 1000;
        const ASKERS: u32 = 16;
        let address = |number: u32| Ipv4Addr::from_bits(Ipv4Addr::new(203, 0, 0, 0).to_bits() + 256 + number);
        let reached: Vec<String> = (0..ASKERS).map(|number| address(number).to_string()).collect();
        let _outside = outside(&reached.iter().map(String::as_str).collect::<Vec<_>>());
        let zone = (0..NAMES).fold(Zone { ttl: 300, ..Zone::default() }, |zone, number| {
            zone.with(format!("n{number}.web.test").leak(), &[&address(number).to_string()])
        });
        let stage = Stage::set(&world, zone, |it| it).await;
        stage.slot.set_egress(&only(&["*.web.test"])).await.unwrap();
        let writes = Writes::watch(&stage.slot);
        let start = Instant::now();
        let told = stage
            .guest(&world, move |guest| {
                std::thread::scope(|scope| {
                    let askers: Vec<_> = (0..ASKERS)
                        .map(|asker| {
                            let ask = move |number: u32| {
                                let (code, addresses) = guest.resolve(&format!("n{number}.web.test"));
                                assert_eq!((code, addresses), (ResponseCode::NoError, vec![address(number)]));
                                // Only the first name of each asker is also connected to.
                                number >= ASKERS || connects(guest, &address(number).to_string())
                            };
                            scope.spawn(move || (asker..NAMES).step_by(ASKERS as usize).filter(|it| ask(*it)).count())
                        })
                        .collect();
                    askers.into_iter().map(|asker| asker.join().unwrap()).sum::<usize>()
                })
            })
            .await;
        assert_eq!(told, NAMES as usize, "an address that was told is reachable");
        let (took, writes, counts) = (start.elapsed(), writes.count(), stage.slot.name_counts());
        eprintln!("{NAMES} new names: {writes} writes in {took:?}; {counts:?}");
        let bound = NAMED_WRITES_AT_ONCE + NAMED_WRITES_PER_SECOND * (took.as_secs() as u32 + 1);
        assert!(writes > 0 && writes <= bound, "{writes} writes to the kernel, at most {bound} in {took:?}");
        assert_eq!(u64::from(writes), counts.updates);
        // All addresses are open now, so asking for a name again costs no write.
        let again = stage.guest(&world, |guest| guest.resolve("n7.web.test")).await;
        assert_eq!((again.0, stage.slot.name_counts().updates), (ResponseCode::NoError, counts.updates));
        stage.pool.close().await.unwrap();
    });
}

/// Counts the transactions that open addresses of names in a slot, as `nft monitor` reports them.
struct Writes {
    monitor: std::process::Child,
    heard: Arc<Heard>,
    slot: Arc<Netns>,
}

#[derive(Default)]
struct Heard {
    writes: AtomicU32,
    first: AtomicBool,
    last: AtomicBool,
}

impl Heard {
    fn listen(&self, monitor: impl std::io::Read) {
        let mut is_write = false;
        for line in std::io::BufReader::new(monitor).lines().map_while(Result::ok) {
            is_write |= line.starts_with("add element inet pandastack named ");
            if line.starts_with("# new generation") {
                self.writes.fetch_add(u32::from(is_write), Ordering::Relaxed);
                is_write = false;
            }
            self.first.fetch_or(line.starts_with("add counter inet pandastack first "), Ordering::Relaxed);
            self.last.fetch_or(line.starts_with("add counter inet pandastack last "), Ordering::Relaxed);
        }
    }
}

impl Writes {
    fn watch(slot: &NetSlot) -> Writes {
        let spawn = || Command::new("nft").arg("monitor").stdout(Stdio::piped()).spawn();
        let mut monitor = slot.netns().run(spawn).unwrap().unwrap();
        let (heard, output) = (Arc::<Heard>::default(), monitor.stdout.take().unwrap());
        let listener = heard.clone();
        std::thread::spawn(move || listener.listen(output));
        let writes = Writes { monitor, heard, slot: slot.netns().clone() };
        writes.mark("first", &writes.heard.first);
        writes
    }

    fn count(self) -> u32 {
        self.mark("last", &self.heard.last);
        self.heard.writes.load(Ordering::Relaxed)
    }

    /// Repeats a change until the monitor reports it. All earlier changes are reported by then.
    fn mark(&self, name: &str, heard: &AtomicBool) {
        let deadline = Instant::now() + PATIENCE;
        while !heard.load(Ordering::Relaxed) {
            assert!(Instant::now() < deadline, "nft monitor does not tell of {name}");
            let rules = format!("add counter inet pandastack {name}\ndelete counter inet pandastack {name}\n");
            self.slot.run(|| run("nft", &["-f", "-"], &rules)).unwrap().unwrap();
        }
    }
}

impl Drop for Writes {
    fn drop(&mut self) {
        let _ = self.monitor.kill();
        let _ = self.monitor.wait();
    }
}

fn resolve_and_connect(guest: &Guest, last: u8) -> bool {
    let (code, addresses) = guest.resolve(&format!("n{last}.web.test"));
    assert_eq!((code, addresses.len()), (ResponseCode::NoError, 1));
    connects(guest, &addresses[0].to_string())
}

#[test]
fn an_open_slot_is_left_alone() {
    World::run(|world| async move {
        let pool = world.pool(world.settings()).await;
        let slot = pool.take().await.unwrap();
        // If the rules were written again, the tables would be back.
        let list = || slot.netns().run(|| run("nft", &["list", "tables"], "")).unwrap().unwrap();
        slot.netns().run(|| run("nft", &["flush", "ruleset"], "")).unwrap().unwrap();
        let start = Instant::now();
        slot.set_egress(&Egress::Open).await.unwrap();
        slot.set_bandwidth(None).await.unwrap();
        eprintln!("nothing to change: {:?}", start.elapsed());
        assert_eq!(list(), "");
        slot.set_egress(&only(&["web.test"])).await.unwrap();
        let mut tables: Vec<String> = list().lines().map(str::to_owned).collect();
        tables.sort();
        let whole = ["arp", "inet", "netdev"].map(|family| format!("table {family} pandastack"));
        assert_eq!(tables, whole, "rules are written whole, whatever was there");
        pool.close().await.unwrap();
    });
}
