//! Processes that outlive their requests.
use std::fs;

use crate::common::{Agent, Client, alive, argv, shell, wait_for};
use pandastack_wire_guest::{
    AttachProcess, BytesWritten, Credit, ErrorKind, ForgetProcess, Frame, FrameKind, ListProcesses, Message,
    OutputPosition, ProcessList, ProcessReport, SignalProcess, SpawnProcess, StartProcess, WINDOW_BYTES, WriteStdin,
    frame_cost,
};

/// Output that the agent keeps of one process.
const KEPT: u64 = 512 * 1024;

fn spawn(client: &mut Client, start: StartProcess) -> ProcessReport {
    client.send(SpawnProcess { start, tag: Some("mine".into()) }.frame(1));
    ProcessReport::parse(&client.expect(1, FrameKind::Process).payload).unwrap()
}

fn list(client: &mut Client, id: Option<u64>) -> Vec<ProcessReport> {
    client.send(ListProcesses { id }.frame(2));
    ProcessList::parse(&client.expect(2, FrameKind::ProcessList).payload).unwrap().processes
}

/// Output that a reader received.
#[derive(Debug)]
struct Seen {
    /// Offset of each run of bytes.
    positions: Vec<u64>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    last: ProcessReport,
}

fn attach(client: &mut Client, channel: u32, id: u64, offset: u64, follow: bool) -> Seen {
    client.send(AttachProcess { id, offset, follow }.frame(channel));
    read(client, channel)
}

fn read(client: &mut Client, channel: u32) -> Seen {
    let (mut positions, mut stdout, mut stderr) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        let frame = client.next(channel);
        match frame.kind {
            FrameKind::Position => positions.push(OutputPosition::parse(&frame.payload).unwrap().offset),
            FrameKind::Stdout => stdout.extend_from_slice(&frame.payload),
            FrameKind::Stderr => stderr.extend_from_slice(&frame.payload),
            FrameKind::Process => {
                let last = ProcessReport::parse(&frame.payload).unwrap();
                return Seen { positions, stdout, stderr, last };
            }
            _ => panic!("{frame:?}"),
        }
        client.credit(channel, frame_cost(frame.payload.len()));
    }
}

fn ended(client: &mut Client, id: u64) -> ProcessReport {
    let mut found = None;
    wait_for("the end of the process", || {
        found = list(client, Some(id)).pop().filter(|process| process.ended.is_some());
        found.is_some()
    });
    found.unwrap()
}

#[test]
fn a_process_outlives_its_connection_and_is_read_from_any_offset_by_many() {
    let agent = Agent::start();
    let mut first = agent.connect();
    let started = spawn(
        &mut first,
        shell("echo one; echo bad >&2; read line < /proc/self/fd/0; echo two; sleep 0.2; echo three"),
    );
    assert_eq!((started.id, started.tag.as_deref(), started.ended.is_some()), (1, Some("mine"), false));
    drop(first);
    let (mut one, mut two) = (agent.connect(), agent.connect());
    let seen = attach(&mut one, 3, 1, 0, true);
    let end = seen.last.ended.clone().unwrap();
    assert_eq!((seen.stdout.as_slice(), seen.stderr.as_slice()), (&b"one\ntwo\nthree\n"[..], &b"bad\n"[..]));
    assert_eq!((end.code, end.signal, end.timed_out), (0, None, false));
    assert_eq!((seen.last.stdout_bytes, seen.last.stderr_bytes, seen.positions.as_slice()), (14, 4, &[0][..]));
    let rest = attach(&mut two, 3, 1, 8, false);
    assert_eq!(rest.stdout.len() + rest.stderr.len(), 10, "an offset counts both streams");
    assert_eq!(attach(&mut two, 4, 1, 18, true).stdout, b"");
    two.send(AttachProcess { id: 1, offset: 19, follow: true }.frame(5));
    two.expect_error(5, ErrorKind::Invalid);
    for frame in [
        AttachProcess { id: 7, offset: 0, follow: true }.frame(6),
        ListProcesses { id: Some(7) }.frame(6),
        SignalProcess { id: 7, number: 15 }.frame(6),
        ForgetProcess { id: 7 }.frame(6),
        WriteStdin { id: 7, close: true }.frame(6),
    ] {
        two.send(frame);
        two.expect_error(6, ErrorKind::Missing);
    }
}

