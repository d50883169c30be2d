//! Attacks on egress lists and bandwidth limits from inside real guests. Each blocked target is
//! first reached by an unlisted guest, and packets are counted at their destination.

use std::{
    collections::BTreeMap,
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use pandastack_e2e::{PATIENCE, python, read_until, run, start, without_standby};
use pandastack_host::net::NetSettings;
use pandastack_model::{Egress, SandboxId, SandboxSpec};
use pandastack_testbed::{
    Bed,
    outside::{OutsideNetwork, run as run_here},
    spec, with_bed,
};
use pandastack_wire_fleet::{EnsureParams, HostEvent, HostPort};

const PORT: u16 = 7412;
/// Addresses that no parallel test routes.
const FORBIDDEN: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 141);
const REBOUND: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 99, 78, 1), Ipv4Addr::new(192, 168, 178, 1)];
const NAMED: [Ipv4Addr; 2] = [Ipv4Addr::new(203, 0, 113, 142), Ipv4Addr::new(203, 0, 113, 143)];

/// Kinds of packets that only the test makes, with their match expressions.
const HAND_MADE: [(&str, &str); 4] = [
    ("echo", "ip protocol icmp"),
    ("tunnel", "ip protocol 47"),
    ("own_protocol", "ip protocol 253"),
    ("datagram", "udp sport 4000"),
];
/// How such a packet left its guest, shown by the number that it carries.
const WAYS: [(&str, u16); 2] = [("raw", 1001), ("frame", 1002)];

/// Sends a datagram from another address, then one from another MAC address, each to its own port.
/// Both must leave the guest.
const FORGE: &str = r#"
import fcntl, socket, struct, sys
to = sys.argv[1]
names = [name for _, name in socket.if_nameindex() if name != 'lo']
gateway, own, other = (bytes.fromhex(t) for t in ('0600ac100001', '0600ac100002', '0600ac100009'))
control = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
def inet(address): return struct.pack('=HH4s8x', 2, 0, socket.inet_aton(address))
def card_address(mac): fcntl.ioctl(control, 0x8924, struct.pack('16sH6s16x', names[0].encode(), 1, mac))
def known_gateway(): fcntl.ioctl(control, 0x8955, inet('172.16.0.1') + struct.pack('=H6s8xi16x16s', 1, gateway, 6, names[0].encode()))
def forge(text, by_address, by_card):
    alias = (names[0] + ':1').encode()
    fcntl.ioctl(control, 0x8916, struct.pack('16s16s8x', alias, inet('172.16.0.9')))
    second = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    second.bind(('172.16.0.9', 0))
    second.sendto(text, (to, by_address))
    print('sent from', second.getsockname()[0])
    fcntl.ioctl(control, 0x8914, struct.pack('16sh22x', alias, 0))
    card_address(other)
    try:
        known_gateway()
        control.sendto(text, (to, by_card))
        print('sent as', fcntl.ioctl(control, 0x8927, struct.pack('16s24x', names[0].encode()))[18:24].hex())
    finally: card_address(own)
"#;

/// All attacks of a guest's root: other ports and resolvers, all kinds of queries for an unlisted
/// name, ICMP, hand-made packets and frames with own and forged senders, another address, another
/// MAC address, IPv6. Each line of output is an attempt that got an answer, a count of hand-made
/// packets, or a change that the guest could make.
const ATTACK: &str = r#"
for port in (int(sys.argv[2]), 53, 443, 853):
    try:
        socket.create_connection((to, port), 60 if port == int(sys.argv[2]) else 2); print('tcp', port)
    except OSError: pass
def ask(way, kind):
    q = b'\x12\x35\x01\0\0\x01\0\0\0\0\0\0\x05other\x04test\0\0' + bytes([kind]) + b'\0\x01'
    if way == 'udp':
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(60)
        s.sendto(q, ('172.16.0.1', 53)); answer = s.recv(1500)
    else:
        s = socket.create_connection(('172.16.0.1', 53), 60)
        s.sendall(struct.pack('!H', len(q)) + q); answer = s.recv(1500)[2:]
    if answer[3] & 15 == 0: print('dns', way, kind)
for way in ('udp', 'tcp'):
    for kind in (1, 5, 16): ask(way, kind)
query = b'\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x03web\x04test\0\0\x01\0\x01'
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for port in (53, 443, 7): 
    try: udp.sendto(query, (to, port))
    except OSError: pass
