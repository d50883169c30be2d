//! The rebirth contract on real machines. `docs/fork-correctness.md` names the test of each of its
//! sentences.

mod clocks;
mod connections;
mod naming;
mod randomness;
mod wakes;

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpStream},
    path::PathBuf,
    time::Duration,
};

use pandastack_e2e::{PATIENCE, without_standby};
use pandastack_host::{Ledger, net::GUEST};
use pandastack_model::SandboxId;
use pandastack_sys::netns::Netns;
use pandastack_testbed::{Bed, with_bed};
use pandastack_wire_guest::{AGENT_PORT, Decoder, ErrorKind, FrameKind, GENERATION, Hello, Message};

/// Maximum difference between a guest's clock and its host's.
const CLOCK_SKEW_MAX: Duration = Duration::from_millis(500);

/// How long machines are paused or asleep: a clock that stopped with them would be noticeably late.
const STANDSTILL: Duration = Duration::from_secs(3);

/// Port of the resident.
const RESIDENT_PORT: u16 = 8100;

/// A process that stays in a guest through every operation and evaluates expressions. It has used
/// OpenSSL's generator and Python's own before the first request.
const RESIDENT: &str = r#"
import ctypes, os, random, secrets, socket, socketserver, ssl, struct, threading, time, uuid

GENERATION = '/run/pandastack/generation'
generation = lambda: open(GENERATION).read()
life = generation()

def renew():
    global life
    if generation() != life:
        life = generation()
        random.seed()
        ssl.RAND_add(os.urandom(32), 32)

context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

def client_random():
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    try: context.wrap_bio(received, sent, server_hostname='example.org').do_handshake()
    except ssl.SSLWantReadError: pass
    return sent.read()[11:43].hex()

def in_a_child(work):
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.write(writer, work().encode())
        os._exit(0)
    os.wait()
    return os.read(reader, 4096).decode()

least, samples = 1.0, 0

def watch():
    global least, samples
    clocks = time.CLOCK_MONOTONIC, time.CLOCK_MONOTONIC_RAW, time.CLOCK_BOOTTIME
    before = [time.clock_gettime(clock) for clock in clocks]
    while True:
        now = [time.clock_gettime(clock) for clock in clocks]
        least = min([least] + [b - a for a, b in zip(before, now)])
        before, samples = now, samples + 1
        time.sleep(0.001)

libc = ctypes.CDLL(None)
timers = {}

def set_timer(name, clock, flags, seconds):
    timers[name] = libc.timerfd_create(clock, os.O_NONBLOCK)
    spec = struct.pack('qqqq', 0, 0, int(seconds), int(seconds % 1 * 1e9))
    return libc.timerfd_settime(timers[name], flags, spec, None)

def left(name):
    spec = ctypes.create_string_buffer(32)
    libc.timerfd_gettime(timers[name], spec)
    _, _, seconds, nanoseconds = struct.unpack('qqqq', spec.raw)
    return seconds + nanoseconds / 1e9

def is_due(name):
    try: return len(os.read(timers[name], 8)) == 8
    except BlockingIOError: return False

def dial(address, port):
    global call
    call = socket.create_connection((address, port), 120)
    return 'connected'

def say(line):
    try:
        call.sendall(line.encode() + b'\n')
        said = call.recv(4096)
    except OSError as error: return type(error).__name__
    return said.decode().strip() or 'closed'

with socket.create_server(('127.0.0.1', 0)) as server:
    within = socket.create_connection(server.getsockname()), server.accept()[0]

def say_within(line):
    within[0].sendall(line.encode())
    return within[1].recv(4096).decode()

class Answer(socketserver.StreamRequestHandler):
    def handle(self):
        try: said = str(eval(self.rfile.readline().decode(), globals()))
        except Exception as error: said = repr(error)
        self.wfile.write(said.encode() + b'\n')

ssl.RAND_bytes(16), client_random(), random.random()
socketserver.TCPServer.allow_reuse_address = True
socketserver.TCPServer(('0.0.0.0', 8100), Answer).serve_forever()
"#;

/// Runs a test's body on one sandbox with a resident.
async fn with_resident(body: impl AsyncFnOnce(&Bed, SandboxId)) {
    with_bed(
        without_standby(),
        |net| net,
        async |bed| {
            let id = bed.create().await.unwrap();
            settle_resident(bed, id).await;
            body(bed, id).await;
        },
    )
    .await;
}