#[test]
fn a_start_that_fails_leaves_nothing() {
    let agent = Agent::start();
    let mut client = agent.connect();
    client.send(SpawnProcess { start: argv(&["no-such-program"]), tag: None }.frame(1));
    client.expect_error(1, ErrorKind::Missing);
    client.send(
        SpawnProcess { start: StartProcess { cwd: Some("/nowhere".into()), ..shell("true") }, tag: None }.frame(1),
    );
    client.expect_error(1, ErrorKind::Missing);
    assert!(list(&mut client, None).is_empty());
    assert_eq!(spawn(&mut client, shell("true")).id, 3, "numbers are not used twice");
}

#[test]
fn the_oldest_output_goes_first_and_a_slow_reader_is_told_so() {
    let agent = Agent::start();
    let mut client = agent.connect();
    let start = shell(
        "head -c 300000 /dev/zero; until test -e $GO; do sleep 0.01; done; yes 0123456 | head -c 4000000; echo end",
    );
    let folder = tempfile::tempdir().unwrap();
    let go = folder.path().join("go");
    let variable = pandastack_wire_guest::EnvVariable { name: "GO".into(), value: go.to_str().unwrap().into() };
    let id = spawn(&mut client, StartProcess { env: vec![variable], ..start }).id;
    // A reader that gives no credit beyond its first window.
    client.send(AttachProcess { id, offset: 0, follow: true }.frame(3));
    fs::write(&go, "").unwrap();
    let process = ended(&mut client, id);
    let total = 300_000 + 4_000_000 + 4;
    assert_eq!((process.stdout_bytes, process.kept_from), (total, total - KEPT));
    let late = attach(&mut client, 4, id, 0, true);
    assert_eq!((late.positions.as_slice(), late.stdout.len() as u64), (&[total - KEPT][..], KEPT));
    assert!(late.stdout.ends_with(b"6\nend\n"));
    let slow = read(&mut client, 3);
    assert!(slow.positions.len() >= 2, "it was told where it goes on");
    assert!(slow.stdout.len() >= WINDOW_BYTES / 2 && slow.stdout.ends_with(b"end\n"));
    assert!((slow.stdout.len() as u64) < total, "it cannot have had what was dropped");
    assert!(agent.memory() < 64 << 20, "{}", agent.memory());
}

#[test]
fn input_is_written_and_closed() {
    let agent = Agent::start();
    let mut client = agent.connect();
    let id = spawn(&mut client, StartProcess { stdin: true, ..shell("cat; echo done") }).id;
    for (text, close) in [("first ", false), ("second ", false), ("", true)] {
        client.send(WriteStdin { id, close }.frame(5));
        client.send(Frame::new(5, FrameKind::Data, text.as_bytes().to_vec()).end());
        let written = BytesWritten::parse(&client.expect(5, FrameKind::Written).payload).unwrap();
        assert_eq!(written.bytes, text.len() as u64);
    }
    assert_eq!(attach(&mut client, 6, id, 0, true).stdout, b"first second done\n");
    for id in [id, spawn(&mut client, shell("sleep 60")).id] {
        client.send(WriteStdin { id, close: false }.frame(5));
        client.expect_error(5, ErrorKind::Denied);
    }
}

#[test]
fn much_input_reaches_a_process_that_reads_and_none_waits_for_one_that_does_not() {
    let agent = Agent::start();
    let mut client = agent.connect();
    let reads = spawn(&mut client, StartProcess { stdin: true, ..shell("wc -c") }).id;
    client.send(WriteStdin { id: reads, close: true }.frame(5));
    let (mut window, block) = (WINDOW_BYTES, vec![b'x'; 256 * 1024]);
    for _ in 0..16 {
        while window < block.len() {
            window += Credit::parse(&client.expect(5, FrameKind::Credit).payload).unwrap().bytes as usize;
        }
        window -= block.len();
        client.send(Frame::new(5, FrameKind::Data, block.clone()));
    }
    client.send(Frame::new(5, FrameKind::Data, Vec::new()).end());
    while client.next(5).kind == FrameKind::Credit {}
    assert_eq!(attach(&mut client, 6, reads, 0, true).stdout, b"4194304\n");
    let deaf = spawn(&mut client, StartProcess { stdin: true, ..shell("exec sleep 60") }).id;
    client.send(WriteStdin { id: deaf, close: false }.frame(7));
    for _ in 0..4 {
        client.send(Frame::new(7, FrameKind::Data, block.clone()));
    }
    client.send(WriteStdin { id: deaf, close: false }.frame(8));
    client.send(Frame::new(8, FrameKind::Data, block.clone()));
    client.expect_error(8, ErrorKind::Full);
}

