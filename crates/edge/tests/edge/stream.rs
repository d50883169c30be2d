//! Commands as event streams, checked byte by byte.

use std::time::Duration;

use bytes::Bytes;
use pandastack_model::Fault;
use pandastack_wire_fleet::{ExecEvent, stub::PlayedCommand};
use reqwest::Response;
use serde_json::json;

use crate::rig::{PATIENCE, Rig, within};

async fn open(rig: &mut Rig) -> (Response, PlayedCommand) {
    let request = rig.post("/exec/stream", &json!({"cmd": "x"})).send();
    let (response, played) = tokio::join!(request, async { rig.played.recv().await.unwrap() });
    (response.unwrap(), played)
}

fn out(bytes: &'static [u8]) -> ExecEvent {
    ExecEvent::Stdout(Bytes::from_static(bytes))
}

async fn check(events: impl IntoIterator<Item = ExecEvent>, expected: &str) {
    let mut rig = Rig::start().await;
    let (response, played) = open(&mut rig).await;
    played.play(events).await;
    drop(played);
    assert_eq!(within("the end", response.text()).await.unwrap(), expected);
}

#[tokio::test]
async fn the_stream_is_exactly_what_published_clients_parse() {
    let mut rig = Rig::start().await;
    let (response, played) = open(&mut rig).await;
    assert_eq!(response.status(), 200);
    for (name, value) in [
        ("content-type", "text/event-stream; charset=utf-8"),
        ("cache-control", "no-cache"),
        ("x-accel-buffering", "no"),
        ("transfer-encoding", "chunked"),
    ] {
        assert_eq!(response.headers()[name], value);
    }
    let events = [
        out("é Å\n".as_bytes()),
        out(b"\xf0\x9f"),
        ExecEvent::Stderr(Bytes::from_static(b"e\r\n")),
        out(b"\x98\x80"),
        out("\u{2028}".as_bytes()),
        out(b"\xff"),
        ExecEvent::Exit { code: 3 },
    ];
    let (text, ()) = tokio::join!(response.text(), played.play(events));
    assert_eq!(
        text.unwrap(),
        "event: stdout\ndata: {\"chunk\":\"\\u00e9 \\u00c5\\n\"}\n\n\
         event: stderr\ndata: {\"chunk\":\"e\\r\\n\"}\n\n\
         event: stdout\ndata: {\"chunk\":\"\\ud83d\\ude00\"}\n\n\
         event: stdout\ndata: {\"chunk\":\"\\u2028\"}\n\n\
         event: stdout\ndata: {\"chunk\":\"\\ufffd\"}\n\n\
         event: exit\ndata: {\"exit_code\":3}\n\n"
    );
}

#[tokio::test]
async fn every_end_is_said_exactly_once() {
    check([ExecEvent::Exit { code: 0 }], "event: exit\ndata: {\"exit_code\":0}\n\n").await;
    check(
        [out(b"a\xc3"), ExecEvent::TimedOut { after: Duration::from_secs(60) }],
        "event: stdout\ndata: {\"chunk\":\"a\"}\n\nevent: stdout\ndata: {\"chunk\":\"\\ufffd\"}\n\n\
         event: error\ndata: {\"error\":\"exec timeout after 60s\"}\n\n",
    )
    .await;
    check([], "event: error\ndata: {\"error\":\"the connection to the sandbox was lost while the command ran\"}\n\n")
        .await;
    check([ExecEvent::Failed(Fault::bug("private"))], "event: error\ndata: {\"error\":\"internal error\"}\n\n").await;
}

#[tokio::test]
async fn output_arrives_while_the_command_runs() {
    let mut rig = Rig::start().await;
    let (mut response, played) = open(&mut rig).await;
    for piece in [b"one".as_slice(), b"two"] {
        played.play([ExecEvent::Stdout(Bytes::copy_from_slice(piece))]).await;
        let chunk = within("a chunk", response.chunk()).await.unwrap().unwrap();
        assert!(String::from_utf8_lossy(&chunk).contains(std::str::from_utf8(piece).unwrap()));
    }
}

#[tokio::test]
async fn a_slow_reader_stops_the_command_and_nothing_grows() {
    const PIECE: usize = 64 * 1024;
    let mut rig = Rig::start().await;
    let (mut response, played) = open(&mut rig).await;
    let piece = Bytes::from(vec![b'x'; PIECE]);
    let mut accepted = 0;
    while tokio::time::timeout(Duration::from_millis(500), played.events.send(ExecEvent::Stdout(piece.clone())))
        .await
        .is_ok()
    {
        accepted += 1;
        // Kernel socket buffers hold a few MiB. Without back-pressure this loop would not end.
        assert!(accepted * PIECE < 64 << 20, "nothing holds the command back");
    }
    let mut read = 0;
    while read < accepted * PIECE {
        read += within("more", response.chunk()).await.unwrap().unwrap().len();
    }
    let send = played.events.send(ExecEvent::Stdout(piece));
    within("the command goes on", send).await.unwrap();
}

#[tokio::test]
async fn shutdown_cuts_streams_and_leaves_no_task() {
    let mut rig = Rig::start().await;
    let (response, played) = open(&mut rig).await;
    assert_eq!(rig.scope.close(PATIENCE).await, 0);
    within("the end of the command", played.events.closed()).await;
    assert!(response.text().await.is_err(), "a cut stream is not taken for a whole one");
}
