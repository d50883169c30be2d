//! Processes in a real guest: the agent's guarantees about running them.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use pandastack_e2e::{PATIENCE, collect, in_turn, next, python, read_until, run, shell, start, with_sandbox};
use pandastack_model::{FaultKind, SandboxId};
use pandastack_testbed::{Bed, wait_for};
use pandastack_wire_fleet::{ExecControl, ExecEvent, ExecParams, Program};
use sha2::{Digest, Sha256};

#[tokio::test]
async fn the_agent_keeps_its_guarantees_about_processes() {
    with_sandbox(async |bed, id| {
        in_turn! { (bed, id) after nothing_runs:
            output_streams_stay_apart_and_the_exit_code_arrives,
            a_process_ended_by_a_signal_exits_with_128_plus_its_number,
            folder_environment_and_user_are_as_asked,
            input_comes_back_from_cat_and_ends_when_closed,
            input_larger_than_the_window_arrives_whole,
            a_deadline_ends_the_process_and_its_children,
            a_detached_child_that_holds_the_pipe_holds_nobody_back,
            a_terminal_is_one_and_can_be_resized,
            bytes_that_are_no_text_pass_unchanged,
            eight_mebibytes_of_output_arrive_whole_and_in_order,
            a_reader_that_stops_reading_stops_the_process_and_loses_nothing,
            thirty_two_commands_at_once_each_get_their_own_answer,
            dropping_a_session_ends_its_process,
        }
    })
    .await;
}

/// Ends what an earlier function has left.
async fn nothing_runs(bed: &Bed, id: SandboxId) {
    bed.out(id, "pkill sleep || true").await;
}

async fn output_streams_stay_apart_and_the_exit_code_arrives(bed: &Bed, id: SandboxId) {
    let ran = run(bed, id, shell("echo out; echo err >&2; exit 7")).await;
    assert_eq!((ran.out().as_str(), ran.err().as_str(), ran.code()), ("out\n", "err\n", 7));
    let argv = Program::Argv(vec!["printf".into(), "%s|".into(), "a b".into(), "$HOME".into()]);
    let ran = run(bed, id, ExecParams { program: argv, ..shell("") }).await;
    assert_eq!((ran.out().as_str(), ran.code()), ("a b|$HOME|", 0), "arguments must not see a shell");
}

async fn a_process_ended_by_a_signal_exits_with_128_plus_its_number(bed: &Bed, id: SandboxId) {
    assert_eq!(run(bed, id, shell("kill -KILL $$")).await.code(), 128 + 9);
    let session = start(bed, id, shell("exec sleep 600")).await.unwrap();
    session.control.send(ExecControl::Signal(15)).await.unwrap();
    assert_eq!(collect(session).await.code(), 128 + 15, "a signal sent from outside");
}

async fn folder_environment_and_user_are_as_asked(bed: &Bed, id: SandboxId) {
    let ask = ExecParams {
        cwd: Some("/usr/share".into()),
        env: BTreeMap::from([("GREETING".to_owned(), "é 😀".to_owned())]),
        user: Some("nobody".into()),
        ..shell("pwd; id -un; printf %s \"$GREETING\"")
    };
    assert_eq!(run(bed, id, ask).await.out(), "/usr/share\nnobody\né 😀");
    let refused = start(bed, id, ExecParams { cwd: Some("/nowhere".into()), ..shell("true") }).await.unwrap_err();
    assert!(matches!(refused.kind, FaultKind::Missing | FaultKind::Caller), "{refused}");
    let refused = start(bed, id, ExecParams { user: Some("ghost".into()), ..shell("true") }).await.unwrap_err();
    assert!(matches!(refused.kind, FaultKind::Missing | FaultKind::Caller), "{refused}");
    let none = ExecParams { program: Program::Argv(vec!["no-such-program".into()]), ..shell("") };
    let refused = start(bed, id, none).await;
    assert!(refused.is_err(), "a program that is not there must not start");
}

async fn input_comes_back_from_cat_and_ends_when_closed(bed: &Bed, id: SandboxId) {
    let mut session = start(bed, id, ExecParams { stdin: true, ..shell("cat; echo end") }).await.unwrap();
    session.control.send(ExecControl::Stdin(Bytes::from_static(b"first\n"))).await.unwrap();
    assert_eq!(read_until(&mut session, "first\n").await, "first\n");
    session.control.send(ExecControl::Stdin(Bytes::from_static(b"second\n"))).await.unwrap();
    session.control.send(ExecControl::CloseStdin).await.unwrap();
    let ran = collect(session).await;
    assert_eq!((ran.out().as_str(), ran.code()), ("second\nend\n", 0));
}