def packet(number, source, protocol, body):
    return struct.pack('!BBHHHBBH4s4s', 0x45, 0, 20 + len(body), number, 0, 64, protocol, 0, socket.inet_aton(source), socket.inet_aton(to)) + body
def packets(number):
    echo, datagram = b'\x08\0\xf7\xfe\0\x01\0\0', b'\x0f\xa0\0\x07\0\x08\0\0'
    every = [('172.16.0.2', 1, echo), ('172.16.0.2', 17, datagram), ('172.16.0.2', 47, bytes(16)), ('172.16.0.2', 253, bytes(16)),
        ('198.51.100.250', 17, datagram), ('172.16.0.1', 17, datagram)]
    return [packet(number, *one) for one in every]
def summed(p):
    s = sum(struct.unpack('!10H', p[:20])); s = (s & 0xffff) + (s >> 16); s = (s & 0xffff) + (s >> 16)
    return p[:10] + struct.pack('!H', ~s & 0xffff) + p[12:]
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
print('raw', sum(raw.sendto(p, (to, 0)) == len(p) for p in packets(1001)))
card = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
card.bind((names[0], 0))
frames = [gateway + mac + b'\x08\0' + summed(p) for p in packets(1002) for mac in (own, other, gateway)]
frames.append(gateway + own + b'\x86\xdd' + bytes([0x60, 0, 0, 0, 0, 8, 17, 64]) + bytes(32) + b'\x0f\xa0\0\x07\0\x08\0\0')
print('frame', sum(card.send(frame) == len(frame) for frame in frames))
forge(query, 7, 7)
try:
    six = socket.create_connection(('fd00::1', 53), 2); print('ipv6')
except OSError: pass
print('done')
"#;

/// Blocked traffic other than connections: another resolver, ICMP, an unknown protocol, the
/// gateway's other ports, IPv6, another address, another MAC address.
const KNOCK: &str = r#"
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', (to, 53))
socket.socket(socket.AF_INET, socket.SOCK_RAW, 1).sendto(b'\x08\0\xf7\xfe\0\x01\0\0', (to, 0))
socket.socket(socket.AF_INET, socket.SOCK_RAW, 253).sendto(bytes(16), (to, 0))
try:
    socket.create_connection(('172.16.0.1', 80), 5); sys.exit('the gateway answers')
except OSError: pass
card = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
card.bind((names[0], 0))
sender, target = (bytes.fromhex('20010db8' + '00' * 11 + last) for last in ('02', '09'))
card.send(bytes.fromhex('0600ac1000010600ac10000286dd' '6000000000081140') + sender + target + b'\x0f\xa0\0\x07\0\x08\0\0')
forge(b'x', 1002, 1001)
"#;

fn only(rules: &[&str]) -> Egress {
    Egress::Only(rules.iter().map(|rule| rule.parse().unwrap()).collect())
}

fn at(address: Ipv4Addr) -> SocketAddr {
    SocketAddr::from((address, PORT))
}

async fn create(bed: &Bed, change: impl FnOnce(&mut SandboxSpec)) -> SandboxId {
    let (id, mut spec) = (SandboxId::random(), spec("mini"));
    change(&mut spec);
    bed.host.ensure(EnsureParams { id, generation: 1, spec }).await.unwrap();
    id
}

/// Runs a script with arguments and returns its output.
async fn script(bed: &Bed, id: SandboxId, text: &str, arguments: &[&str]) -> String {
    let mut ask = python(text);
    if let pandastack_wire_fleet::Program::Argv(words) = &mut ask.program {
        words.extend(arguments.iter().map(|word| (*word).to_owned()));
    }
    let ran = run(bed, id, ask).await;
    assert_eq!(ran.code(), 0, "{}", ran.err());
    ran.out()
}

