//! Processes: how they start, what they see, how they end.
use std::time::{Duration, Instant};

use crate::common::{Agent, alive, argv, shell, wait_for};
use pandastack_wire_guest::{EnvVariable, ErrorKind, Frame, FrameKind, Message, ProcessExit, Signal, StartProcess};

fn variable(name: &str, value: &str) -> EnvVariable {
    EnvVariable { name: name.into(), value: value.into() }
}

#[test]
fn output_and_exit_code_are_told_apart() {
    let agent = Agent::start();
    let mut client = agent.connect();
    let output = client.run(1, shell("echo out; echo err >&2; exit 7"));
    assert_eq!((&output.stdout[..], &output.stderr[..]), (&b"out\n"[..], &b"err\n"[..]));
    assert_eq!(output.exit, ProcessExit { code: 7, timed_out: false, signal: None });
    assert_eq!(client.run(1, argv(&["printf", "%s|", "a b", ""])).stdout, b"a b||");
    assert_eq!(client.run(1, shell("no-such-program-here")).exit.code, 127);
}

#[test]
fn signals_reach_the_group_and_show_in_the_code() {
    let agent = Agent::start();
    let mut client = agent.connect();
    for number in [1, 9, 15] {
        // The sleep is a child of the shell. It must get the signal too, or the shell would wait
        // for it.
        client.start(1, shell("sleep 1000; true"));
        client.send(Signal { number }.frame(1));
        assert_eq!(client.finish(1).exit, ProcessExit { code: 128 + number, timed_out: false, signal: Some(number) });
    }
    client.start(1, shell("trap 'echo caught; exit 3' USR1; echo ready; while :; do sleep 0.01; done"));
    client.expect(1, FrameKind::Stdout);
    client.send(Signal { number: 10 }.frame(1));
    let output = client.finish(1);
    assert_eq!((&output.stdout[..], output.exit.code), (&b"caught\n"[..], 3));
    // Numbers that are not signals are ignored.
    client.start(1, shell("sleep 0.05"));
    [0, -1, 64, 65, i32::MAX, i32::MIN].into_iter().for_each(|number| client.send(Signal { number }.frame(1)));
    assert_eq!(client.finish(1).exit.code, 0);
}

#[test]
fn signals_are_as_a_program_expects_them() {
    let agent = Agent::start();
    let mut client = agent.connect();
    let text = client.shell(1, "grep -E 'Sig(Blk|Ign)' /proc/self/status | awk '{print $2}'");
    // The low half are the standard signals; others may be inherited from the test runner.
    assert!(text.lines().all(|mask| u64::from_str_radix(mask, 16).unwrap() & 0x7fff_ffff == 0), "{text}");
    // A writer dies of SIGPIPE instead of seeing an error.
    assert_eq!(client.shell(1, "yes | head -n1"), "y\n");
}

#[test]
fn environment_comes_in_layers() {
    let agent = Agent::start();
    let mut client = agent.connect();
    assert_eq!(
        client.shell(1, "env | grep -vE '^(PWD|SHLVL|_|OLDPWD)=' | sort"),
        "HOME=/root\nLANG=C.UTF-8\nLOGNAME=root\n\
         PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\nUSER=root\n"
    );
    let env = vec![variable("A", "1"), variable("A", "2"), variable("HOME", "/tmp"), variable("EMPTY", "")];
    let output =
        client.run(1, StartProcess { env, cwd: Some("/usr".into()), ..shell("echo $A $HOME ${EMPTY-unset} $PWD") });
    assert_eq!(output.stdout, b"2 /tmp /usr\n");
    let output = client.run(1, StartProcess { user: Some("nobody".into()), ..shell("id -un; id -gn; echo $USER") });
    assert_eq!(output.stdout, b"nobody\nnogroup\nnobody\n");
    let output = client.run(1, StartProcess { user: Some("4242".into()), ..shell("id -u; id -g; id -G; pwd") });
    assert_eq!(output.stdout, b"4242\n4242\n4242\n/\n");
}

#[test]
fn no_descriptors_leak_into_a_process() {
    let agent = Agent::start();
    let (mut one, mut two) = (agent.connect(), agent.connect());
    two.start(1, StartProcess { stdin: true, ..shell("cat") });
    assert_eq!(one.shell(1, "ls /proc/self/fd | wc -l"), "4\n", "three streams and the folder ls reads");
    assert_eq!(one.shell(1, "cat; cut -d' ' -f5,6 /proc/self/stat | tr ' ' '\\n' | uniq | wc -l"), "1\n");
}

