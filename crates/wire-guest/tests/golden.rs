//! Every message as bytes, in one file per generation. A sealed guest speaks this format for ever:
//! a difference is not a test to update but a new generation to introduce. `WRITE_GOLDENS=1` adds
//! lines for new messages only.
#![allow(clippy::unwrap_used)]

use std::{collections::BTreeMap, fmt::Write as _, fs};

use pandastack_wire_guest::*;

/// Read at run time: clones share one target folder, so a compiled-in path may be another clone's.
fn golden_file(generation: u32) -> String {
    let package = std::env::var("CARGO_MANIFEST_DIR").expect("the test runner says where the package lies");
    format!("{package}/../../schema/guest-generation-{generation}.txt")
}

fn entry() -> Entry {
    Entry { name: "file".into(), kind: EntryKind::File, size: 4096, mode: 0o644, modified: 1_700_000_000, target: None }
}

fn link() -> Entry {
    Entry {
        name: "link".into(),
        kind: EntryKind::Symlink,
        size: 4,
        mode: 0o777,
        modified: -1,
        target: Some("file".into()),
    }
}

fn start(program: Program) -> Start {
    Start { program, cwd: None, env: vec![], user: None, stdin: false, deadline_ms: None, terminal: None }
}

fn full_start() -> Start {
    Start {
        program: Program::Argv(vec!["ls".into(), "-l".into()]),
        cwd: Some("/tmp".into()),
        env: vec![Variable { name: "A".into(), value: "1".into() }],
        user: Some("nobody".into()),
        stdin: true,
        deadline_ms: Some(1500),
        terminal: Some(Resize { rows: 24, cols: 80 }),
    }
}

fn full_rebirth() -> Rebirth {
    let network =
        Network { address: "172.16.0.2/30".into(), gateway: "172.16.0.1".into(), nameserver: "172.16.0.1".into() };
    let env = vec![Variable { name: "A".into(), value: "1".into() }];
    let identity = Identity { hostname: "box".into(), machine_id: "0f".repeat(16), env, network: Some(network) };
    Rebirth {
        wall_clock_ns: 1_700_000_000_000_000_000,
        entropy: vec![1, 2, 3],
        secret: vec![4, 5],
        identity: Some(identity),
    }
}

/// One sample per message, and a second one where a field may be absent.
fn requests() -> Vec<(&'static str, Frame)> {
    vec![
        ("hello", Hello { generation: 1, secret: vec![0xab, 0xcd] }.frame(0)),
        ("ping", Frame::new(7, Kind::Ping, vec![])),
        ("rebirth create", full_rebirth().frame(1)),
        ("rebirth wake", Rebirth { identity: None, ..full_rebirth() }.frame(1)),
        ("start shell", start(Program::Shell("echo hi".into())).frame(2)),
        ("start argv", full_start().frame(2)),
        ("stdin", Frame::new(2, Kind::Stdin, &b"in"[..]).end()),
        ("signal", Signal { number: 15 }.frame(2)),
        ("resize", Resize { rows: 50, cols: 132 }.frame(2)),
        ("credit", Credit { bytes: 262_144 }.frame(2)),
        ("cancel", Frame::new(2, Kind::Cancel, vec![])),
        ("read", Read { path: "/etc/hosts".into() }.frame(3)),
        ("write", Write { path: "/tmp/a".into(), mode: Some(0o755) }.frame(3)),
        ("write default mode", Write { path: "/tmp/a".into(), mode: None }.frame(3)),
        ("data", Frame::new(3, Kind::Data, &b"data"[..])),
        ("list", Path { path: "/".into() }.frame(4, Kind::List)),
        ("stat", Path { path: "/".into() }.frame(4, Kind::Stat)),
        ("delete", Path { path: "/tmp/a".into() }.frame(4, Kind::Delete)),
        ("ports", Frame::new(5, Kind::Ports, vec![])),
        ("measure", Frame::new(5, Kind::Measure, vec![])),
        ("quiesce", Frame::new(5, Kind::Quiesce, vec![])),
        ("thaw", Frame::new(5, Kind::Thaw, vec![])),
        ("poweroff", Frame::new(5, Kind::PowerOff, vec![])),
    ]
}

