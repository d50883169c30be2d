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

fn entry() -> DirEntry {
    DirEntry {
        name: "file".into(),
        kind: DirEntryKind::File,
        size: 4096,
        mode: 0o644,
        modified: 1_700_000_000,
        target: None,
    }
}

fn link() -> DirEntry {
    DirEntry {
        name: "link".into(),
        kind: DirEntryKind::Symlink,
        size: 4,
        mode: 0o777,
        modified: -1,
        target: Some("file".into()),
    }
}

fn start(program: CommandLine) -> StartProcess {
    StartProcess {
        program,
        cwd: None,
        env: vec![],
        user: None,
        stdin: false,
        deadline_ms: None,
        terminal: None,
        warm: None,
    }
}

fn full_start() -> StartProcess {
    StartProcess {
        program: CommandLine::Argv(vec!["ls".into(), "-l".into()]),
        cwd: Some("/tmp".into()),
        env: vec![EnvVariable { name: "A".into(), value: "1".into() }],
        user: Some("nobody".into()),
        stdin: true,
        deadline_ms: Some(1500),
        terminal: Some(Resize { rows: 24, cols: 80 }),
        warm: None,
    }
}

fn full_rebirth() -> Rebirth {
    let network = InterfaceAddresses {
        address: "172.16.0.2/30".into(),
        gateway: "172.16.0.1".into(),
        nameserver: "172.16.0.1".into(),
    };
    let env = vec![EnvVariable { name: "A".into(), value: "1".into() }];
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
        ("ping", Frame::new(7, FrameKind::Ping, vec![])),
        ("rebirth create", full_rebirth().frame(1)),
        ("rebirth wake", Rebirth { identity: None, ..full_rebirth() }.frame(1)),
        ("start shell", start(CommandLine::Shell("echo hi".into())).frame(2)),
        ("start argv", full_start().frame(2)),
        ("stdin", Frame::new(2, FrameKind::Stdin, &b"in"[..]).end()),
        ("signal", Signal { number: 15 }.frame(2)),
        ("resize", Resize { rows: 50, cols: 132 }.frame(2)),
        ("credit", Credit { bytes: 262_144 }.frame(2)),
        ("cancel", Frame::new(2, FrameKind::Cancel, vec![])),
        ("read", ReadFile { path: "/etc/hosts".into() }.frame(3)),
        ("write", WriteFile { path: "/tmp/a".into(), mode: Some(0o755) }.frame(3)),
        ("write default mode", WriteFile { path: "/tmp/a".into(), mode: None }.frame(3)),
        ("data", Frame::new(3, FrameKind::Data, &b"data"[..])),
        ("list", PathMessage { path: "/".into() }.frame(4, FrameKind::List)),
        ("stat", PathMessage { path: "/".into() }.frame(4, FrameKind::Stat)),
        ("delete", PathMessage { path: "/tmp/a".into() }.frame(4, FrameKind::Delete)),
        ("ports", Frame::new(5, FrameKind::Ports, vec![])),
        ("measure", Frame::new(5, FrameKind::Measure, vec![])),
        ("quiesce", Frame::new(5, FrameKind::Quiesce, vec![])),
        ("thaw", Frame::new(5, FrameKind::Thaw, vec![])),
        ("poweroff", Frame::new(5, FrameKind::PowerOff, vec![])),
    ]
}

