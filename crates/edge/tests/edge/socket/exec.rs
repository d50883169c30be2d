//! Many commands on one socket: all frames and all error texts.

use std::{collections::BTreeSet, time::Duration};

use bytes::Bytes;
use pandastack_edge::limits::{SOCKET_COMMANDS_MAX, SOCKET_MESSAGE_BYTES_MAX, STDIN_PIECE_BYTES};
use pandastack_model::{Fault, FaultKind};
use pandastack_wire_fleet::{ExecControl, ExecEvent, Program};
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use super::{err, out};
use crate::rig::{PATIENCE, Rig, within};

#[tokio::test]
async fn a_command_says_all_it_has_to_and_then_its_end() {
    let mut rig = Rig::start().await;
    let mut peer = rig.open("/exec/ws").await;
    peer.say(json!({"id": "a", "cmd": "echo hi", "timeout_seconds": 7, "from": "the future"})).await;
    let played = rig.next_played().await;
    assert_eq!(played.ask.program, Program::Shell("echo hi".into()));
    assert_eq!((played.ask.deadline, played.ask.stdin), (Some(Duration::from_secs(7)), false));
    played.play([out(b"hi\n"), err(b"oh \xff"), out(b"\xf0\x9f"), out(b"\x98\x80"), out(b"\xc3")]).await;
    played.play([ExecEvent::Exit { code: 0 }]).await;
    for frame in [
        json!({"id": "a", "stream": "stdout", "data": "hi\n"}),
        json!({"id": "a", "stream": "stderr", "data": "oh \u{fffd}"}),
        json!({"id": "a", "stream": "stdout", "data": "😀"}),
        json!({"id": "a", "stream": "stdout", "data": "\u{fffd}"}),
        json!({"id": "a", "exit": 0}),
    ] {
        assert_eq!(peer.frame().await, frame);
    }
    // An id may be used again after its last frame.
    peer.say(json!({"id": "a", "cmd": "exit 3"})).await;
    rig.next_played().await.play([ExecEvent::Exit { code: 3 }]).await;
    assert_eq!(peer.frame().await, json!({"id": "a", "exit": 3}));
}

#[tokio::test]
async fn our_own_fields_reach_the_host() {
    let mut rig = Rig::start().await;
    let mut peer = rig.open("/exec/ws").await;
    let env = json!({"A": "1"});
    peer.say(json!({"id": "a", "argv": ["printf", "a b"], "cwd": "/tmp", "env": env, "user": "nobody", "stdin": "in"}))
        .await;
    let mut played = rig.next_played().await;
    assert_eq!(played.ask.program, Program::Argv(vec!["printf".into(), "a b".into()]));
    assert_eq!(
        (played.ask.cwd.as_deref(), played.ask.user.as_deref(), played.ask.stdin),
        (Some("/tmp"), Some("nobody"), true)
    );
    assert_eq!(played.ask.env["A"], "1");
    assert_eq!(played.control.recv().await, Some(ExecControl::Stdin(Bytes::from_static(b"in"))));
    assert_eq!(played.control.recv().await, Some(ExecControl::CloseStdin));
}

#[tokio::test]
async fn input_and_signals_follow_in_their_order() {
    let mut rig = Rig::start().await;
    let mut peer = rig.open("/exec/ws").await;
    let long = "é".repeat(STDIN_PIECE_BYTES / 2) + "z";
    // Sent at once: input that arrives before the process runs is queued.
    peer.say(json!({"id": "a", "cmd": "cat", "stdin": true})).await;
    peer.say(json!({"id": "a", "stdin": long})).await;
    peer.say(json!({"id": "a", "signal": "USR1"})).await;
    peer.say(json!({"id": "a", "stdin": "last", "stdin_close": true})).await;
    peer.say(json!({"id": "b", "cmd": "x"})).await;
    let mut played = rig.next_played().await;
    assert!(played.ask.stdin);
    let mut text = Vec::new();
    while let Some(ExecControl::Stdin(piece)) = within("input", played.control.recv()).await {
        assert!(piece.len() <= STDIN_PIECE_BYTES);
        text.extend_from_slice(&piece);
        if text.len() == long.len() {
            break;
        }
    }
    assert_eq!(text, long.as_bytes());
    for expected in [ExecControl::Signal(10), ExecControl::Stdin(Bytes::from_static(b"last")), ExecControl::CloseStdin]
    {
        assert_eq!(within("more", played.control.recv()).await, Some(expected));
    }
    // An invalid frame is answered without an id, so that it does not look like a command's end.
    let _b = rig.next_played().await;
    for (frame, text) in [
        (json!({"id": "b", "stdin": "x"}), "\"b\" does not accept stdin; start it with \"stdin\": true"),
        (json!({"id": "a", "signal": "NONE"}), "unknown signal \"NONE\""),
    ] {
        peer.say(frame).await;
        assert_eq!(peer.frame().await, json!({"id": "", "error": text}));
    }
    // Frames for unknown commands are ignored.
    for frame in
        [json!({"stdin": "x"}), json!({"stdin_close": true}), json!({"signal": "TERM"}), json!({"cancel": true})]
    {
        let mut frame = frame;
        frame["id"] = json!("nobody");
        peer.say(frame).await;
    }
    played.play([ExecEvent::Exit { code: 0 }]).await;
    assert_eq!(peer.frame().await, json!({"id": "a", "exit": 0}));
}

