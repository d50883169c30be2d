//! Slow readers, broken sockets and blocked input, and their effect on the processes.

use std::time::Duration;

use bytes::Bytes;
use pandastack_wire_fleet::{ExecControl, ExecEvent, stub::PlayedCommand};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_tungstenite::tungstenite::Message;

use super::out;
use crate::rig::{Rig, within};

const PIECE: usize = 64 * 1024;

/// Writes until no more output is accepted, and returns the number of accepted bytes.
async fn fill(played: &PlayedCommand) -> usize {
    let piece = Bytes::from(vec![b'x'; PIECE]);
    let mut taken = 0;
    while tokio::time::timeout(Duration::from_millis(500), played.events.send(ExecEvent::Stdout(piece.clone())))
        .await
        .is_ok()
    {
        taken += PIECE;
        // Kernel socket buffers hold a few MiB. Without back-pressure this loop would not end.
        assert!(taken < 64 << 20, "nothing holds the process back");
    }
    taken
}

#[tokio::test]
async fn a_slow_reader_stops_the_processes_and_nothing_grows() {
    let mut rig = Rig::start().await;
    let mut peer = rig.open("/exec/ws").await;
    peer.say(json!({"id": "a", "cmd": "yes"})).await;
    let chatty = rig.next_played().await;
    let taken = fill(&chatty).await;
    // A second command is blocked as well. A cancel still reaches it at once.
    peer.say(json!({"id": "b", "cmd": "yes"})).await;
    let other = rig.next_played().await;
    fill(&other).await;
    peer.say(json!({"id": "b", "cancel": true})).await;
    within("the end of the other process", other.events.closed()).await;
    // When the client reads again, no output is missing and the process continues.
    let (mut read, mut cancelled) = (0, false);
    while read < taken || !cancelled {
        let frame = peer.frame().await;
        match frame["id"].as_str() {
            Some("a") => read += frame["data"].as_str().unwrap().len(),
            _ => cancelled |= frame["error"] == "cancelled",
        }
    }
    within("the process goes on", chatty.events.send(out(b"more"))).await.unwrap();
    assert_eq!(peer.frame().await, json!({"id": "a", "stream": "stdout", "data": "more"}));
}

#[tokio::test]
async fn a_chatty_command_lets_the_others_speak() {
    let mut rig = Rig::start().await;
    let mut peer = rig.open("/exec/ws").await;
    peer.say(json!({"id": "a", "cmd": "yes"})).await;
    let chatty = rig.next_played().await;
    peer.say(json!({"id": "b", "cmd": "echo"})).await;
    let quiet = rig.next_played().await;
    let flood = rig.scope.child();
    let token = flood.token();
    flood.start("flood", async move {
        while !token.is_cancelled() {
            let piece = ExecEvent::Stdout(Bytes::from_static(&[b'x'; PIECE]));
            if chatty.events.send(piece).await.is_err() {
                return;
            }
        }
    });
    peer.frame().await;
    quiet.play([out(b"here"), ExecEvent::Exit { code: 0 }]).await;
    let mut of_b = Vec::new();
    while of_b.len() < 2 {
        let frame = peer.frame().await;
        if frame["id"] == "b" {
            of_b.push(frame);
        }
    }
    assert_eq!(of_b, [json!({"id": "b", "stream": "stdout", "data": "here"}), json!({"id": "b", "exit": 0})]);
}

#[tokio::test]
async fn a_socket_that_goes_ends_everything_on_it() {
    let mut rig = Rig::start().await;
    for politely in [true, false] {
        let mut peer = rig.open("/exec/ws").await;
        let mut played = Vec::new();
        for id in ["quiet", "chatty", "listening"] {
            peer.say(json!({"id": id, "cmd": "x", "stdin": true})).await;
            played.push(rig.next_played().await);
        }
        // The socket closes while output is not read and input is not taken.
        fill(&played[1]).await;
        for _ in 0..4 {
            peer.say(json!({"id": "listening", "stdin": "x".repeat(1000)})).await;
        }
        if politely {
            peer.leave().await
        } else {
            peer.cut()
        }
        for played in &played {
            within("the end of a process", played.events.closed()).await;
        }
    }
    let terminal = rig.open("/ssh").await;
    let played = rig.next_played().await;
    fill(&played).await;
    terminal.cut();
    within("the end of the terminal", played.events.closed()).await;
}

#[tokio::test]
async fn a_socket_that_is_cut_while_its_command_starts_leaves_nothing() {
    let mut rig = Rig::start().await;
    // More starts than the stub accepts at once: some are cut before the host has answered.
    let mut peer = rig.open("/exec/ws").await;
    for id in 0..20 {
        peer.say(json!({"id": id.to_string(), "cmd": "x"})).await;
    }
    let first = rig.next_played().await;
    peer.cut();
    within("the end of the first", first.events.closed()).await;
    within("all others to end", async {
        loop {
            match rig.played.try_recv() {
                Ok(played) => played.events.closed().await,
                // Only the server's own task remains.
                Err(_) if rig.scope.tasks() <= rig.lasting => return,
                Err(_) => tokio::task::yield_now().await,
            }
        }
    })
    .await;
}

#[tokio::test]
async fn input_that_is_not_read_ends_its_command_and_no_other() {
    let mut rig = Rig::start().await;
    let mut peer = rig.open("/exec/ws").await;
    peer.say(json!({"id": "deaf", "cmd": "sleep 1000", "stdin": true})).await;
    let deaf = rig.next_played().await;
    peer.say(json!({"id": "other", "cmd": "cat", "stdin": true})).await;
    let mut other = rig.next_played().await;
    for _ in 0..16 {
        peer.say(json!({"id": "deaf", "stdin": "x".repeat(PIECE)})).await;
    }
    peer.say(json!({"id": "other", "stdin": "hello"})).await;
    assert_eq!(peer.frame().await, json!({"id": "deaf", "error": "stdin was not read for 5s"}));
    within("the end of the process", deaf.events.closed()).await;
    assert_eq!(
        within("the other's input", other.control.recv()).await,
        Some(ExecControl::Stdin(Bytes::from_static(b"hello")))
    );
}

#[tokio::test]
async fn bytes_that_are_no_frames_end_the_socket() {
    let mut rig = Rig::start().await;
    for garbage in [&[0xff; 64][..], &[0x81, 0x05, b'h', b'i', 0, 0, 0][..], &[0x81, 0x81, 0, 0, 0, 0, 0xff][..]] {
        let mut peer = rig.open("/exec/ws").await;
        peer.say(json!({"id": "a", "cmd": "sleep 1000"})).await;
        let played = rig.next_played().await;
        peer.socket.get_mut().write_all(garbage).await.unwrap();
        within("the end of the process", played.events.closed()).await;
        let mut rest = Vec::new();
        within("the end of the socket", peer.socket.get_mut().read_to_end(&mut rest)).await.ok();
        let rest = String::from_utf8_lossy(&rest);
        assert!(rest.contains("bad frame: "), "{garbage:?}: {rest:?}");
    }
    // The server still works.
    let mut peer = rig.open("/exec/ws").await;
    peer.send(Message::Ping(Bytes::from_static(b"there?"))).await;
    let pong = within("a pong", futures_util::StreamExt::next(&mut peer.socket)).await.unwrap().unwrap();
    assert_eq!(pong, Message::Pong(Bytes::from_static(b"there?")));
}