fn answers() -> Vec<(&'static str, Frame)> {
    let figures = GuestUsage {
        cpu_ms: 1,
        memory_total: 2,
        memory_available: 3,
        disk_total: 4,
        disk_free: 5,
        processes: 6,
        uptime_ms: 7,
    };
    let ports = vec![
        PortReport { port: 80, loopback_only: false, process: Some("nginx".into()) },
        PortReport { port: 5432, loopback_only: true, process: None },
    ];
    vec![
        ("welcome", Welcome { generation: 1, agent: "0.1.0".into() }.frame(0)),
        ("pong", Frame::new(7, FrameKind::Pong, vec![])),
        ("reborn", Reborn { wall_clock_ns: 1_700_000_000_000_000_001, generation: None }.frame(1)),
        ("started", ProcessStarted { pid: 4242 }.frame(2)),
        ("stdout", Frame::new(2, FrameKind::Stdout, &b"out"[..])),
        ("stderr", Frame::new(2, FrameKind::Stderr, &b"err"[..]).end()),
        ("exit", ProcessExit { code: 143, timed_out: true, signal: None }.frame(2)),
        ("exit negative", ProcessExit { code: -1, timed_out: false, signal: None }.frame(2)),
        ("meta", EntryMetadata { entry: entry() }.frame(3)),
        ("written", BytesWritten { bytes: 1 << 32 }.frame(3)),
        ("entries", DirEntries { entries: vec![entry(), link()] }.frame(4)),
        ("portlist", PortList { ports }.frame(5)),
        ("figures", figures.frame(5)),
        ("done", Frame::new(5, FrameKind::Done, vec![])),
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
    use DirEntryKind::*;
    let kinds = [File, Directory, Symlink, Other];
    kinds
        .into_iter()
        .map(|kind| (format!("entry kind {kind:?}"), EntryMetadata { entry: DirEntry { kind, ..entry() } }.frame(3)))
        .collect()
}

/// Messages that generation 2 added.
fn second() -> Vec<(String, Frame)> {
    let named = [("mount", volumes().frame(5, FrameKind::Mount)), ("grow", volumes().frame(5, FrameKind::Grow))];
    named.into_iter().map(|(name, frame)| (name.to_owned(), frame)).collect()
}

/// Messages that generation 3 added.
fn third() -> Vec<(String, Frame)> {
    let named = [
        ("reborn of generation 3", Reborn { wall_clock_ns: 1, generation: Some(3) }.frame(1)),
        ("exit by a signal", ProcessExit { code: 137, timed_out: false, signal: Some(9) }.frame(2)),
        ("spawn", SpawnProcess { start: full_start(), tag: Some("web".into()) }.frame(2)),
        ("processes", ListProcesses { id: None }.frame(2)),
        ("processes one", ListProcesses { id: Some(7) }.frame(2)),
        ("attach", AttachProcess { id: 7, offset: 1 << 33, follow: true }.frame(2)),
        ("feed", WriteStdin { id: 7, close: true }.frame(2)),
        ("tell", SignalProcess { id: 7, number: 15 }.frame(2)),
        ("forget", ForgetProcess { id: 7 }.frame(2)),
        ("process", process().frame(2)),
        ("process list", ProcessList { processes: vec![process()] }.frame(2)),
        ("position", OutputPosition { offset: 1 << 33 }.frame(2)),
        ("make dir", CreateDir { path: "/a".into(), parents: true }.frame(3)),
        ("move", RenamePath { from: "/a".into(), to: "/b".into(), overwrite: false }.frame(3)),
        ("chmod", SetMode { path: "/a".into(), mode: 0o750, recursive: true }.frame(3)),
        ("walk", WalkDir { path: "/a".into(), depth: 2, entries_max: 100 }.frame(3)),
        ("branches", WalkEntries { entries: vec![entry()], truncated: true }.frame(3).end()),
        ("watch", WatchPath { path: "/a".into(), recursive: true }.frame(3)),
        ("watching", Frame::new(3, FrameKind::Watching, vec![])),
        ("pack", PathMessage { path: "/a".into() }.frame(3, FrameKind::Pack)),
        ("unpack", PathMessage { path: "/a".into() }.frame(3, FrameKind::Unpack)),
        ("unpacked", UnpackReply { entries: 3, bytes: 1 << 33 }.frame(3)),
    ];
    named.into_iter().map(|(name, frame)| (name.to_owned(), frame)).chain(change_kinds()).chain(code()).collect()
}

fn process() -> ProcessReport {
    ProcessReport {
        id: 7,
        pid: 4242,
        command: "sleep 9".into(),
        tag: Some("web".into()),
        started_ms: 1_700_000_000_000,
        ended: Some(ProcessEndReport { code: 137, signal: Some(9), timed_out: true, at_ms: 1_700_000_000_001 }),
        stdout_bytes: 1 << 33,
        stderr_bytes: 2,
        kept_from: 3,
        stdin_open: true,
    }
}

fn change_kinds() -> Vec<(String, Frame)> {
    use PathChangeKind::*;
    let kinds = [Created, Modified, Written, Deleted, MovedFrom, MovedTo, Attributes, Overflow];
    let change = |kind| PathChange { kind, path: "/a/b".into(), folder: true, cookie: Some(5) };
    kinds
        .into_iter()
        .map(|kind| (format!("change {kind:?}"), PathChanges { changes: vec![change(kind)] }.frame(3)))
        .collect()
}

fn volumes() -> VolumeDevices {
    let volume = |serial: &str, path: &str, read_only| VolumeDevice {
        serial: serial.into(),
        path: path.into(),
        read_only,
        size: 1 << 28,
    };
    VolumeDevices { volumes: vec![volume("rw0", "/data", false), volume("ro3", "/models", true)] }
}

/// Code sessions, of generation 3.
fn code() -> Vec<(String, Frame)> {
    let session =
        |id: &str, language| CodeSessionReport { id: id.into(), language, created_ms: 1_700_000_000_000, cells: 3 };
    let sessions = vec![
        session("ctx_1", KernelLanguage::Python),
        session("ctx_2", KernelLanguage::JavaScript),
        session("ctx_3", KernelLanguage::Bash),
    ];
    let named = [
        ("code open", CodeOpen { id: "ctx_1".into(), language: KernelLanguage::Python }.frame(6)),
        ("code sessions", Frame::new(6, FrameKind::CodeSessions, vec![])),
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
    use CodeEnd::*;
    let ends = [Answered, Late, NeverBegun, KernelEnded].map(|end| (format!("code ran {end:?}"), ran(end).frame(6)));
    named.into_iter().map(|(name, frame)| (name.to_owned(), frame)).chain(ends).collect()
}

/// Warm kernels.
fn fourth() -> Vec<(String, Frame)> {
    let warm =
        CodeWarm { language: KernelLanguage::Python, code: "import os".into(), deadline_ms: 300_000, rehearsal: None };
    let rehearsed = CodeWarm { rehearsal: Some("os.getpid()".into()), ..warm.clone() };
    let once = StartProcess { warm: Some(KernelLanguage::Python), ..full_start() };
    let rehearse = Frame::new(6, FrameKind::CodeRehearse, vec![]);
    let named = [
        ("code warm", warm.frame(6)),
        ("code warm with a rehearsal", rehearsed.frame(6)),
        ("code rehearse", rehearse),
        ("start in a warm kernel", once.frame(2)),
    ];
    named.map(|(name, frame)| (name.to_owned(), frame)).to_vec()
}

fn samples() -> Vec<(String, Frame)> {
    first().into_iter().chain(second()).chain(third()).chain(fourth()).collect()
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
    for (generation, samples) in [(1, first()), (2, second()), (3, third()), (4, fourth())] {
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
    for kind in FrameKind::ALL {
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
    assert_eq!(
        VolumeDevices::parse(FrameKind::Mount, &volumes().frame(0, FrameKind::Mount).payload).unwrap(),
        volumes()
    );
    assert_eq!(StartProcess::parse(&full_start().frame(0).payload).unwrap(), full_start());
    assert_eq!(Rebirth::parse(&full_rebirth().frame(0).payload).unwrap(), full_rebirth());
}