fn answers() -> Vec<(&'static str, Frame)> {
    let figures = Figures {
        cpu_ms: 1,
        memory_total: 2,
        memory_available: 3,
        disk_total: 4,
        disk_free: 5,
        processes: 6,
        uptime_ms: 7,
    };
    let ports = vec![
        Port { port: 80, loopback_only: false, process: Some("nginx".into()) },
        Port { port: 5432, loopback_only: true, process: None },
    ];
    vec![
        ("welcome", Welcome { generation: 1, agent: "0.1.0".into() }.frame(0)),
        ("pong", Frame::new(7, Kind::Pong, vec![])),
        ("reborn", Reborn { wall_clock_ns: 1_700_000_000_000_000_001, generation: None }.frame(1)),
        ("started", Started { pid: 4242 }.frame(2)),
        ("stdout", Frame::new(2, Kind::Stdout, &b"out"[..])),
        ("stderr", Frame::new(2, Kind::Stderr, &b"err"[..]).end()),
        ("exit", Exit { code: 143, timed_out: true, signal: None }.frame(2)),
        ("exit negative", Exit { code: -1, timed_out: false, signal: None }.frame(2)),
        ("meta", Meta { entry: entry() }.frame(3)),
        ("written", Written { bytes: 1 << 32 }.frame(3)),
        ("entries", Entries { entries: vec![entry(), link()] }.frame(4)),
        ("portlist", PortList { ports }.frame(5)),
        ("figures", figures.frame(5)),
        ("done", Frame::new(5, Kind::Done, vec![])),
        ("error", Error { kind: ErrorKind::Missing, text: "no such file".into() }.frame(6)),
    ]
}

fn error_kinds() -> Vec<(String, Frame)> {
    use ErrorKind::*;
    let kinds = [Invalid, Missing, WrongType, Denied, Full, Failed, Secret, Cancelled];
    kinds
        .into_iter()
        .map(|kind| (format!("error kind {kind:?}"), Error { kind, text: String::new() }.frame(6)))
        .collect()
}

fn entry_kinds() -> Vec<(String, Frame)> {
    use EntryKind::*;
    let kinds = [File, Directory, Symlink, Other];
    kinds
        .into_iter()
        .map(|kind| (format!("entry kind {kind:?}"), Meta { entry: Entry { kind, ..entry() } }.frame(3)))
        .collect()
}

/// Messages that generation 2 added.
fn second() -> Vec<(String, Frame)> {
    let named = [("mount", volumes().frame(5, Kind::Mount)), ("grow", volumes().frame(5, Kind::Grow))];
    named.into_iter().map(|(name, frame)| (name.to_owned(), frame)).collect()
}

/// Messages that generation 3 added.
fn third() -> Vec<(String, Frame)> {
    let named = [
        ("reborn of generation 3", Reborn { wall_clock_ns: 1, generation: Some(3) }.frame(1)),
        ("exit by a signal", Exit { code: 137, timed_out: false, signal: Some(9) }.frame(2)),
        ("spawn", Spawn { start: full_start(), tag: Some("web".into()) }.frame(2)),
        ("processes", Which { id: None }.frame(2)),
        ("processes one", Which { id: Some(7) }.frame(2)),
        ("attach", Attach { id: 7, offset: 1 << 33, follow: true }.frame(2)),
        ("feed", Feed { id: 7, close: true }.frame(2)),
        ("tell", Tell { id: 7, number: 15 }.frame(2)),
        ("forget", Forget { id: 7 }.frame(2)),
        ("process", process().frame(2)),
        ("process list", ProcessList { processes: vec![process()] }.frame(2)),
        ("position", Position { offset: 1 << 33 }.frame(2)),
        ("make dir", MakeDir { path: "/a".into(), parents: true }.frame(3)),
        ("move", Move { from: "/a".into(), to: "/b".into(), overwrite: false }.frame(3)),
        ("chmod", Chmod { path: "/a".into(), mode: 0o750, recursive: true }.frame(3)),
        ("walk", Walk { path: "/a".into(), depth: 2, entries_max: 100 }.frame(3)),
        ("branches", Branches { entries: vec![entry()], truncated: true }.frame(3).end()),
        ("watch", Watch { path: "/a".into(), recursive: true }.frame(3)),
        ("watching", Frame::new(3, Kind::Watching, vec![])),
        ("pack", Path { path: "/a".into() }.frame(3, Kind::Pack)),
        ("unpack", Path { path: "/a".into() }.frame(3, Kind::Unpack)),
        ("unpacked", Unpacked { entries: 3, bytes: 1 << 33 }.frame(3)),
    ];
    named.into_iter().map(|(name, frame)| (name.to_owned(), frame)).chain(change_kinds()).chain(code()).collect()
}

fn process() -> Process {
    Process {
        id: 7,
        pid: 4242,
        command: "sleep 9".into(),
        tag: Some("web".into()),
        started_ms: 1_700_000_000_000,
        ended: Some(Ended { code: 137, signal: Some(9), timed_out: true, at_ms: 1_700_000_000_001 }),
        stdout_bytes: 1 << 33,
        stderr_bytes: 2,
        kept_from: 3,
        stdin_open: true,
    }
}

