//! Connections after a fork: a source keeps its own, a copy has none.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use pandastack_e2e::{collect, python, read_until, start};
use pandastack_sys::netns::Netns;
use pandastack_testbed::outside::OutsideNetwork;
use pandastack_wire_fleet::{ExecParams, HostPort};

use super::{ask, with_resident};

const PORT: u16 = 7412;

/// Errors of a copied connection: the other end does not know it.
const GONE: [&str; 4] = ["ConnectionResetError", "BrokenPipeError", "TimeoutError", "closed"];

#[tokio::test(flavor = "multi_thread")]
async fn a_source_keeps_its_connections_through_its_forks() {
    let outside = OutsideNetwork::new(&[]).unwrap();
    let address = outside.far_address();
    let _echo = Echo::start(outside.netns(), (address, PORT).into());
    with_resident(async |bed, source| {
        assert_eq!(ask(bed, source, &format!("dial('{address}', {PORT})")).await, "connected");
        assert_eq!(ask(bed, source, "say('first')").await, "first");
        let count = "import os,time\nn=0\nwhile not os.path.exists('/tmp/stop'):\n print(n,flush=True)\n n+=1\n \
            time.sleep(0.002)\nprint('end')";
        let mut counting = start(bed, source, ExecParams { deadline: None, ..python(count) }).await.unwrap();
        let mut seen = read_until(&mut counting, "\n").await;
        let mut children = Vec::new();
        for round in 0..3 {
            children.extend(bed.fork(source, 1).await.unwrap());
            let said = format!("round {round}");
            assert_eq!(ask(bed, source, &format!("say('{said}')")).await, said);
            seen.push_str(&read_until(&mut counting, "\n").await);
        }
        bed.out(source, "touch /tmp/stop").await;
        let rest = collect(counting).await;
        seen.push_str(&rest.out());
        let lines: Vec<&str> = seen.lines().collect();
        let (end, numbers) = lines.split_last().unwrap();
        assert_eq!((*end, rest.code()), ("end", 0));
        assert!(numbers.iter().enumerate().all(|(at, line)| *line == at.to_string()), "output was lost: {numbers:?}");
        // The child's copy has no peer: it uses another route out, and the other end knows only the
        // source.
        let said = ask(bed, children[0], "say('copy')").await;
        assert!(GONE.contains(&said.as_str()), "{said}");
        assert_eq!(ask(bed, source, "say('last')").await, "last");
        assert_eq!(ask(bed, children[0], "say_within('here')").await, "here", "both ends of this one came along");
        // A new connection works.
        assert_eq!(ask(bed, children[0], &format!("dial('{address}', {PORT})")).await, "connected");
        assert_eq!(ask(bed, children[0], "say('own')").await, "own");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sleeper_has_lost_its_connections_to_the_outside() {
    let outside = OutsideNetwork::new(&[]).unwrap();
    let address = outside.far_address();
    let _echo = Echo::start(outside.netns(), (address, PORT).into());
    with_resident(async |bed, id| {
        assert_eq!(ask(bed, id, &format!("dial('{address}', {PORT})")).await, "connected");
        assert_eq!(ask(bed, id, "say('first')").await, "first");
        bed.host.sleep(id).await.unwrap();
        bed.host.wake(id).await.unwrap();
        let said = ask(bed, id, "say('second')").await;
        assert!(GONE.contains(&said.as_str()), "{said}");
        assert_eq!(ask(bed, id, "say_within('here')").await, "here", "both ends of this one came along");
        assert_eq!(ask(bed, id, &format!("dial('{address}', {PORT})")).await, "connected");
        assert_eq!(ask(bed, id, "say('third')").await, "third");
    })
    .await;
}

/// An echo server that runs until its clients disconnect.
struct Echo {
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Echo {
    fn start(netns: &Netns, address: SocketAddr) -> Self {
        let listener = netns.listen_tcp(address).unwrap();
        let end = Arc::new(AtomicBool::new(false));
        let ended = end.clone();
        let thread = thread::spawn(move || {
            let mut callers = Vec::new();
            while !ended.load(Ordering::Relaxed) {
                if let Ok((stream, _)) = listener.accept() {
                    stream.set_nonblocking(true).unwrap();
                    callers.push(stream);
                }
                callers.retain_mut(echo);
                thread::sleep(Duration::from_millis(5));
            }
        });
        Self { end, thread: Some(thread) }
    }
}

/// Echoes received data. Returns false when the client is gone.
fn echo(caller: &mut TcpStream) -> bool {
    let mut buffer = [0; 1024];
    match caller.read(&mut buffer) {
        Ok(0) => false,
        Ok(length) => caller.write_all(&buffer[..length]).is_ok(),
        Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