#[test]
fn what_cannot_start_says_why() {
    let agent = Agent::start();
    let mut client = agent.connect();
    let cases: Vec<(StartProcess, ErrorKind, &str)> = vec![
        (argv(&[]), ErrorKind::Invalid, "empty"),
        (argv(&[""]), ErrorKind::Invalid, "empty"),
        (argv(&["a\0b"]), ErrorKind::Invalid, "NUL byte"),
        (argv(&["no-such-program-here"]), ErrorKind::Missing, "no-such-program-here"),
        (argv(&["/no/such"]), ErrorKind::Missing, "/no/such"),
        (argv(&["/etc/passwd"]), ErrorKind::Denied, "/etc/passwd"),
        (StartProcess { cwd: Some("/no/such".into()), ..shell("true") }, ErrorKind::Missing, "/no/such"),
        (StartProcess { cwd: Some("/etc/passwd".into()), ..shell("true") }, ErrorKind::WrongType, "/etc/passwd"),
        (StartProcess { cwd: Some("tmp".into()), ..shell("true") }, ErrorKind::Invalid, "absolute"),
        (StartProcess { user: Some("no-such-user".into()), ..shell("true") }, ErrorKind::Missing, "no-such-user"),
        (StartProcess { env: vec![variable("A=B", "1")], ..shell("true") }, ErrorKind::Invalid, "A=B"),
        (StartProcess { env: vec![variable("", "1")], ..shell("true") }, ErrorKind::Invalid, "variable"),
        (shell(&"x".repeat(200_000)), ErrorKind::Invalid, "long"),
    ];
    for (start, kind, text) in cases {
        client.send(start.frame(1));
        let found = client.expect_error(1, kind);
        assert!(found.contains(text), "{found:?} does not mention {text:?}");
    }
    assert_eq!(agent.children(), [0; 0], "nothing is left of them");
    assert_eq!(client.shell(1, "echo fine"), "fine\n");
}

#[test]
fn input_is_streamed_and_ends() {
    let agent = Agent::start();
    let mut client = agent.connect();
    client.start(1, StartProcess { stdin: true, ..shell("wc -c") });
    let block = vec![b'x'; 100_000];
    let (mut sent, mut window) = (0, pandastack_wire_guest::WINDOW_BYTES);
    while sent < 50 {
        if window >= block.len() {
            client.send(Frame::new(1, FrameKind::Stdin, block.clone()));
            (sent, window) = (sent + 1, window - block.len());
        } else {
            let frame = client.expect(1, FrameKind::Credit);
            window += pandastack_wire_guest::Credit::parse(&frame.payload).unwrap().bytes as usize;
        }
    }
    client.send(Frame::new(1, FrameKind::Stdin, Vec::new()).end());
    assert_eq!(client.finish(1).stdout, b"5000000\n");
    // Without input it is empty at once. Input that a process does not read is discarded.
    assert_eq!(client.shell(1, "wc -c"), "0\n");
    client.start(1, StartProcess { stdin: true, ..shell("exec <&-; sleep 0.1; echo done") });
    (0..4).for_each(|_| client.send(Frame::new(1, FrameKind::Stdin, block.clone())));
    assert_eq!(client.finish(1).stdout, b"done\n");
}

#[test]
fn too_much_input_ends_the_channel_only() {
    let agent = Agent::start();
    let mut client = agent.connect();
    let pid = client.start(1, StartProcess { stdin: true, ..shell("exec sleep 1000") });
    client.start(2, StartProcess { stdin: true, ..shell("cat") });
    (0..12).for_each(|_| client.send(Frame::new(1, FrameKind::Stdin, vec![0; 100_000])));
    client.expect_error(1, ErrorKind::Invalid);
    wait_for("the end of the process", || !alive(pid));
    client.send(Frame::new(2, FrameKind::Stdin, b"still here".to_vec()).end());
    assert_eq!(client.finish(2).stdout, b"still here");
}

#[test]
fn a_deadline_asks_then_forces() {
    let agent = Agent::start();
    let mut client = agent.connect();
    // Enough for a shell to begin, also on a slow machine.
    let deadline_ms = Some(3000);
    let output = client.run(1, StartProcess { deadline_ms, ..shell("echo begun; sleep 1000") });
    assert_eq!(
        (&output.stdout[..], output.exit),
        (&b"begun\n"[..], ProcessExit { code: 143, timed_out: true, signal: Some(15) }),
        "TERM was enough"
    );
    let output = client
        .run(1, StartProcess { deadline_ms, ..shell("trap 'echo bye; exit 5' TERM; while :; do sleep 0.01; done") });
    assert_eq!(
        (&output.stdout[..], output.exit),
        (&b"bye\n"[..], ProcessExit { code: 5, timed_out: true, signal: None })
    );
    let begun = Instant::now();
    let output = client.run(1, StartProcess { deadline_ms, ..shell("trap '' TERM; while :; do sleep 0.01; done") });
    assert_eq!(output.exit, ProcessExit { code: 137, timed_out: true, signal: Some(9) });
    assert!(begun.elapsed() >= Duration::from_secs(5));
    let output = client.run(1, StartProcess { deadline_ms: Some(60_000), ..shell("exit 4") });
    assert_eq!(output.exit, ProcessExit { code: 4, timed_out: false, signal: None });
    let output = client.run(1, StartProcess { deadline_ms: Some(u64::MAX), ..shell("exit 4") });
    assert_eq!(output.exit, ProcessExit { code: 4, timed_out: false, signal: None });
}

