//! What a guest can and cannot reach, tested from inside real guests. Every refused target is first
//! reached from outside: an address without a server proves nothing.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use pandastack_e2e::{PATIENCE, collect, python, read_until, run, shell, start, without_standby};
use pandastack_host::net::{GATEWAY, GUEST};
use pandastack_model::SandboxId;
use pandastack_sys::netns::Netns;
use pandastack_testbed::{
    Bed,
    outside::{OutsideNetwork, ip},
    with_bed,
};

const PORT: u16 = 7411;
const METADATA: Ipv4Addr = Ipv4Addr::new(169, 254, 169, 254);
/// One address of each private network.
const PRIVATE: [Ipv4Addr; 4] = [
    Ipv4Addr::new(10, 99, 77, 1),
    Ipv4Addr::new(172, 29, 77, 1),
    Ipv4Addr::new(192, 168, 177, 1),
    Ipv4Addr::new(100, 127, 77, 1),
];

#[tokio::test]
async fn a_guest_reaches_public_addresses_but_no_private_network_and_no_metadata() {
    let mut outside = OutsideNetwork::new(&[&PRIVATE[..], &[METADATA]].concat()).unwrap();
    outside.greet(at(Ipv4Addr::UNSPECIFIED)).unwrap();
    let refused = [&PRIVATE[..], &[METADATA]].concat();
    for address in &refused {
        TcpStream::connect_timeout(&at(*address), PATIENCE).expect("the host itself reaches the server");
    }
    with_bed(
        without_standby(),
        |net| net,
        async |bed| {
            let id = bed.create().await.unwrap();
            let answers = probe(bed, id, &refused, &[outside.far_address()]).await;
            for address in &refused {
                assert_eq!(answers[address], "refused", "{address}");
            }
            assert_eq!(
                answers[&outside.far_address()],
                outside.near_address().to_string(),
                "outside sees the host's address"
            );
        },
    )
    .await;
}

#[tokio::test]
async fn a_guest_reaches_a_private_network_only_if_the_operator_allows_it() {
    let mut outside = OutsideNetwork::new(&PRIVATE[..2]).unwrap();
    outside.greet(at(Ipv4Addr::UNSPECIFIED)).unwrap();
    let settings = |mut net: pandastack_host::net::NetSettings| {
        net.allow_nets = vec!["10.99.77.0/24".parse().unwrap()];
        net
    };
    with_bed(without_standby(), settings, async |bed| {
        let id = bed.create().await.unwrap();
        let answers = probe(bed, id, &PRIVATE[1..2], &PRIVATE[..1]).await;
        assert_eq!(answers[&PRIVATE[0]], outside.near_address().to_string());
        assert_eq!(answers[&PRIVATE[1]], "refused");
    })
    .await;
}

#[tokio::test]
async fn a_guest_reaches_no_address_of_its_host() {
    let mut outside = OutsideNetwork::new(&[]).unwrap();
    outside.greet(at(Ipv4Addr::UNSPECIFIED)).unwrap();
    let listener = Listener::start(at(Ipv4Addr::UNSPECIFIED));
    with_bed(
        without_standby(),
        |net| net,
        async |bed| {
            let id = bed.create().await.unwrap();
            let (uplink, outer) = uplink_of(bed, id).await;
            // The gateway's address belongs to the namespace. A listener there must be as
            // unreachable as the host's.
            let netns = netns_of(bed, id).await;
            let _inside = netns.listen_tcp(at(Ipv4Addr::UNSPECIFIED)).unwrap();
            netns.connect(at(GATEWAY), PATIENCE).expect("the listener at the gateway's address is there");
            let mut addresses = host_addresses();
            assert!(addresses.contains(&outer), "{outer} should be the host's end of the link; it has {addresses:?}");
            assert!(addresses.contains(&outside.near_address()), "{addresses:?}");
            for address in &addresses {
                TcpStream::connect_timeout(&at(*address), PATIENCE)
                    .expect("the host's listener answers on each of its addresses");
            }
            listener.wait_until_called(addresses.len()).await;
            let called = addresses.len();
            addresses.extend([uplink, GATEWAY]);
            let mut answers = probe(bed, id, &addresses, &[outside.far_address()]).await;
            assert!(is_address(&answers.remove(&outside.far_address()).unwrap()), "the probe itself works");
            for (address, answer) in answers {
                assert_eq!(answer, "refused", "{address}");
            }
            assert_eq!(listener.calls.load(Ordering::Relaxed), called, "a call from the guest arrived");
        },
    )
    .await;
}

