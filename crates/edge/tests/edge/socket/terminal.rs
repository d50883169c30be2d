//! Terminals: bytes in both directions, resizes, and the exit.

use std::time::Duration;

use bytes::Bytes;
use pandastack_edge::limits::SOCKET_MESSAGE_BYTES_MAX;
use pandastack_model::{Fault, FaultKind};
use pandastack_wire_fleet::{ExecControl, ExecEvent, Program};
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use super::out;
use crate::rig::{PATIENCE, Rig, within};

#[tokio::test]
async fn a_terminal_has_a_size_and_a_login_shell() {
    let mut rig = Rig::start().await;
    for (path, size) in [
        ("/ssh", (24, 80)),
        ("/exec/pty", (24, 80)),
        ("/ssh?rows=40&cols=132", (40, 132)),
        ("/exec/pty?rows=undefined&cols=0", (24, 80)),
        ("/exec/pty?rows=70000&cols=-1", (24, 80)),
    ] {
        let _peer = rig.open(path).await;
        let ask = rig.next_played().await.ask;
        assert_eq!((ask.terminal, ask.stdin, ask.deadline), (Some(size), true, None), "{path}");
        assert!(matches!(&ask.program, Program::Shell(line) if line.contains(r#"exec "$shell" -l"#)), "{ask:?}");
    }
    let _peer = rig.open("/exec/pty?cmd=python3%20-q").await;
    assert_eq!(rig.next_played().await.ask.program, Program::Shell("python3 -q".into()));
    let _peer = rig.open("/ssh?cmd=ignored").await;
    assert!(rig.next_played().await.ask.program != Program::Shell("ignored".into()));
}

#[tokio::test]
async fn bytes_pass_both_ways_unchanged() {
    let mut rig = Rig::start().await;
    for path in ["/exec/pty", "/ssh"] {
        let mut peer = rig.open(path).await;
        let mut played = rig.next_played().await;
        let every: Vec<u8> = (0..=255).collect();
        peer.send(Message::binary(every.clone())).await;
        peer.send(Message::text(r#"{"stdin":"é\u0003"}"#)).await;
        peer.send(Message::text(r#"{"resize":{"rows":30,"cols":100}}"#)).await;
        peer.send(Message::text(r#"{"type":"resize","rows":31,"cols":101}"#)).await;
        // Invalid sizes and unknown frames have no effect.
        peer.send(Message::text(r#"{"resize":{"rows":0,"cols":-1}}"#)).await;
        peer.send(Message::text(r#"{"type":"hello"}"#)).await;
        peer.send(Message::binary(Vec::new())).await;
        peer.send(Message::binary(b"end".to_vec())).await;
        for expected in [
            ExecControl::Stdin(Bytes::from(every.clone())),
            ExecControl::Stdin(Bytes::from_static("é\u{3}".as_bytes())),
            ExecControl::Resize { rows: 30, cols: 100 },
            ExecControl::Resize { rows: 31, cols: 101 },
            ExecControl::Stdin(Bytes::from_static(b"end")),
        ] {
            assert_eq!(within("input", played.control.recv()).await, Some(expected));
        }
        played.play([ExecEvent::Stdout(Bytes::from(every.clone()))]).await;
        assert_eq!(peer.message().await, Some(Message::binary(every)));
    }
}

#[tokio::test]
async fn the_end_is_the_last_frame_in_its_spelling() {
    let mut rig = Rig::start().await;
    for (path, exit) in [("/exec/pty", json!({"type": "exit", "code": 7, "exit": 7})), ("/ssh", json!({"exit": 7}))] {
        let mut peer = rig.open(path).await;
        rig.next_played().await.play([out(b"bye\r\n"), ExecEvent::Exit { code: 7 }]).await;
        assert_eq!(peer.message().await, Some(Message::binary(b"bye\r\n".to_vec())));
        assert_eq!(peer.frame().await, exit);
        assert_eq!(u16::from(peer.closed().await.unwrap().code), 1000);
        for (end, text) in [
            (None, "the connection to the sandbox was lost while the command ran"),
            (
                Some(ExecEvent::Failed(Fault::new(FaultKind::Unavailable, "guest.lost", "the machine ended"))),
                "the machine ended",
            ),
        ] {
            let mut peer = rig.open(path).await;
            rig.next_played().await.play(end).await;
            assert_eq!(peer.frame().await, json!({"error": text}));
            assert_eq!(u16::from(peer.closed().await.unwrap().code), 1000);
        }
    }
}

#[tokio::test]
async fn nonsense_ends_a_terminal_with_a_word() {
    let mut rig = Rig::start().await;
    for (message, text, code) in [
        (Message::text("ls\n"), "bad json: ", 1002),
        (Message::text("{"), "bad json: ", 1002),
        (Message::binary(vec![0; SOCKET_MESSAGE_BYTES_MAX + 1]), "bad frame: ", 1009),
    ] {
        let mut peer = rig.open("/exec/pty").await;
        let played = rig.next_played().await;
        let _ = tokio::time::timeout(PATIENCE, futures_util::SinkExt::send(&mut peer.socket, message)).await;
        assert!(peer.frame().await["error"].as_str().unwrap().starts_with(text));
        assert_eq!(u16::from(peer.closed().await.unwrap().code), code);
        within("the end of the process", played.events.closed()).await;
    }
}

#[tokio::test]
async fn typing_while_output_flows_never_deadlocks() {
    const ROUNDS: usize = 200;
    let mut rig = Rig::start().await;
    let peer = rig.open("/ssh").await;
    let mut played = rig.next_played().await;
    // An echo that answers each piece with a larger one before it takes the next.
    let echo = async {
        let mut heard = 0;
        while heard < ROUNDS * 1000 {
            let Some(ExecControl::Stdin(piece)) = within("input", played.control.recv()).await else {
                panic!("no input")
            };
            heard += piece.len();
            for _ in 0..4 {
                within("room", played.events.send(ExecEvent::Stdout(Bytes::from_static(&[b'x'; 32 * 1024]))))
                    .await
                    .unwrap();
            }
        }
        played.play([ExecEvent::Exit { code: 0 }]).await;
    };
    let typist = async {
        let (mut sink, mut stream) = futures_util::StreamExt::split(peer.socket);
        let typing = async {
            for _ in 0..ROUNDS {
                within("room to type", futures_util::SinkExt::send(&mut sink, Message::binary(vec![b'k'; 1000])))
                    .await
                    .unwrap();
            }
        };
        let reading = async {
            loop {
                let message = within("output", futures_util::StreamExt::next(&mut stream)).await.unwrap().unwrap();
                if let Message::Text(text) = message {
                    return text.to_string();
                }
            }
        };
        tokio::join!(typing, reading).1
    };
    let ((), end) = tokio::join!(echo, typist);
    assert_eq!(end, r#"{"exit":0}"#);
}

#[tokio::test]
async fn a_client_that_neither_reads_nor_is_read_is_let_go() {
    let mut rig = Rig::start().await;
    let mut peer = rig.open("/ssh").await;
    let played = rig.next_played().await;
    // Sends input that the program never reads, until the client is blocked.
    while tokio::time::timeout(
        Duration::from_millis(500),
        futures_util::SinkExt::send(&mut peer.socket, Message::binary(vec![0; 512 * 1024])),
    )
    .await
    .is_ok()
    {}
    let left = rig.scope.close(PATIENCE).await;
    assert_eq!(left, 0, "a stuck terminal held the server up");
    within("the end of the process", played.events.closed()).await;
}