#[test]
fn signals_and_the_end_reach_the_whole_group() {
    let agent = Agent::start();
    let mut client = agent.connect();
    let polite = spawn(&mut client, shell("trap 'echo caught; exit 3' TERM; echo up; while :; do sleep 0.01; done")).id;
    wait_for("its first word", || list(&mut client, Some(polite))[0].stdout_bytes > 0);
    client.send(SignalProcess { id: polite, number: 15 }.frame(3));
    client.expect(3, FrameKind::Done);
    let end = ended(&mut client, polite).ended.unwrap();
    assert_eq!((end.code, end.signal), (3, None));
    client.send(SignalProcess { id: polite, number: 15 }.frame(3));
    client.expect_error(3, ErrorKind::Denied);
    client.send(SignalProcess { id: polite, number: 99 }.frame(3));
    client.expect_error(3, ErrorKind::Invalid);

    let group = spawn(&mut client, shell("trap '' TERM; sleep 601 & sleep 602 & echo $!; wait; wait")).id;
    wait_for("its first word", || list(&mut client, Some(group))[0].stdout_bytes > 0);
    let child: u32 = String::from_utf8(attach(&mut client, 4, group, 0, false).stdout).unwrap().trim().parse().unwrap();
    assert!(alive(child));
    client.send(AttachProcess { id: group, offset: 0, follow: true }.frame(5));
    client.expect(5, FrameKind::Position);
    client.send(ForgetProcess { id: group }.frame(6));
    client.expect(6, FrameKind::Done);
    wait_for("the child's end", || !alive(child));
    let seen = read(&mut client, 5);
    assert_eq!(seen.last.ended.unwrap().signal, Some(9), "a reader still sees the end");
    assert_eq!(list(&mut client, None).len(), 1);
    wait_for("the end of all children", || agent.children().is_empty());
}

#[test]
fn a_deadline_ends_it() {
    let agent = Agent::start();
    let mut client = agent.connect();
    let id = spawn(&mut client, StartProcess { deadline_ms: Some(200), ..shell("sleep 600 & sleep 600") }).id;
    let end = ended(&mut client, id).ended.unwrap();
    assert!(end.timed_out && end.signal == Some(15), "{end:?}");
    wait_for("the end of all children", || agent.children().is_empty());
}

#[test]
fn the_oldest_that_has_ended_makes_room() {
    let agent = Agent::start();
    let mut client = agent.connect();
    let kept = spawn(&mut client, shell("sleep 600")).id;
    for _ in 0..63 {
        let id = spawn(&mut client, shell("true")).id;
        ended(&mut client, id);
    }
    assert_eq!(list(&mut client, None).len(), 64);
    let one_more = spawn(&mut client, shell("sleep 600")).id;
    let ids: Vec<u64> = list(&mut client, None).iter().map(|process| process.id).collect();
    assert_eq!((ids.len(), ids[0], ids[1], ids[63]), (64, kept, 3, one_more));
    for _ in 0..62 {
        spawn(&mut client, shell("sleep 600"));
    }
    client.send(SpawnProcess { start: shell("true"), tag: None }.frame(1));
    client.expect_error(1, ErrorKind::Full);
}

#[test]
fn text_is_never_cut_inside_a_character() {
    let agent = Agent::start();
    let mut client = agent.connect();
    let id = spawn(
        &mut client,
        shell(r"printf '\360\237'; sleep 0.2; printf x >&2; sleep 0.2; printf '\230\200'; sleep 0.2; printf '\303'"),
    )
    .id;
    client.send(AttachProcess { id, offset: 0, follow: true }.frame(3));
    let mut pieces = Vec::new();
    loop {
        let frame = client.next(3);
        match frame.kind {
            FrameKind::Process => break,
            FrameKind::Position => {}
            _ => pieces.push(frame.payload.to_vec()),
        }
    }
    assert_eq!(
        (pieces[0].as_slice(), pieces[1..].concat()),
        (&b"x"[..], "😀".bytes().chain([0xc3]).collect::<Vec<u8>>())
    );
}