#[tokio::test]
async fn a_guest_reaches_no_other_sandbox() {
    let mut outside = OutsideNetwork::new(&[]).unwrap();
    outside.greet(at(Ipv4Addr::UNSPECIFIED)).unwrap();
    with_bed(
        without_standby(),
        |net| net,
        async |bed| {
            let (one, two) = tokio::join!(bed.create(), bed.create());
            let (one, two) = (one.unwrap(), two.unwrap());
            let script = format!(
                "import socket\ns=socket.create_server(('0.0.0.0',{PORT}))\nprint('listening',flush=True)\n\
             while True:\n c,a=s.accept()\n c.sendall(b'sibling\\n')\n c.close()"
            );
            let mut serving = start(bed, two, python(&script)).await.unwrap();
            read_until(&mut serving, "listening").await;
            let dialled = netns_of(bed, two).await.connect(at(GUEST), PATIENCE);
            dialled.expect("the sibling's server answers to whoever is in its namespace");
            let (uplink, outer) = uplink_of(bed, two).await;
            let answers = probe(bed, one, &[uplink, outer], &[outside.far_address()]).await;
            assert!(is_address(&answers[&outside.far_address()]), "the probe itself works");
            assert_eq!((answers[&uplink].as_str(), answers[&outer].as_str()), ("refused", "refused"));
            // Both have the same address, so the guest reaches itself, where nothing listens.
            assert_eq!(probe(bed, one, &[GUEST], &[]).await[&GUEST], "refused");
            let seen = run(bed, one, shell("cat /proc/net/arp | tail -n +2 | awk '{print $1}'")).await.out();
            assert!(seen.lines().all(|line| line == GATEWAY.to_string()), "the guest has neighbours: {seen}");
            drop(serving);
        },
    )
    .await;
}

#[tokio::test]
async fn names_are_resolved_by_the_hosts_resolver_and_lead_outside() {
    let mut outside = OutsideNetwork::new(&[]).unwrap();
    outside.greet(at(Ipv4Addr::UNSPECIFIED)).unwrap();
    let resolver = Resolver::start(outside.far_address());
    let address = resolver.address;
    let settings = |mut net: pandastack_host::net::NetSettings| {
        net.resolvers = vec![address];
        net
    };
    with_bed(without_standby(), settings, async |bed| {
        let id = bed.create().await.unwrap();
        let script = format!(
            "import socket\nprint(socket.gethostbyname('outside.test'))\n\
             s=socket.create_connection(('outside.test',{PORT}),120)\nprint(s.recv(64).decode().strip())"
        );
        let ran = run(bed, id, python(&script)).await;
        assert_eq!(ran.out(), format!("{}\n{}\n", outside.far_address(), outside.near_address()), "{}", ran.err());
        assert!(resolver.questions.load(Ordering::Relaxed) > 0);
    })
    .await;
}

#[tokio::test]
async fn the_agents_port_answers_to_the_host_alone() {
    with_bed(
        without_standby(),
        |net| net,
        async |bed| {
            let (one, two) = tokio::join!(bed.create(), bed.create());
            let (one, two) = (one.unwrap(), two.unwrap());
            let (uplink, _) = uplink_of(bed, two).await;
            let agent = SocketAddr::from((uplink, 1050));
            assert!(
                TcpStream::connect_timeout(&agent, Duration::from_secs(1)).is_err(),
                "the uplink leads to the agent"
            );
            let script = format!(
                "import socket\ntry: socket.create_connection(('{uplink}',1050),2)\nexcept OSError: print('refused')"
            );
            assert_eq!(collect(start(bed, one, python(&script)).await.unwrap()).await.out(), "refused\n");
        },
    )
    .await;
}

fn at(address: Ipv4Addr) -> SocketAddr {
    SocketAddr::from((address, PORT))
}

fn is_address(answer: &str) -> bool {
    answer.parse::<Ipv4Addr>().is_ok()
}

/// A guest connects to every address at once. Returns the first line from each, or `refused`. Those
/// that must answer have all the time of a slow machine.
async fn probe(bed: &Bed, id: SandboxId, closed: &[Ipv4Addr], open: &[Ipv4Addr]) -> BTreeMap<Ipv4Addr, String> {
    let script = "import socket,sys,threading\n\
        lock=threading.Lock()\n\
        def call(a,seconds):\n\
        \x20try:\n\
        \x20 with socket.create_connection((a,int(sys.argv[1])),seconds) as s: said=s.recv(64).decode().strip() or 'open'\n\
        \x20except OSError: said='refused'\n\
        \x20with lock: print(a,said)\n\
        count=int(sys.argv[2])\n\
        calls=[threading.Thread(target=call,args=(a,6)) for a in sys.argv[3:3+count]]\n\
        calls+=[threading.Thread(target=call,args=(a,120)) for a in sys.argv[3+count:]]\n\
        [c.start() for c in calls]\n\
        [c.join() for c in calls]";
    let mut ask = python(script);
    if let pandastack_wire_fleet::Program::Argv(words) = &mut ask.program {
        words.extend([PORT.to_string(), closed.len().to_string()]);
        words.extend(closed.iter().chain(open).map(Ipv4Addr::to_string));
    }
    let ran = run(bed, id, ask).await;
    assert_eq!(ran.code(), 0, "{}", ran.err());
    let out = ran.out();
    let answers: BTreeMap<Ipv4Addr, String> = out
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(a, said)| (a.parse().unwrap(), said.to_owned()))
        .collect();
    assert_eq!(answers.len(), closed.len() + open.len(), "{out}");
    answers
}