/// The result of a guest's connection to each target: `open` or `refused`.
async fn calls(bed: &Bed, id: SandboxId, targets: &[&str]) -> Vec<String> {
    let text = "import socket,sys\nfor t in sys.argv[2:]:\n\
        \x20try: socket.create_connection((t,int(sys.argv[1])),60).recv(64); print('open')\n\
        \x20except OSError: print('refused')";
    let port = PORT.to_string();
    let out = script(bed, id, text, &[&[port.as_str()], targets].concat()).await;
    out.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn a_list_cannot_be_walked_around() {
    let mut outside = OutsideNetwork::new(&[FORBIDDEN]).unwrap();
    outside.greet(at(Ipv4Addr::UNSPECIFIED)).unwrap();
    TcpStream::connect_timeout(&at(FORBIDDEN), PATIENCE).expect("the host itself reaches the server");
    let zone = Zone::start(&[("web.test", &[outside.far_address()]), ("other.test", &[FORBIDDEN])]);
    let counter = Counter::of(&outside, FORBIDDEN);
    let (target, port, attack) = (FORBIDDEN.to_string(), PORT.to_string(), format!("{FORGE}{ATTACK}"));
    with_bed(without_standby(), zone.settings(), async |bed| {
        let free = create(bed, |_| {}).await;
        let said = script(bed, free, &attack, &[&target, &port]).await;
        let questions = "dns udp 1\ndns udp 5\ndns udp 16\ndns tcp 1\ndns tcp 5\ndns tcp 16\n";
        let made = "raw 6\nframe 19\nsent from 172.16.0.9\nsent as 0600ac100009\n";
        assert_eq!(said, format!("tcp {PORT}\n{questions}{made}done\n"), "without a list there are answers");
        let asked = zone.heard("other.test");
        assert!(asked >= 6, "and the resolver hears of it");
        let before = counter.read();
        // Each kind arrives in each way without a list, so the list is what blocks it below. Forged
        // senders never arrive.
        for part in HAND_MADE.iter().flat_map(|(kind, _)| WAYS.map(|(way, _)| format!("{kind}_{way}"))) {
            assert_eq!(before[&part], 1, "{part}: {before:?}");
        }
        assert!(before["every"] > 8, "and so does the rest: {before:?}");
        for list in [only(&["web.test"]), only(&[]), only(&["web.test", "203.0.113.0/26"])] {
            let id = create(bed, |spec| spec.egress = list.clone()).await;
            assert_eq!(script(bed, id, &attack, &[&target, &port]).await, format!("{made}done\n"), "{list:?}");
            assert_eq!(calls(bed, id, &[&target, "other.test"]).await, ["refused", "refused"]);
            let listed = if list == only(&[]) { "refused" } else { "open" };
            assert_eq!(calls(bed, id, &["web.test"]).await, [listed], "{list:?}");
            assert_eq!(counter.read(), before, "{list:?} let something through");
            assert_eq!(zone.heard("other.test"), asked, "{list:?} let a question through");
            bed.host.remove(id).await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn a_listed_name_opens_no_private_address_and_no_host() {
    let mut outside = OutsideNetwork::new(&REBOUND).unwrap();
    outside.greet(at(Ipv4Addr::UNSPECIFIED)).unwrap();
    for address in REBOUND {
        TcpStream::connect_timeout(&at(address), PATIENCE).expect("the host itself reaches the server");
    }
    let metadata = Ipv4Addr::new(169, 254, 169, 254);
    let listener = TcpListener::bind(at(outside.near_address())).unwrap();
    let zone = Zone::start(&[
        ("rebind.test", &[REBOUND[0], REBOUND[1], metadata]),
        ("host.test", &[outside.near_address()]),
        ("mixed.test", &[REBOUND[0], outside.far_address()]),
    ]);
    with_bed(without_standby(), zone.settings(), async |bed| {
        let list = only(&["rebind.test", "host.test", "mixed.test", "10.0.0.0/8", "192.168.0.0/16"]);
        let id = create(bed, |spec| spec.egress = list).await;
        let private: Vec<_> = REBOUND.iter().map(Ipv4Addr::to_string).collect();
        let targets = ["rebind.test", "host.test", &private[0], &private[1], "mixed.test"];
        assert_eq!(calls(bed, id, &targets).await, ["refused", "refused", "refused", "refused", "open"]);
        let told = script(bed, id, "import socket; print(socket.gethostbyname_ex('mixed.test')[2])", &[]).await;
        assert_eq!(told, format!("['{}']\n", outside.far_address()), "what cannot be reached is not told");
    })
    .await;
    drop(listener);
}

#[tokio::test]
async fn a_suffix_opens_the_names_below_it_and_a_network_its_addresses() {
    let mut outside = OutsideNetwork::new(&NAMED).unwrap();
    outside.greet(at(Ipv4Addr::UNSPECIFIED)).unwrap();
    for address in NAMED {
        TcpStream::connect_timeout(&at(address), PATIENCE).expect("the host itself reaches the server");
    }
    let zone = Zone::start(&[
        ("a.web.test", &[NAMED[0]]),
        ("deep.er.web.test", &[NAMED[0]]),
        ("web.test", &[NAMED[1]]),
        ("a-web.test", &[NAMED[1]]),
    ]);
    let (far, other) = (outside.far_address().to_string(), NAMED[1].to_string());
    with_bed(without_standby(), zone.settings(), async |bed| {
        let free = create(bed, |_| {}).await;
        let targets = ["a.web.test", "deep.er.web.test", &far, "web.test", "a-web.test", &other];
        assert_eq!(calls(bed, free, &targets).await, ["open"; 6], "all of them answer whoever may ask");
        let (bare, alike) = (zone.heard("web.test"), zone.heard("a-web.test"));
        let list = only(&["*.web.test", &format!("{far}/32")]);
        let id = create(bed, |spec| spec.egress = list).await;
        let open = ["open", "open", "open", "refused", "refused", "refused"];
        assert_eq!(calls(bed, id, &targets).await, open);
        assert_eq!((zone.heard("web.test"), zone.heard("a-web.test")), (bare, alike), "nobody was asked for these");
    })
    .await;
}

#[tokio::test]
async fn a_list_changes_under_a_running_guest_and_through_its_sleep() {
    let mut outside = OutsideNetwork::new(&[]).unwrap();
    outside.greet(at(Ipv4Addr::UNSPECIFIED)).unwrap();
    let listener = outside.netns().listen_tcp(SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT + 1))).unwrap();
    listener.set_nonblocking(false).unwrap();
    let zone = Zone::start(&[("web.test", &[outside.far_address()])]);
    with_bed(without_standby(), zone.settings(), async |bed| {
        let id = create(bed, |spec| (spec.egress, spec.persistent) = (only(&["web.test"]), true)).await;
        let text = format!(
            "import socket\ns=socket.create_connection(('web.test',{}),120)\nprint('connected',flush=True)\n\
             while True:\n try: d=s.recv(64)\n except OSError: break\n if not d: break\n print(d.decode(),flush=True)\n\
             \x20try: s.sendall(b'ok')\n except OSError: break\nprint('cut',flush=True)",
            PORT + 1
        );
        let mut session = start(bed, id, python(&text)).await.unwrap();
        read_until(&mut session, "connected").await;
        let (mut server, _) = listener.accept().unwrap();
        server.write_all(b"before").unwrap();
        read_until(&mut session, "before").await;
        bed.host.set_egress(id, only(&["web.test", "more.test"])).await.unwrap();
        server.write_all(b"after").unwrap();
        read_until(&mut session, "after").await;

        bed.host.set_egress(id, only(&[])).await.unwrap();
        assert_eq!(calls(bed, id, &["web.test"]).await, ["refused"]);
        drop(session);
        bed.host.sleep(id).await.unwrap();
        bed.host.set_egress(id, only(&["web.test"])).await.unwrap();
        assert_eq!(calls(bed, id, &["web.test"]).await, ["open"], "what was set in its sleep holds when it wakes");
        bed.host.sleep(id).await.unwrap();
        let other = outside.far_address().to_string();
        assert_eq!(calls(bed, id, &[&other]).await, ["refused"], "a woken guest starts with no address open");
        bed.host.set_egress(id, Egress::Open).await.unwrap();
        assert_eq!(calls(bed, id, &[&other]).await, ["open"]);
    })
    .await;
}

#[tokio::test]
async fn denials_are_events_of_the_sandbox() {
    let outside = OutsideNetwork::new(&[]).unwrap();
    let zone = Zone::start(&[]);
    with_bed(without_standby(), zone.settings(), async |bed| {
        let mut events = bed.host.events();
        let id = create(bed, |spec| spec.egress = only(&["web.test"])).await;
        let address = outside.far_address().to_string();
        assert_eq!(calls(bed, id, &["evil.test", &address]).await, ["refused", "refused"]);
        script(bed, id, &format!("{FORGE}{KNOCK}"), &[&address]).await;
        let mut wanted = vec!["evil.test".to_owned(), "172.16.0.1:80/tcp".to_owned(), "[2001:db8::9]:7/udp".to_owned()];
        // The last two came from a forged address and a forged MAC address.
        let ends = [&format!(":{PORT}/tcp"), ":53/udp", "/icmp", "/protocol-253", ":1002/udp", ":1001/udp"];
        wanted.extend(ends.map(|end| format!("{address}{end}")));
        while !wanted.is_empty() {
            let event = tokio::time::timeout(PATIENCE, events.recv()).await;
            let event = event.unwrap_or_else(|_| panic!("{wanted:?} are told")).unwrap();
            if let HostEvent::Denied { id: whose, target } = event {
                assert_eq!(whose, id);
                wanted.retain(|wanted| *wanted != target);
            }
        }
    })
    .await;
}

/// Sends or receives until the guest closes, and returns the number of bytes.
fn talk(mut stream: TcpStream, pour: bool) -> u64 {
    let (mut buffer, mut all) = (vec![7; 64 * 1024], 0);
    loop {
        match if pour { stream.write(&buffer) } else { stream.read(&mut buffer) } {
            Ok(0) | Err(_) => return all,
            Ok(moved) => all += moved as u64,
        }
    }
}

/// Counts the packets that arrive at an outside address: all of them, and the hand-made ones by
/// kind and way.
struct Counter<'a>(&'a OutsideNetwork);

impl Counter<'_> {
    fn of(outside: &OutsideNetwork, address: Ipv4Addr) -> Counter<'_> {
        let mut counters = vec![("every".to_owned(), String::new())];
        for ((kind, rule), (way, number)) in HAND_MADE.into_iter().flat_map(|kind| WAYS.map(|way| (kind, way))) {
            counters.push((format!("{kind}_{way}"), format!("ip id {number} {rule} ")));
        }
        let mut rules = "table ip count {\n".to_owned();
        for (name, _) in &counters {
            rules.push_str(&format!("counter {name} {{ }}\n"));
        }
        rules.push_str("chain c {\ntype filter hook prerouting priority raw;\n");
        for (name, rule) in &counters {
            rules.push_str(&format!("ip daddr {address} {rule}counter name {name}\n"));
        }
        rules.push_str("}\n}\n");
        outside.netns().run(|| run_here("nft", &["-f", "-"], &rules)).unwrap().unwrap();
        Counter(outside)
    }

    /// Returns the packets of each counter.
    fn read(&self) -> BTreeMap<String, u64> {
        let listed = self.0.netns().run(|| run_here("nft", &["list", "counters"], "")).unwrap().unwrap();
        let words: Vec<&str> = listed.split_whitespace().collect();
        // As in `counter every { packets 12 bytes 720 }`.
        let counters = words.windows(5).filter(|words| words[0] == "counter" && words[3] == "packets");
        counters.map(|words| (words[1].to_owned(), words[4].parse().unwrap())).collect()
    }
}

