//! Terminals.
use crate::common::{Agent, Client, shell};
use pandastack_wire_guest::{Frame, FrameKind, Message, ProcessExit, Resize, StartProcess};

fn terminal(text: &str, rows: u16, cols: u16) -> StartProcess {
    StartProcess { terminal: Some(Resize { rows, cols }), ..shell(text) }
}

fn text_until(client: &mut Client, mark: &str) -> String {
    let mut text = String::new();
    while !text.contains(mark) {
        let frame = client.expect(1, FrameKind::Stdout);
        text.push_str(&String::from_utf8_lossy(&frame.payload));
    }
    text
}

#[test]
fn a_terminal_has_a_size_that_can_change() {
    let agent = Agent::start();
    let mut client = agent.connect();
    client.start(
        1,
        terminal("trap 'stty size; exit 0' WINCH; stty size; echo $TERM; tty; while :; do sleep 0.01; done", 24, 80),
    );
    let text = text_until(&mut client, "/dev/pts/");
    assert!(text.starts_with("24 80\r\nxterm-256color\r\n"), "{text:?}");
    client.send(Resize { rows: 50, cols: 132 }.frame(1));
    let output = client.finish(1);
    assert!(String::from_utf8_lossy(&output.stdout).ends_with("50 132\r\n"), "{output:?}");
    assert_eq!(output.exit, ProcessExit { code: 0, timed_out: false, signal: None });
}

#[test]
fn keys_are_keys() {
    let agent = Agent::start();
    let mut client = agent.connect();
    client.start(1, terminal("read line; echo got $line; exec sleep 1000", 24, 80));
    client.send(Frame::new(1, FrameKind::Stdin, b"hello\n".to_vec()));
    assert!(text_until(&mut client, "got hello").starts_with("hello\r\n"), "the terminal echoes");
    client.send(Frame::new(1, FrameKind::Stdin, vec![3]));
    assert_eq!(client.finish(1).exit.code, 130);
    client.start(1, terminal("cat; echo ended", 24, 80));
    client.send(Frame::new(1, FrameKind::Stdin, Vec::new()).end());
    assert!(String::from_utf8_lossy(&client.finish(1).stdout).ends_with("ended\r\n"));
}

#[test]
fn last_words_are_heard() {
    let agent = Agent::start();
    let mut client = agent.connect();
    for _ in 0..20 {
        let output = client.run(1, terminal("seq 1 5000; echo last", 24, 80));
        assert!(output.stdout.ends_with(b"5000\r\nlast\r\n"), "{} bytes", output.stdout.len());
    }
    let output = client.run(1, terminal("trap '' HUP; sleep 1000 >/dev/null 2>&1 & echo $!", 24, 80));
    let child = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    client.shell(2, &format!("kill -9 {child}"));
}