async fn input_larger_than_the_window_arrives_whole(bed: &Bed, id: SandboxId) {
    let session = start(bed, id, ExecParams { stdin: true, ..shell("sha256sum") }).await.unwrap();
    let mut digest = Sha256::new();
    for number in 0..48_u8 {
        let piece = Bytes::from(vec![number; 64 * 1024]);
        digest.update(&piece);
        session.control.send(ExecControl::Stdin(piece)).await.unwrap();
    }
    session.control.send(ExecControl::CloseStdin).await.unwrap();
    let ran = collect(session).await;
    assert_eq!(ran.out().split_whitespace().next(), Some(hex(&digest.finalize()).as_str()));
}

async fn a_deadline_ends_the_process_and_its_children(bed: &Bed, id: SandboxId) {
    let after = Duration::from_secs(1);
    let ran = run(bed, id, ExecParams { deadline: Some(after), ..shell("sleep 601 & sleep 602; wait") }).await;
    assert_eq!(ran.end, ExecEvent::TimedOut { after });
    let alive = async || {
        let ran = run(bed, id, shell("cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c 'sleep 60[12]' || true")).await;
        (ran.out().trim() == "0").then_some(())
    };
    wait_for("the children's end", PATIENCE, alive).await;
}

async fn a_detached_child_that_holds_the_pipe_holds_nobody_back(bed: &Bed, id: SandboxId) {
    // The child keeps the output pipes open far longer than the test's timeout.
    let ran = run(bed, id, ExecParams { deadline: None, ..shell("setsid sleep 900 & echo started") }).await;
    assert_eq!((ran.out().as_str(), ran.code()), ("started\n", 0));
    let ran = run(bed, id, shell("cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c 'sleep 900'")).await;
    assert_ne!(ran.out().trim(), "0", "a detached child goes on");
}

async fn a_terminal_is_one_and_can_be_resized(bed: &Bed, id: SandboxId) {
    let ask = ExecParams {
        terminal: Some((30, 100)),
        stdin: true,
        ..shell("tty; stty size; read line; stty size; echo got $line")
    };
    let mut session = start(bed, id, ask).await.unwrap();
    let said = read_until(&mut session, "30 100").await;
    assert!(said.contains("/dev/pts/"), "{said:?}");
    session.control.send(ExecControl::Resize { rows: 50, cols: 120 }).await.unwrap();
    session.control.send(ExecControl::Stdin(Bytes::from_static(b"hello\n"))).await.unwrap();
    let ran = collect(session).await;
    assert!(ran.out().contains("50 120") && ran.out().contains("got hello"), "{:?}", ran.out());
    assert_eq!((ran.code(), ran.stderr.len()), (0, 0), "a terminal has one stream");
}

async fn bytes_that_are_no_text_pass_unchanged(bed: &Bed, id: SandboxId) {
    let ran = run(bed, id, python("import sys; sys.stdout.buffer.write(bytes(range(256)))")).await;
    assert_eq!(ran.stdout, (0..=255).collect::<Vec<u8>>());
    assert_eq!(ran.code(), 0);
}

async fn eight_mebibytes_of_output_arrive_whole_and_in_order(bed: &Bed, id: SandboxId) {
    let script = "import sys\nfor n in range(128): sys.stdout.buffer.write(bytes([n]) * 65536)";
    let ran = run(bed, id, python(script)).await;
    assert_eq!((ran.stdout.len(), ran.code()), (8 << 20, 0));
    let expected = (0..128_u8).fold(Sha256::new(), |digest, n| digest.chain_update(vec![n; 65536]));
    assert_eq!(hex(&Sha256::digest(&ran.stdout)), hex(&expected.finalize()));
}

async fn a_reader_that_stops_reading_stops_the_process_and_loses_nothing(bed: &Bed, id: SandboxId) {
    let mut session = start(bed, id, shell("head -c 8388608 /dev/zero; touch /tmp/finished")).await.unwrap();
    let ExecEvent::Stdout(first) = next(&mut session).await else { panic!("output comes first") };
    // Other requests on the same link continue while this one is blocked.
    assert_eq!(run(bed, id, shell("test -e /tmp/finished")).await.code(), 1, "the process ran ahead of its reader");
    let rest = collect(session).await;
    assert_eq!((first.len() + rest.stdout.len(), rest.code()), (8 << 20, 0));
}

async fn thirty_two_commands_at_once_each_get_their_own_answer(bed: &Bed, id: SandboxId) {
    let all = (0..32).map(|number| run(bed, id, shell(&format!("echo {number}; exit {number}"))));
    for (number, ran) in futures_util::future::join_all(all).await.into_iter().enumerate() {
        assert_eq!((ran.out(), ran.code()), (format!("{number}\n"), number as i32));
    }
}

async fn dropping_a_session_ends_its_process(bed: &Bed, id: SandboxId) {
    let mut session = start(bed, id, shell("echo up; exec sleep 700")).await.unwrap();
    read_until(&mut session, "up").await;
    drop(session);
    let gone = async || {
        let ran = run(bed, id, shell("cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c 'sleep 70[0]' || true")).await;
        (ran.out().trim() == "0").then_some(())
    };
    wait_for("the end of the process", PATIENCE, gone).await;
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