/// Starts a resident and waits until it answers.
async fn settle_resident(bed: &Bed, id: SandboxId) {
    bed.out(id, &format!("cat > /root/resident.py <<'END'\n{RESIDENT}\nEND")).await;
    bed.out(id, "setsid python3 /root/resident.py > /root/resident.log 2>&1 &").await;
    let netns = netns_of(bed, id).await;
    let settled = async {
        while netns.connect((GUEST, RESIDENT_PORT).into(), PATIENCE).is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    if tokio::time::timeout(PATIENCE, settled).await.is_err() {
        let log = bed.out(id, "cat /root/resident.log; ps; dmesg | tail").await;
        panic!("the resident does not answer: {log}");
    }
}

/// Evaluates an expression in a sandbox's resident.
async fn ask(bed: &Bed, id: SandboxId, expression: &str) -> String {
    let stream = dial(bed, id, RESIDENT_PORT).await;
    (&stream).write_all(format!("{expression}\n").as_bytes()).unwrap();
    let mut said = String::new();
    BufReader::new(stream).read_line(&mut said).unwrap();
    said.trim_end().to_owned()
}

/// Evaluates an expression to a number.
async fn number(bed: &Bed, id: SandboxId, expression: &str) -> f64 {
    let said = ask(bed, id, expression).await;
    said.parse().unwrap_or_else(|_| panic!("{expression} is {said}"))
}

/// Connects to a guest's port from its namespace, as the host does.
async fn dial(bed: &Bed, id: SandboxId, port: u16) -> TcpStream {
    let stream = netns_of(bed, id).await.connect(SocketAddr::from((GUEST, port)), PATIENCE).unwrap();
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// The network namespace of a sandbox's machine.
async fn netns_of(bed: &Bed, id: SandboxId) -> Netns {
    let pid = bed.host.machine_pid(id).await.expect("the machine has a process");
    Netns::open(&PathBuf::from(format!("/proc/{pid}/ns/net"))).unwrap()
}

/// The host's secret for a sandbox's agent.
async fn secret_of(bed: &Bed, id: SandboxId) -> Vec<u8> {
    let ledger = Ledger::open(&bed.data_dir.join("ledger.db")).await.unwrap();
    let rows = ledger.sandboxes().await.unwrap();
    ledger.close().await;
    rows.into_iter().find(|row| row.id == id).and_then(|row| row.record.secret).expect("a living sandbox has a secret")
}

/// Tells whether a sandbox's agent accepts a secret.
async fn opens(bed: &Bed, id: SandboxId, secret: &[u8]) -> bool {
    let mut stream = dial(bed, id, AGENT_PORT).await;
    let mut hello = bytes::BytesMut::new();
    Hello { generation: GENERATION, secret: secret.to_vec() }.frame(0).encode(&mut hello);
    stream.write_all(&hello).unwrap();
    let mut decoder = Decoder::default();
    let frame = loop {
        if let Some(frame) = decoder.next_frame().unwrap() {
            break frame;
        }
        let mut piece = [0; 1024];
        let length = std::io::Read::read(&mut stream, &mut piece).unwrap();
        assert_ne!(length, 0, "the agent hung up without a word");
        decoder.buffer().extend_from_slice(&piece[..length]);
    };
    if frame.kind == FrameKind::Welcome {
        return true;
    }
    let error = pandastack_wire_guest::Error::parse(&frame.payload).unwrap();
    assert_eq!(error.kind, ErrorKind::Secret);
    false
}

/// Fails if two of the values are equal.
#[track_caller]
fn all_differ(what: &str, values: &[String]) {
    assert!(values.iter().all(|value| !value.is_empty()), "{what}: {values:?}");
    assert_eq!(values.iter().collect::<BTreeSet<_>>().len(), values.len(), "{what}: {values:?}");
}

/// Fails if two of the values differ.
#[track_caller]
fn all_agree(what: &str, values: &[String]) {
    assert!(values.iter().all(|value| !value.is_empty()), "{what}: {values:?}");
    assert_eq!(values.iter().collect::<BTreeSet<_>>().len(), 1, "{what}: {values:?}");
}

/// Evaluates an expression in the residents of several sandboxes.
async fn ask_all(bed: &Bed, ids: &[SandboxId], expression: &str) -> Vec<String> {
    futures_util::future::join_all(ids.iter().map(|id| ask(bed, *id, expression))).await
}

/// Runs the same command in several sandboxes.
async fn out_all(bed: &Bed, ids: &[SandboxId], command: &str) -> Vec<String> {
    futures_util::future::join_all(ids.iter().map(|id| bed.out(*id, command))).await
}