/// A resolver on loopback that knows a few names. Every other name has no addresses.
struct Zone {
    address: SocketAddr,
    heard: Arc<Mutex<Vec<String>>>,
    end: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Zone {
    fn start(names: &[(&str, &[Ipv4Addr])]) -> Zone {
        let names: Vec<(String, Vec<Ipv4Addr>)> =
            names.iter().map(|(name, addresses)| ((*name).to_owned(), addresses.to_vec())).collect();
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let address = socket.local_addr().unwrap();
        let listener = TcpListener::bind(address).unwrap();
        listener.set_nonblocking(true).unwrap();
        let (end, heard) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let answer = {
            let heard = heard.clone();
            Arc::new(move |question: &[u8]| {
                let (name, answer) = reply(question, &names);
                heard.lock().unwrap().push(name);
                answer
            })
        };
        let (ended, answered) = (end.clone(), answer.clone());
        let by_udp = std::thread::spawn(move || {
            let mut buffer = [0; 1500];
            while !ended.load(Ordering::Relaxed) {
                let Ok((length, from)) = socket.recv_from(&mut buffer) else { continue };
                let _ = socket.send_to(&answered(&buffer[..length]), from);
            }
        });
        let ended = end.clone();
        let by_tcp = std::thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((stream, _)) => drop(answer_once(stream, &*answer)),
                    Err(_) => std::thread::sleep(Duration::from_millis(10)),
                }
            }
        });
        Zone { address, heard, end, threads: vec![by_udp, by_tcp] }
    }

    /// How often a name was queried.
    fn heard(&self, name: &str) -> usize {
        self.heard.lock().unwrap().iter().filter(|heard| *heard == name).count()
    }

    fn settings(&self) -> impl FnOnce(NetSettings) -> NetSettings + use<> {
        let address = self.address;
        move |net| NetSettings { resolvers: vec![address], ..net }
    }
}