#[tokio::test]
async fn every_mistake_has_its_text_and_the_socket_goes_on() {
    let mut rig = Rig::start().await;
    let mut peer = rig.open("/exec/ws").await;
    for (frame, id, text) in [
        ("", "", "bad json: "),
        ("{", "", "bad json: "),
        ("nonsense", "", "bad json: "),
        (r#"["a","true"]"#, "", "bad json: "),
        (r#"{"id":1,"cmd":"x"}"#, "", "bad json: "),
        (r#"{"id":"a","cmd":1}"#, "", "bad json: "),
        ("{}", "", "id required"),
        (r#"{"cmd":"x"}"#, "", "id required"),
        (r#"{"id":"","cmd":"x"}"#, "", "id required"),
        (r#"{"id":"a"}"#, "a", "cmd required"),
        (r#"{"id":"a","cmd":""}"#, "a", "cmd required"),
        (r#"{"id":"a","stdin":true}"#, "a", "cmd required"),
        (r#"{"id":"a","cmd":"x","timeout_seconds":-1}"#, "a", "timeout_seconds must be 0 or more"),
        (r#"{"id":"a","cmd":"x","cwd":"tmp"}"#, "a", "cwd must be an absolute path"),
        (r#"{"id":"a","cmd":"x","user":"a b"}"#, "a", "user must consist of letters, digits, '_', '-' and '.'"),
    ] {
        peer.send(Message::text(frame)).await;
        let said = peer.frame().await;
        assert_eq!(said["id"], id, "{frame}");
        assert!(said["error"].as_str().unwrap().starts_with(text), "{frame}: {said}");
    }
    peer.send(Message::text("[".repeat(100_000))).await;
    assert!(peer.frame().await["error"].as_str().unwrap().starts_with("bad json: "));
    peer.send(Message::binary(br#"{"id":"a","cmd":"x"}"#.to_vec())).await;
    assert_eq!(peer.frame().await, json!({"id": "", "error": "bad json: send text frames, not binary ones"}));
    assert!(rig.played.try_recv().is_err(), "nothing ran");
    peer.say(json!({"id": "a", "cmd": "true"})).await;
    rig.next_played().await.play([ExecEvent::Exit { code: 0 }]).await;
    assert_eq!(peer.frame().await, json!({"id": "a", "exit": 0}));
}

#[tokio::test]
async fn every_end_is_said_exactly_once() {
    let mut rig = Rig::start().await;
    let mut peer = rig.open("/exec/ws").await;
    let dead = Fault::new(FaultKind::Conflict, "sandbox.failed", "the sandbox's machine ended");
    for (end, text) in [
        (Some(ExecEvent::TimedOut { after: Duration::from_secs(60) }), "exec timeout after 60s"),
        (None, "the connection to the sandbox was lost while the command ran"),
        (Some(ExecEvent::Failed(dead.clone())), "the sandbox's machine ended"),
        (Some(ExecEvent::Failed(Fault::bug("private"))), "internal error"),
    ] {
        peer.say(json!({"id": "a", "cmd": "x"})).await;
        let played = rig.next_played().await;
        played.play([out(b"part\xc3")]).await;
        played.play(end).await;
        drop(played);
        assert_eq!(peer.frame().await, json!({"id": "a", "stream": "stdout", "data": "part"}));
        assert_eq!(peer.frame().await, json!({"id": "a", "stream": "stdout", "data": "\u{fffd}"}));
        assert_eq!(peer.frame().await, json!({"id": "a", "error": text}));
    }
    // A command that cannot start also gets exactly one terminal frame.
    rig.refuse_to_run(&dead);
    peer.say(json!({"id": "a", "cmd": "x"})).await;
    assert_eq!(peer.frame().await, json!({"id": "a", "error": "the sandbox's machine ended"}));
}

#[tokio::test]
async fn commands_interleave_and_each_keeps_its_order() {
    let mut rig = Rig::start().await;
    let mut peer = rig.open("/exec/ws").await;
    let mut played = Vec::new();
    for id in ["a", "b"] {
        peer.say(json!({"id": id, "cmd": id})).await;
        played.push(rig.next_played().await);
    }
    // Sent one after the other, so that the order is known.
    for (which, piece) in [(0, b"1"), (1, b"2"), (0, b"3"), (1, b"4")] {
        played[which].play([out(piece)]).await;
        let data = std::str::from_utf8(piece).unwrap();
        let id = ["a", "b"][which];
        assert_eq!(peer.frame().await, json!({"id": id, "stream": "stdout", "data": data}));
    }
    played[1].play([ExecEvent::Exit { code: 1 }]).await;
    assert_eq!(peer.frame().await, json!({"id": "b", "exit": 1}));
    played[0].play([out(b"5"), ExecEvent::Exit { code: 0 }]).await;
    assert_eq!(peer.frame().await, json!({"id": "a", "stream": "stdout", "data": "5"}));
    assert_eq!(peer.frame().await, json!({"id": "a", "exit": 0}));
}

#[tokio::test]
async fn a_cancel_ends_the_process_and_is_said() {
    let mut rig = Rig::start().await;
    let mut peer = rig.open("/exec/ws").await;
    peer.say(json!({"id": "a", "cmd": "sleep 1000"})).await;
    let a = rig.next_played().await;
    peer.say(json!({"id": "b", "cmd": "sleep 1000"})).await;
    let b = rig.next_played().await;
    a.play([out(b"a")]).await;
    peer.frame().await;
    for id in ["nobody", "a", "a"] {
        peer.say(json!({"id": id, "cancel": true})).await;
    }
    assert_eq!(peer.frame().await, json!({"id": "a", "error": "cancelled"}));
    within("the end of the process", a.events.closed()).await;
    // Its id is free at once, and the other command is not affected.
    peer.say(json!({"id": "a", "cmd": "true"})).await;
    rig.next_played().await.play([ExecEvent::Exit { code: 0 }]).await;
    assert_eq!(peer.frame().await, json!({"id": "a", "exit": 0}));
    assert!(!b.events.is_closed());
}

#[tokio::test]
async fn a_live_id_is_not_taken_twice() {
    let mut rig = Rig::start().await;
    let mut peer = rig.open("/exec/ws").await;
    peer.say(json!({"id": "a", "cmd": "first"})).await;
    let first = rig.next_played().await;
    for second in [json!({"id": "a", "cmd": "second"}), json!({"id": "a"})] {
        peer.say(second).await;
        assert_eq!(peer.frame().await, json!({"id": "a", "error": "id in use"}));
    }
    assert!(rig.played.try_recv().is_err(), "the second ran");
    first.play([out(b"still here"), ExecEvent::Exit { code: 0 }]).await;
    assert_eq!(peer.frame().await, json!({"id": "a", "stream": "stdout", "data": "still here"}));
    assert_eq!(peer.frame().await, json!({"id": "a", "exit": 0}));
}

#[tokio::test]
async fn commands_past_the_limit_are_refused_one_by_one() {
    let mut rig = Rig::start().await;
    let mut peer = rig.open("/exec/ws").await;
    let mut played = Vec::new();
    for id in 0..SOCKET_COMMANDS_MAX {
        peer.say(json!({"id": id.to_string(), "cmd": "x"})).await;
        played.push(rig.next_played().await);
    }
    peer.say(json!({"id": "more", "cmd": "x"})).await;
    let text = "64 commands are already running on this socket; wait until one ends";
    assert_eq!(peer.frame().await, json!({"id": "more", "error": text}));
    let ended = played.pop().unwrap();
    ended.play([ExecEvent::Exit { code: 0 }]).await;
    assert_eq!(peer.frame().await["exit"], 0);
    peer.say(json!({"id": "more", "cmd": "x"})).await;
    played.push(rig.next_played().await);
    let mut ids = BTreeSet::new();
    for played in played {
        played.play([ExecEvent::Exit { code: 0 }]).await;
        ids.insert(peer.frame().await["id"].as_str().unwrap().to_owned());
    }
    assert_eq!(ids.len(), SOCKET_COMMANDS_MAX, "each said its end once");
}

#[tokio::test]
async fn a_message_that_is_too_large_is_the_end_of_the_socket_only() {
    let mut rig = Rig::start().await;
    let mut peer = rig.open("/exec/ws").await;
    peer.say(json!({"id": "a", "cmd": "sleep 1000"})).await;
    let played = rig.next_played().await;
    // The server may close the connection before it has read the whole message.
    let huge = Message::text("x".repeat(SOCKET_MESSAGE_BYTES_MAX + 1));
    let _ = tokio::time::timeout(PATIENCE, futures_util::SinkExt::send(&mut peer.socket, huge)).await;
    let (mut said, mut code) = (Vec::new(), None);
    loop {
        match peer.message().await {
            Some(Message::Text(text)) => said.push(text.to_string()),
            Some(Message::Close(frame)) => code = frame.map(|frame| u16::from(frame.code)),
            _ => break,
        }
    }
    assert_eq!(code, Some(1009), "{said:?}");
    assert!(said.iter().any(|frame| frame.contains(r#""id":"a","error":"bad frame: "#)), "{said:?}");
    within("the end of the process", played.events.closed()).await;
    rig.open("/exec/ws").await.leave().await;
}
