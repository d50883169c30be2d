//! Back-pressure and fairness: effects of slow, greedy or many readers on other channels and on the
//! agent's memory.
use std::time::Duration;

use crate::common::{Agent, argv, shell};
use bytes::Bytes;
use pandastack_wire_guest::{ErrorKind, FrameKind, Message, ProcessExit, StartProcess, WINDOW_BYTES};

#[test]
fn output_stops_at_the_window_and_others_go_on() {
    let agent = Agent::start();
    let mut client = agent.connect();
    client.start(1, argv(&["yes"]));
    let mut received = 0;
    while received < WINDOW_BYTES {
        received += client.expect(1, FrameKind::Stdout).payload.len();
    }
    assert_eq!(received, WINDOW_BYTES);
    // Stalled: other channels still answer, and no byte arrives before credit is given.
    assert_eq!(client.shell(2, "echo other"), "other\n");
    client.ping(3);
    client.socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let silent = std::io::Read::read(&mut client.socket, &mut [0; 1]);
    assert!(silent.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock));
    client.socket.set_read_timeout(Some(crate::common::PATIENCE)).unwrap();
    client.credit(1, 1000);
    let mut more = 0;
    while more < 1000 {
        more += client.expect(1, FrameKind::Stdout).payload.len();
    }
    assert_eq!(more, 1000);
    client.send_empty(1, FrameKind::Cancel);
    client.finish(1);
}

#[test]
fn both_streams_share_one_window() {
    let agent = Agent::start();
    let mut client = agent.connect();
    client.start(1, shell("yes & yes >&2"));
    let mut received = 0;
    while received < WINDOW_BYTES {
        received += client.next(1).payload.len();
    }
    assert_eq!(received, WINDOW_BYTES);
    client.ping(2);
    client.send_empty(1, FrameKind::Cancel);
    assert_eq!(client.finish(1).exit.code, 143);
}

#[test]
fn large_output_arrives_whole_and_before_the_exit() {
    let agent = Agent::start();
    let mut client = agent.connect();
    let output = client.run(1, shell("head -c 30000000 /dev/zero; head -c 70000 /dev/zero >&2"));
    assert_eq!((output.stdout.len(), output.stderr.len(), output.exit.code), (30_000_000, 70_000, 0));
    // Output left in the pipe at the end needs credit too.
    client.start(1, shell(&format!("head -c {} /dev/zero", WINDOW_BYTES + 50_000)));
    let mut received = 0;
    while received < WINDOW_BYTES {
        received += client.expect(1, FrameKind::Stdout).payload.len();
    }
    client.ping(2);
    client.credit(1, 100_000);
    assert_eq!(client.finish(1).stdout.len(), 50_000);
}

#[test]
fn a_ping_overtakes_bulk() {
    let agent = Agent::start();
    let mut client = agent.connect();
    for channel in 1..=8 {
        client.start(channel, argv(&["yes"]));
        client.credit(channel, 256 << 20);
    }
    // Sockets, lanes and pipes are full. The answer overtakes all frames that still wait in the
    // agent.
    std::thread::sleep(Duration::from_millis(100));
    client.send_empty(99, FrameKind::Ping);
    let mut bulk = 0;
    loop {
        let frame = client.arrive().unwrap();
        match frame.kind {
            FrameKind::Pong => break,
            _ => bulk += frame.payload.len(),
        }
    }
    assert!(bulk < 32 << 20, "{bulk} bytes came first");
}

#[test]
fn a_host_that_does_not_read_costs_little_memory() {
    let agent = Agent::start();
    let mut client = agent.connect();
    for channel in 1..=50 {
        client.start(channel, argv(&["yes"]));
        client.credit(channel, 1 << 30);
    }
    std::thread::sleep(Duration::from_millis(500));
    let memory = agent.memory();
    assert!(memory < 32 << 20, "{memory} bytes");
    assert_eq!(agent.connect().shell(1, "echo served"), "served\n", "other connections are served");
}

#[test]
fn many_channels_run_at_once() {
    let agent = Agent::start();
    let mut client = agent.connect();
    for channel in 0..200 {
        client.send(
            StartProcess { stdin: true, ..shell(&format!("cat; echo {channel}; exit {}", channel % 100)) }
                .frame(channel),
        );
    }
    for channel in (0..200).rev() {
        client.expect(channel, FrameKind::Started);
        client.send(pandastack_wire_guest::Frame::new(channel, FrameKind::Stdin, Bytes::from_static(b"in ")).end());
    }
    for channel in 0..200 {
        let output = client.finish(channel);
        assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("in {channel}\n"));
        assert_eq!(output.exit, ProcessExit { code: (channel % 100) as i32, timed_out: false, signal: None });
    }
}

#[test]
fn the_number_of_channels_is_limited() {
    let agent = Agent::start();
    let mut client = agent.connect();
    for channel in 0..256 {
        client.start(channel, StartProcess { stdin: true, ..argv(&["cat"]) });
    }
    client.send(shell("true").frame(256));
    client.expect_error(256, ErrorKind::Full);
    client.send_empty(0, FrameKind::Cancel);
    client.finish(0);
    assert_eq!(client.shell(256, "echo room"), "room\n");
}