impl Drop for Zone {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Answers the first query of a connection.
fn answer_once(mut stream: TcpStream, answer: impl Fn(&[u8]) -> Vec<u8>) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut question = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut question)?;
    let answer = answer(&question);
    stream.write_all(&[&(answer.len() as u16).to_be_bytes()[..], &answer].concat())
}

/// Answers an address query for a known name, and any other with nothing. Returns the name, too.
fn reply(question: &[u8], names: &[(String, Vec<Ipv4Addr>)]) -> (String, Vec<u8>) {
    let mut labels = Vec::new();
    let mut end = 12;
    while question[end] != 0 {
        let next = end + 1 + usize::from(question[end]);
        labels.push(String::from_utf8_lossy(&question[end + 1..next]).to_lowercase());
        end = next;
    }
    end += 5;
    let wants_addresses = question[end - 4..end - 2] == [0, 1];
    let asked = labels.join(".");
    let known = names.iter().find(|(name, _)| *name == asked).filter(|_| wants_addresses);
    let addresses = known.map_or(&[][..], |(_, addresses)| addresses);
    let mut reply = question[..end].to_vec();
    reply[2..4].copy_from_slice(&[0x81, 0x80]);
    reply[6..12].copy_from_slice(&[0, addresses.len() as u8, 0, 0, 0, 0]);
    for address in addresses {
        reply.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
        reply.extend(address.octets());
    }
    (asked, reply)
}

