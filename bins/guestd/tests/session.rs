//! Connections: authentication, malformed input, rebirth, and the agent's reports about the guest.
use std::{
    io::Write as _,
    net::TcpListener,
    time::{SystemTime, UNIX_EPOCH},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::common::{Agent, Client, PATIENCE, SECRET, alive, shell, wait_for};
use pandastack_wire_guest::{
    EnvVariable, Error, ErrorKind, Frame, FrameKind, GuestUsage, Identity, Message, PortList, Rebirth, Reborn,
    StartProcess, VolumeDevice, VolumeDevices,
};

fn rebirth(secret: &[u8], identity: Option<Identity>) -> Rebirth {
    Rebirth { wall_clock_ns: 1_900_000_000_000_000_000, entropy: vec![1; 64], secret: secret.to_vec(), identity }
}

fn identity(env: &[(&str, &str)]) -> Identity {
    let env = env.iter().map(|(name, value)| EnvVariable { name: (*name).into(), value: (*value).into() }).collect();
    Identity { hostname: "other".into(), machine_id: "0".repeat(32), env, network: None }
}

/// Reads until the agent hangs up. Only an error on channel 0 may arrive.
fn hung_up(client: &mut Client) -> Option<ErrorKind> {
    let mut kind = None;
    while let Some(frame) = client.arrive() {
        if frame.kind == FrameKind::Error {
            kind = Some(Error::parse(&frame.payload).unwrap().kind);
        }
    }
    kind
}

#[test]
fn only_the_secret_opens() {
    let agent = Agent::start();
    for wrong in [&b""[..], &SECRET[..2], &[0xab, 0xcd, 0x02], &[0; 1000]] {
        let mut client = agent.connect_silently();
        client.hello(wrong);
        assert_eq!(hung_up(&mut client), Some(ErrorKind::Secret));
    }
    // Nothing works before `Hello`.
    for frame in
        [Frame::new(0, FrameKind::Ping, vec![]), rebirth(b"mine", None).frame(0), shell("touch /tmp/never").frame(1)]
    {
        let mut client = agent.connect_silently();
        client.send(frame);
        assert_eq!(hung_up(&mut client), Some(ErrorKind::Invalid));
    }
    agent.connect().ping(0);
}

#[test]
fn nonsense_ends_its_connection_and_nothing_else() {
    let agent = Agent::start();
    let mut bystander = agent.connect();
    bystander.start(1, StartProcess { stdin: true, ..shell("cat") });
    let header = |length: u32, kind: u8, reserved: u8| {
        let mut bytes = Frame::new(0, FrameKind::Ping, vec![]).header();
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        (bytes[8], bytes[10]) = (kind, reserved);
        bytes.to_vec()
    };
    let nonsense = [
        vec![0xff; 64],
        header(u32::MAX, 2, 0),
        header(0, 99, 0),
        header(0, 2, 1),
        header(0, 0, 0),
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
    ];
    for bytes in &nonsense {
        for greeted in [false, true] {
            let mut client = if greeted { agent.connect() } else { agent.connect_silently() };
            client.socket.write_all(bytes).unwrap();
            assert_eq!(hung_up(&mut client), Some(ErrorKind::Invalid), "{bytes:?}");
        }
    }
    let broken = [
        (FrameKind::Credit, &b"\xff"[..]),
        (FrameKind::Signal, b""),
        (FrameKind::Resize, b"\x00"),
        (FrameKind::Hello, b""),
        (FrameKind::Stdout, b"x"),
        (FrameKind::Exit, b""),
    ];
    for (kind, payload) in broken {
        let mut client = agent.connect();
        client.send(Frame::new(3, kind, payload.to_vec()));
        assert_eq!(hung_up(&mut client), Some(ErrorKind::Invalid), "{kind:?}");
    }
    let mut client = agent.connect();
    client.start(1, StartProcess { stdin: true, ..shell("cat") });
    client.send(shell("true").frame(1));
    assert_eq!(hung_up(&mut client), Some(ErrorKind::Invalid), "a channel in use");
    bystander.send(Frame::new(1, FrameKind::Stdin, b"untouched".to_vec()).end());
    assert_eq!(bystander.finish(1).stdout, b"untouched");
}

#[test]
fn a_request_that_does_not_parse_fails_alone() {
    let agent = Agent::start();
    let mut client = agent.connect();
    for kind in [
        FrameKind::Start,
        FrameKind::Read,
        FrameKind::Write,
        FrameKind::List,
        FrameKind::Stat,
        FrameKind::Delete,
        FrameKind::Rebirth,
    ] {
        for payload in [
            &b""[..],
            b"\xff\xff\xff",
            b"\xa1\x00",
            b"\xbf\x00\x9f\x9f\x9f",
            &[0x9b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        ] {
            client.send(Frame::new(1, kind, payload.to_vec()));
            client.expect_error(1, ErrorKind::Invalid);
        }
    }
    client.ping(1);
}

#[test]
fn random_bytes_do_no_harm() {
    let agent = Agent::start();
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    for round in 0..60 {
        let mut client = agent.connect();
        // Half of the rounds are well-framed, so that the bytes get past the header.
        for _ in 0..20 {
            let length = (random() % 200) as usize;
            let payload: Vec<u8> = (0..length).map(|_| random() as u8).collect();
            // A power-off is valid with any payload, so it is left out.
            let kinds: Vec<FrameKind> =
                FrameKind::ALL.iter().copied().filter(|kind| *kind != FrameKind::PowerOff).collect();
            let frame = Frame::new((random() % 4) as u32, kinds[random() as usize % kinds.len()], payload.clone());
            let sent = if round % 2 == 0 {
                client.socket.write_all(&[&frame.header()[..], &payload].concat())
            } else {
                client.socket.write_all(&payload)
            };
            if sent.is_err() {
                break;
            }
        }
    }
    agent.connect().ping(0);
    assert_eq!(agent.connect().shell(1, "echo well"), "well\n");
}

#[test]
fn rebirth_changes_secret_clock_and_environment() {
    let agent = Agent::start();
    let mut client = agent.connect();
    client.send(rebirth(b"first", Some(identity(&[("COLOR", "red"), ("LANG", "C")]))).frame(5));
    let reborn = Reborn::parse(&client.expect(5, FrameKind::Reborn).payload).unwrap();
    assert!((1_900_000_000_000_000_000..1_900_000_005_000_000_000).contains(&reborn.wall_clock_ns));
    assert_eq!(client.shell(1, "echo $COLOR $LANG"), "red C\n");
    let env = vec![EnvVariable { name: "COLOR".into(), value: "blue".into() }];
    assert_eq!(client.run(1, StartProcess { env, ..shell("echo $COLOR") }).stdout, b"blue\n");
    // A wake has no identity: the environment stays.
    client.send(rebirth(b"second", None).frame(5));
    client.expect(5, FrameKind::Reborn);
    assert_eq!(client.shell(1, "echo $COLOR"), "red\n");
    for (secret, fits) in [(SECRET, false), (b"first", false), (b"second", true)] {
        let mut other = agent.connect_silently();
        other.hello(secret);
        match fits {
            true => drop(other.expect(0, FrameKind::Welcome)),
            false => assert_eq!(hung_up(&mut other), Some(ErrorKind::Secret)),
        }
    }
    client.send(rebirth(b"", None).frame(5));
    client.expect_error(5, ErrorKind::Invalid);
}

#[test]
fn processes_of_the_old_life_go_on_unheard() {
    let (agent, folder) = (Agent::start(), tempfile::tempdir().unwrap());
    let mark = folder.path().join("mark");
    let mut old = agent.connect();
    // Writes far more than a window and a pipe hold, so it ends only if its output is read.
    let pid = old.start(
        1,
        StartProcess {
            stdin: true,
            ..shell(&format!("sleep 0.3; head -c 20000000 /dev/zero; echo done > {}", mark.display()))
        },
    );
    let mut new = agent.connect();
    new.send(rebirth(b"new", None).frame(0));
    new.expect(0, FrameKind::Reborn);
    assert_eq!(hung_up(&mut old), None, "connections of the old life are closed");
    wait_for("the end of the work", || mark.exists() && !alive(pid));
    // The same if the connection broke before the rebirth.
    let mut old = new;
    let pid = old.start(1, shell("exec sleep 1000"));
    drop(old);
    let mut new = agent.connect_silently();
    new.hello(b"new");
    new.expect(0, FrameKind::Welcome);
    new.send(rebirth(b"newer", None).frame(0));
    new.expect(0, FrameKind::Reborn);
    std::thread::sleep(std::time::Duration::from_millis(2500));
    assert!(alive(pid));
    new.shell(1, &format!("kill -9 {pid}"));
    wait_for("reaping", || agent.children().is_empty());
}

#[test]
fn a_rebirth_with_the_known_secret_ends_nothing() {
    let agent = Agent::start();
    let (mut one, mut other) = (agent.connect(), agent.connect());
    let pid = other.start(1, StartProcess { stdin: true, ..shell("read line; echo heard $line") });
    one.send(rebirth(SECRET, None).frame(5));
    let reborn = Reborn::parse(&one.expect(5, FrameKind::Reborn).payload).unwrap();
    assert!(reborn.wall_clock_ns >= 1_900_000_000_000_000_000, "the clock is set all the same");
    one.ping(6);
    other.ping(7);
    assert!(alive(pid));
    agent.connect().ping(0);
}

#[test]
fn a_late_message_does_not_set_the_clock_back() {
    let agent = Agent::start();
    let mut client = agent.connect();
    let mut told = |wall_clock_ns| {
        client.send(Rebirth { wall_clock_ns, ..rebirth(SECRET, None) }.frame(5));
        Reborn::parse(&client.expect(5, FrameKind::Reborn).payload).unwrap().wall_clock_ns
    };
    const START: u64 = 1_900_000_000_000_000_000;
    const SECOND: u64 = 1_000_000_000;
    // On a busy host a message may take longer than the tolerated delay, so it is tried repeatedly.
    let kept = (0..50).any(|_| {
        told(START);
        told(START - SECOND / 10) > START
    });
    assert!(kept, "a tenth of a second is a message's delay");
    assert!((START + 60 * SECOND..START + 90 * SECOND).contains(&told(START + 60 * SECOND)));
    assert!((START..START + 30 * SECOND).contains(&told(START)), "a minute ahead is wrong");
}

#[test]
fn of_two_rebirths_at_once_only_one_counts() {
    let (agent, mut secret) = (Agent::start(), SECRET.to_vec());
    let process = Pid::from_raw(agent.pid().cast_signed());
    for round in 0..10 {
        let [mut one, mut other] = [0, 1].map(|_| {
            let mut client = agent.connect_silently();
            client.hello(&secret);
            client.expect(0, FrameKind::Welcome);
            client
        });
        // Both frames are in their sockets when the agent continues, like the source's bytes in a
        // fork's agent.
        kill(process, Signal::SIGSTOP).unwrap();
        let secrets = [format!("one {round}").into_bytes(), format!("other {round}").into_bytes()];
        one.send(rebirth(&secrets[0], None).frame(5));
        other.send(rebirth(&secrets[1], None).frame(5));
        kill(process, Signal::SIGCONT).unwrap();
        wait_for("a rebirth", || secrets.iter().any(|secret| opens(&agent, secret)));
        let known: Vec<&Vec<u8>> = secrets.iter().filter(|secret| opens(&agent, secret)).collect();
        let loser = if known == [&secrets[0]] { &mut other } else { &mut one };
        assert_eq!(loser.arrive(), None, "who is told that it was obeyed must have been");
        secret = known[0].clone();
    }
}

fn opens(agent: &Agent, secret: &[u8]) -> bool {
    let mut client = agent.connect_silently();
    client.hello(secret);
    client.arrive().is_some_and(|frame| frame.kind == FrameKind::Welcome)
}

#[test]
fn a_spare_connection_carries_the_new_life_and_ends_the_others() {
    let (agent, folder) = (Agent::start(), tempfile::tempdir().unwrap());
    let mark = folder.path().join("mark");
    let (mut old, mut idle, mut spare) = (agent.connect(), agent.connect(), agent.connect());
    let pid = old.start(1, StartProcess { stdin: true, ..shell(&format!("cat; echo done > {}", mark.display())) });
    spare.send(rebirth(b"new", Some(identity(&[("COLOR", "red")]))).frame(0));
    spare.expect(0, FrameKind::Reborn);
    // Channel numbers from before the rebirth are free again.
    assert_eq!(spare.shell(1, "echo $COLOR"), "red\n");
    for other in [&mut old, &mut idle] {
        assert_eq!(hung_up(other), None, "connections of the old life are closed");
    }
    assert!(alive(pid) && !mark.exists(), "its processes go on");
    // The connection that performed the rebirth works like any other, also at the next rebirth.
    let mut next = agent.connect_silently();
    next.hello(b"new");
    next.expect(0, FrameKind::Welcome);
    next.send(rebirth(b"newer", None).frame(0));
    next.expect(0, FrameKind::Reborn);
    assert_eq!(hung_up(&mut spare), None);
    next.shell(1, &format!("kill -9 {pid}"));
    wait_for("reaping", || agent.children().is_empty());
}

#[test]
fn listening_ports_are_listed() {
    let agent = Agent::start();
    let mut client = agent.connect();
    let (inner, outer) = (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("0.0.0.0:0").unwrap());
    client.send_empty(1, FrameKind::Ports);
    let ports = PortList::parse(&client.expect(1, FrameKind::PortList).payload).unwrap().ports;
    let find = |number: u16| ports.iter().find(|port| port.port == number);
    for (listener, loopback_only) in [(&inner, true), (&outer, false)] {
        let port = find(listener.local_addr().unwrap().port()).unwrap();
        assert_eq!(port.loopback_only, loopback_only);
        assert!(port.process.is_some());
    }
    assert!(find(agent.address.port()).is_none(), "the agent's own port is nobody's business");
    assert!(ports.is_sorted_by_key(|port| port.port));
}

#[test]
fn figures_are_plausible() {
    let agent = Agent::start();
    let mut client = agent.connect();
    client.send_empty(1, FrameKind::Measure);
    let figures = GuestUsage::parse(&client.expect(1, FrameKind::GuestUsage).payload).unwrap();
    assert!(figures.memory_available <= figures.memory_total && figures.memory_total > 1 << 20);
    assert!(figures.disk_free <= figures.disk_total && figures.disk_total > 0);
    assert!(figures.cpu_ms > 0 && figures.uptime_ms > 0 && figures.processes > 1);
}

#[test]
fn quiesce_and_thaw_may_come_twice() {
    let agent = Agent::start();
    let mut client = agent.connect();
    for kind in [FrameKind::Thaw, FrameKind::Quiesce, FrameKind::Quiesce, FrameKind::Thaw, FrameKind::Thaw] {
        client.send_empty(1, kind);
        client.expect(1, FrameKind::Done);
    }
    // A guest that was sealed while frozen is writable after the rebirth.
    client.send_empty(1, FrameKind::Quiesce);
    client.expect(1, FrameKind::Done);
    client.send(rebirth(b"x", None).frame(0));
    client.expect(0, FrameKind::Reborn);
    client.send(pandastack_wire_guest::PathMessage { path: "/tmp/never-was".into() }.frame(1, FrameKind::Delete));
    client.expect(1, FrameKind::Done);
}

#[test]
fn power_off_answers_first() {
    let agent = Agent::start();
    let mut client = agent.connect();
    client.send_empty(1, FrameKind::PowerOff);
    client.expect(1, FrameKind::Done);
    assert_eq!(hung_up(&mut client), None);
}

#[test]
fn a_silent_connection_does_not_stay() {
    let agent = Agent::start();
    let mut client = agent.connect_silently();
    let begun = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    assert_eq!(hung_up(&mut client), None);
    let waited = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() - begun;
    assert!(waited < PATIENCE);
}

#[test]
fn beside_other_programs_volumes_are_answered_and_nothing_is_mounted() {
    let agent = Agent::start();
    let mut client = agent.connect();
    let volume = VolumeDevice { serial: "rw0".into(), path: "/never-mounted".into(), read_only: false, size: 1 << 20 };
    for (channel, kind) in [(1, FrameKind::Mount), (2, FrameKind::Grow)] {
        client.send(VolumeDevices { volumes: vec![volume.clone()] }.frame(channel, kind));
        assert_eq!(client.arrive().unwrap().kind, FrameKind::Done);
        client.send(Frame::new(channel, kind, vec![0xff]));
        let refusal = Error::parse(&client.arrive().unwrap().payload).unwrap();
        assert_eq!(refusal.kind, ErrorKind::Invalid);
    }
    assert!(!std::path::Path::new("/never-mounted").exists());
}