#[test]
fn nothing_of_the_group_survives_a_deadline() {
    let agent = Agent::start();
    let mut client = agent.connect();
    client.start(
        1,
        StartProcess {
            deadline_ms: Some(3000),
            ..shell("(trap '' TERM; echo $(exec sh -c 'echo $PPID'); exec sleep 1000) & wait")
        },
    );
    let output = client.finish(1);
    assert!(output.exit.timed_out);
    let child: u32 = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
    wait_for("the end of the child", || !alive(child));
}

#[test]
fn a_detached_child_does_not_hold_the_answer() {
    let agent = Agent::start();
    let mut client = agent.connect();
    let output = client.run(1, shell("sleep 1000 & echo $!; echo last words"));
    let text = String::from_utf8(output.stdout).unwrap();
    let (child, rest) = text.split_once('\n').unwrap();
    assert_eq!((rest, output.exit.code), ("last words\n", 0));
    assert!(alive(child.parse().unwrap()), "a detached child lives on after a normal end");
    client.shell(1, &format!("kill -9 {child}"));
    // The same for a child that never stops writing: only the output up to the end is sent.
    let output = client.run(1, shell("yes & echo $! >&2; sleep 0.1"));
    let child: u32 = String::from_utf8(output.stderr).unwrap().trim().parse().unwrap();
    // The child survives its parent: its later output is discarded and it does not block.
    drop(client);
    std::thread::sleep(Duration::from_millis(100));
    assert!(alive(child));
    agent.connect().shell(1, &format!("kill -9 {child}"));
}

#[test]
fn cancel_ends_the_process_and_still_answers() {
    let agent = Agent::start();
    let mut client = agent.connect();
    client.start(1, shell("sleep 1000"));
    client.send_empty(1, FrameKind::Cancel);
    assert_eq!(client.finish(1).exit, ProcessExit { code: 143, timed_out: false, signal: Some(15) });
    client.start(1, shell("trap '' TERM; echo ready; while :; do sleep 0.01; done"));
    client.expect(1, FrameKind::Stdout);
    client.send_empty(1, FrameKind::Cancel);
    assert_eq!(client.finish(1).exit, ProcessExit { code: 137, timed_out: false, signal: Some(9) });
    // A writer without credit is cancelled too, though its output cannot be sent.
    client.start(1, shell("exec yes"));
    client.send_empty(1, FrameKind::Cancel);
    assert_eq!(client.finish(1).exit.code, 143);
}

#[test]
fn a_lost_connection_takes_its_processes_along() {
    let agent = Agent::start();
    let mut other = agent.connect();
    let kept = other.start(1, StartProcess { stdin: true, ..shell("cat") });
    let mut client = agent.connect();
    let leader = client.start(1, shell("echo $$; sleep 1000 & wait"));
    client.expect(1, FrameKind::Stdout);
    let stopped = client.start(2, shell("kill -STOP $$"));
    drop(client);
    wait_for("the end of the processes", || !alive(leader) && !alive(stopped));
    wait_for("reaping", || agent.children() == [kept]);
    other.send(Frame::new(1, FrameKind::Stdin, b"kept".to_vec()).end());
    assert_eq!(other.finish(1).stdout, b"kept");
}

#[test]
fn orphans_are_reaped() {
    let agent = Agent::start();
    let mut client = agent.connect();
    let text = client.shell(1, "for i in 1 2 3 4 5; do (setsid sleep 0.1 & ) ; done; echo done");
    assert_eq!(text, "done\n");
    wait_for("reaping", || agent.children().is_empty());
}

#[test]
fn a_stream_that_closes_early_says_so() {
    let agent = Agent::start();
    let mut client = agent.connect();
    client.start(1, StartProcess { stdin: true, ..shell("echo only >&2; exec >&-; cat >&2") });
    let closed = loop {
        let frame = client.next(1);
        if frame.flags.is_end() {
            break frame;
        }
    };
    assert_eq!((closed.kind, closed.payload.len()), (FrameKind::Stdout, 0));
    client.send(Frame::new(1, FrameKind::Stdin, b"rest".to_vec()).end());
    assert_eq!(client.finish(1).stderr, b"rest");
}
