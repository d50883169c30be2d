//! Both ends are in one namespace here. The peer does not notice that its other end was replaced.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use nix::sched::{CloneFlags, unshare};

use super::*;
use crate::interface::InterfaceSocket;

const PATIENCE: Duration = Duration::from_secs(60);

fn fresh() -> Netns {
    let inside = || {
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        InterfaceSocket::open().unwrap().bring_up("lo").unwrap();
        Netns::open(Path::new("/proc/thread-self/ns/net")).unwrap()
    };
    thread::spawn(inside).join().unwrap()
}

/// A connection inside a namespace: our end and the peer's.
fn pair(netns: &Netns) -> (TcpStream, TcpStream) {
    let listener = netns.run(|| TcpListener::bind("127.0.0.1:0")).unwrap().unwrap();
    let address = listener.local_addr().unwrap();
    let ours = netns.run(|| TcpStream::connect(address)).unwrap().unwrap();
    let (theirs, _) = listener.accept().unwrap();
    for stream in [&ours, &theirs] {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
    }
    (ours, theirs)
}

fn say(from: &mut TcpStream, to: &mut TcpStream, text: &[u8]) {
    from.write_all(text).unwrap();
    let mut heard = vec![0; text.len()];
    to.read_exact(&mut heard).unwrap();
    assert_eq!(heard, text);
}

/// Waits until everything is acknowledged, and reads the connection's state.
fn settled(stream: &TcpStream) -> TcpConnectionState {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match take_down(stream.as_fd()) {
            Err(TakeDownError::Busy { .. }) if Instant::now() < deadline => thread::yield_now(),
            taken => return taken.unwrap(),
        }
    }
}

/// Closes our end without sending a packet, as happens when the host of a stopped machine closes
/// it.
fn vanish(stream: TcpStream) {
    set(stream.as_fd(), libc::TCP_REPAIR, &REPAIR_ON).unwrap();
    drop(stream);
}

#[test]
fn the_peer_goes_on_with_a_replaced_end() {
    let netns = fresh();
    let (mut ours, mut theirs) = pair(&netns);
    say(&mut ours, &mut theirs, b"before");
    say(&mut theirs, &mut ours, b"and back");
    let state = settled(&ours);
    assert!(state.leads_to(theirs.local_addr().unwrap()));
    vanish(ours);
    // Two sockets in turn from one state, as forks make them.
    for _ in 0..2 {
        let again = TcpStream::from(set_up(&netns, &state).unwrap());
        again.set_nonblocking(false).unwrap();
        again.set_read_timeout(Some(PATIENCE)).unwrap();
        assert_eq!(settled(&again), TcpConnectionState { timestamp: settled(&again).timestamp, ..state.clone() });
        vanish(again);
    }
    let mut last = TcpStream::from(set_up(&netns, &state).unwrap());
    last.set_nonblocking(false).unwrap();
    last.set_read_timeout(Some(PATIENCE)).unwrap();
    say(&mut last, &mut theirs, b"after");
    say(&mut theirs, &mut last, b"still here");
    // More than any initial window, so window and segment sizes must be right.
    let much: Vec<u8> = (0..4_000_000_u32).map(|at| at as u8).collect();
    let expected = much.clone();
    let reader = thread::spawn(move || {
        let mut heard = vec![0; expected.len()];
        theirs.read_exact(&mut heard).unwrap();
        assert!(heard == expected, "the bytes arrive as they were sent");
    });
    last.write_all(&much).unwrap();
    reader.join().unwrap();
}

#[test]
fn taking_down_leaves_the_connection_as_it_was() {
    let netns = fresh();
    let (mut ours, mut theirs) = pair(&netns);
    say(&mut ours, &mut theirs, b"before");
    settled(&ours);
    say(&mut ours, &mut theirs, b"after");
    say(&mut theirs, &mut ours, b"and back");
}

#[test]
fn a_connection_with_something_under_way_is_refused_and_goes_on() {
    let netns = fresh();
    let (mut ours, mut theirs) = pair(&netns);
    theirs.write_all(b"unread").unwrap();
    let mut peeked = [0; 6];
    while ours.peek(&mut peeked).unwrap() < 6 {}
    assert!(matches!(take_down(ours.as_fd()), Err(TakeDownError::Busy { unread: 6, .. })));
    let mut heard = [0; 6];
    ours.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"unread");
    say(&mut ours, &mut theirs, b"goes on");
}

#[test]
fn what_is_not_connected_is_refused() {
    let netns = fresh();
    let socket = netns.tcp_socket().unwrap();
    assert!(matches!(take_down(socket.as_fd()), Err(TakeDownError::NotEstablished)));
    let (ours, theirs) = pair(&netns);
    drop(theirs);
    let deadline = Instant::now() + PATIENCE;
    while take_down(ours.as_fd()).is_ok() {
        assert!(Instant::now() < deadline, "a closed connection is taken down");
    }
    assert!(matches!(take_down(ours.as_fd()), Err(TakeDownError::NotEstablished)));
}