/// The network namespace of a sandbox's machine.
async fn netns_of(bed: &Bed, id: SandboxId) -> Netns {
    let pid = bed.host.machine_pid(id).await.expect("the machine has a process");
    Netns::open(&PathBuf::from(format!("/proc/{pid}/ns/net"))).unwrap()
}

/// A namespace's own address towards the host, and the host's towards it.
async fn uplink_of(bed: &Bed, id: SandboxId) -> (Ipv4Addr, Ipv4Addr) {
    let netns = netns_of(bed, id).await;
    let (own, route) = netns
        .run(|| (ip(&["-4", "-o", "addr", "show", "dev", "up0"], ""), ip(&["-4", "route", "show", "default"], "")))
        .unwrap();
    let (own, route) = (own.unwrap(), route.unwrap());
    let word_after = |text: &str, word: &str| {
        let mut words = text.split_whitespace().skip_while(|found| *found != word);
        words.nth(1).and_then(|address| address.split('/').next()).and_then(|a| a.parse::<Ipv4Addr>().ok())
    };
    (word_after(&own, "inet").expect("an uplink"), word_after(&route, "via").expect("a way out"))
}

/// Every address of the host except loopback.
fn host_addresses() -> Vec<Ipv4Addr> {
    let listed = ip(&["-4", "-o", "addr", "show", "scope", "global"], "").unwrap();
    let words = listed.lines().filter_map(|line| line.split_whitespace().skip_while(|word| *word != "inet").nth(1));
    words.filter_map(|address| address.split('/').next()?.parse().ok()).collect()
}

/// A server on the host that counts its connections.
struct Listener {
    calls: Arc<AtomicUsize>,
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    fn start(address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        listener.set_nonblocking(true).unwrap();
        let (calls, end) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (counter, ended) = (calls.clone(), end.clone());
        let thread = std::thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok(_) => drop(counter.fetch_add(1, Ordering::Relaxed)),
                    Err(_) => std::thread::sleep(Duration::from_millis(5)),
                }
            }
        });
        Self { calls, end, thread: Some(thread) }
    }

    async fn wait_until_called(&self, times: usize) {
        let counted = async || (self.calls.load(Ordering::Relaxed) == times).then_some(());
        pandastack_testbed::wait_for("the listener's calls", PATIENCE, counted).await;
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// A resolver on loopback that returns one address for every name.
struct Resolver {
    address: SocketAddr,
    questions: Arc<AtomicUsize>,
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Resolver {
    fn start(answer: Ipv4Addr) -> Self {
        let socket = UdpSocket::bind((IpAddr::from(Ipv4Addr::LOCALHOST), 0)).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let address = socket.local_addr().unwrap();
        let (questions, end) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (counter, ended) = (questions.clone(), end.clone());
        let thread = std::thread::spawn(move || {
            let mut buffer = [0; 1500];
            while !ended.load(Ordering::Relaxed) {
                let Ok((length, from)) = socket.recv_from(&mut buffer) else { continue };
                counter.fetch_add(1, Ordering::Relaxed);
                let _ = socket.send_to(&reply(&buffer[..length], answer), from);
            }
        });
        Self { address, questions, end, thread: Some(thread) }
    }
}

impl Drop for Resolver {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Answers a query: the address for an address query, else nothing.
fn reply(question: &[u8], address: Ipv4Addr) -> Vec<u8> {
    let name = question[12..].iter().position(|byte| *byte == 0).unwrap();
    let end = 12 + name + 5;
    let wants_address = question[end - 4..end - 2] == [0, 1];
    let mut reply = question[..end].to_vec();
    reply[2..4].copy_from_slice(&[0x81, 0x80]);
    reply[6..12].copy_from_slice(&[0, u8::from(wants_address), 0, 0, 0, 0]);
    if wants_address {
        reply.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
        reply.extend(address.octets());
    }
    reply
}