/// Sends until the limit can be seen.
mod deep {
    use super::*;

    #[tokio::test]
    async fn a_bandwidth_limit_holds_in_both_directions() {
        /// As low as possible: a guest on a slow computer must be able to exceed it.
        const MBPS: u32 = 1;
        /// Burst that may pass before the limit holds.
        const BURST_BYTES: f64 = 65536.0;
        let outside = OutsideNetwork::new(&[]).unwrap();
        let server = Arc::new(outside.netns().listen_tcp(at(Ipv4Addr::UNSPECIFIED)).unwrap());
        server.set_nonblocking(false).unwrap();
        let text = "import socket,sys,time\ns=socket.create_connection((sys.argv[1],int(sys.argv[2])),30)\n\
            s.settimeout(5)\nend,n,b=time.monotonic()+3,0,bytes(65536)\n\
            while time.monotonic()<end:\n\
            \x20try: n+=s.send(b) if sys.argv[3]=='up' else len(s.recv(65536))\n\
            \x20except OSError: break\n\
            print(n)";
        with_bed(
            without_standby(),
            |net| net,
            async |bed| {
                let limited = create(bed, |spec| spec.bandwidth_mbps = Some(MBPS)).await;
                let free = create(bed, |_| {}).await;
                let (address, port) = (outside.far_address().to_string(), PORT.to_string());
                for direction in ["down", "up"] {
                    let mut counts = Vec::new();
                    for id in [limited, free] {
                        let (server, began) = (server.clone(), Instant::now());
                        let peer = std::thread::spawn(move || talk(server.accept().unwrap().0, direction == "down"));
                        let said = script(bed, id, text, &[&address, &port, direction]).await;
                        let moved = peer.join().unwrap();
                        // Counted at the destination: much of the sent data may still be in flight.
                        let arrived = if direction == "down" { said.trim().parse().unwrap() } else { moved };
                        counts.push((arrived, began.elapsed().as_secs_f64()));
                    }
                    // The time includes more than the transfer, and a loaded host only reduces the
                    // count.
                    let most = |seconds: f64| (f64::from(MBPS) * 1e6 / 8.0 * seconds + BURST_BYTES) as u64;
                    let [(slow, slow_seconds), (fast, fast_seconds)] = counts[..] else { panic!("two guests") };
                    assert!(slow > 0, "{direction}: a limit is not a wall");
                    assert!(slow < most(slow_seconds), "{direction}: {slow} bytes in {slow_seconds} s");
                    assert!(
                        fast > most(fast_seconds),
                        "{direction}: this computer is slower than the limit: {counts:?}"
                    );
                }
            },
        )
        .await;
    }
}