fn change_kinds() -> Vec<(String, Frame)> {
    use ChangeKind::*;
    let kinds = [Created, Modified, Written, Deleted, MovedFrom, MovedTo, Attributes, Overflow];
    let change = |kind| Change { kind, path: "/a/b".into(), folder: true, cookie: Some(5) };
    kinds
        .into_iter()
        .map(|kind| (format!("change {kind:?}"), Changes { changes: vec![change(kind)] }.frame(3)))
        .collect()
}

fn volumes() -> Volumes {
    let volume = |serial: &str, path: &str, read_only| Volume {
        serial: serial.into(),
        path: path.into(),
        read_only,
        size: 1 << 28,
    };
    Volumes { volumes: vec![volume("rw0", "/data", false), volume("ro3", "/models", true)] }
}

/// Code sessions, of generation 3.
fn code() -> Vec<(String, Frame)> {
    let session = |id: &str, language| CodeSession { id: id.into(), language, created_ms: 1_700_000_000_000, cells: 3 };
    let sessions = vec![
        session("ctx_1", Language::Python),
        session("ctx_2", Language::JavaScript),
        session("ctx_3", Language::Bash),
    ];
    let named = [
        ("code open", CodeOpen { id: "ctx_1".into(), language: Language::Python }.frame(6)),
        ("code sessions", Frame::new(6, Kind::CodeSessions, vec![])),
        ("code close", CodeClose { id: "ctx_1".into() }.frame(6)),
        ("code run", CodeRun { id: "ctx_1".into(), deadline_ms: 30_000, trace: None }.frame(6)),
        ("code opened", CodeOpened { session: sessions[0].clone() }.frame(6)),
        ("code list", CodeList { sessions }.frame(6)),
    ];
    let ran = |end| CodeRan {
        end,
        exit: 137,
        duration_ms: 1500,
        anew: true,
        lost: false,
        stdout_cut: true,
        stderr_cut: false,
    };
    use CellEnd::*;
    let ends = [Answered, Late, NeverBegun, KernelEnded].map(|end| (format!("code ran {end:?}"), ran(end).frame(6)));
    named.into_iter().map(|(name, frame)| (name.to_owned(), frame)).chain(ends).collect()
}

fn samples() -> Vec<(String, Frame)> {
    first().into_iter().chain(second()).chain(third()).collect()
}

fn first() -> Vec<(String, Frame)> {
    let named = requests().into_iter().chain(answers()).map(|(name, frame)| (name.to_owned(), frame));
    named.chain(error_kinds()).chain(entry_kinds()).collect()
}

fn hex(frame: &Frame) -> String {
    let mut bytes = bytes::BytesMut::new();
    frame.encode(&mut bytes);
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

#[test]
fn no_message_has_changed() {
    for (generation, samples) in [(1, first()), (2, second()), (3, third())] {
        compare(&golden_file(generation), samples);
    }
}

fn compare(file: &str, samples: Vec<(String, Frame)>) {
    let text = fs::read_to_string(file).unwrap_or_default();
    let golden: BTreeMap<&str, &str> = text.lines().filter_map(|line| line.split_once(": ")).collect();
    let mut grown = text.clone();
    for (name, frame) in samples {
        match golden.get(name.as_str()) {
            Some(expected) => assert_eq!(hex(&frame), *expected, "{name} is encoded differently"),
            None => writeln!(grown, "{name}: {}", hex(&frame)).unwrap(),
        }
    }
    if grown != text {
        assert!(std::env::var_os("WRITE_GOLDENS").is_some(), "a message has no golden; WRITE_GOLDENS=1 adds it");
        fs::write(file, grown).unwrap();
    }
}

#[test]
fn every_kind_has_a_golden_file() {
    let samples = samples();
    for kind in Kind::ALL {
        assert!(samples.iter().any(|(_, frame)| frame.kind == *kind), "{kind:?}");
    }
}

#[test]
fn goldens_are_read_back() {
    for (name, frame) in samples() {
        let mut decoder = Decoder::default();
        frame.encode(decoder.buffer());
        assert_eq!(decoder.next_frame(), Ok(Some(frame)), "{name}");
    }
    assert_eq!(Volumes::parse(Kind::Mount, &volumes().frame(0, Kind::Mount).payload).unwrap(), volumes());
    assert_eq!(Start::parse(&full_start().frame(0).payload).unwrap(), full_start());
    assert_eq!(Rebirth::parse(&full_rebirth().frame(0).payload).unwrap(), full_rebirth());
}
