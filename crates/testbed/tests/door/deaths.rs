//! Requests that run when a client or a guest goes away: they end, report it, and leave nothing
//! behind.

#![allow(clippy::async_yields_async, reason = "what is begun is handed over to be awaited while the guest dies")]

use futures_util::{SinkExt, StreamExt};
use pandastack_model::MachineId;
use pandastack_testbed::wait_for;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{Message, client::IntoClientRequest},
};

use crate::{
    SOON,
    raw::{Raw, head},
    rig::{Door, KEY, answer, with_door, within},
};

/// A sandbox and its machine.
async fn sandbox(door: &Door<'_>) -> (String, MachineId) {
    let before = door.bed.driver.live();
    let id = door.sandbox().await;
    let machine = door.bed.driver.live().into_iter().find(|machine| !before.contains(machine)).unwrap();
    (id, machine)
}

async fn socket(door: &Door<'_>, path: &str) -> WebSocketStream<TcpStream> {
    let url = format!("{}{path}", door.url.replace("http://", "ws://"));
    let mut request = url.into_client_request().unwrap();
    request.headers_mut().insert("authorization", format!("Bearer {KEY}").parse().unwrap());
    let stream = TcpStream::connect(door.url.trim_start_matches("http://")).await.unwrap();
    within("a handshake", client_async(request, stream)).await.unwrap().0
}

/// All texts of a socket until it ends.
async fn texts(socket: &mut WebSocketStream<TcpStream>) -> String {
    let mut all = String::new();
    while let Some(Ok(message)) = within("a message", socket.next()).await {
        if let Message::Text(text) = message {
            all.push_str(&text);
        }
    }
    all
}

/// Starts a request over a raw connection, so that it can be cut at any byte.
async fn begun(door: &Door<'_>, path: &str, body: &Value) -> Raw {
    let (mut raw, body) = (door.raw().await, body.to_string());
    raw.say(head("POST", path, &format!("content-length: {}\r\n", body.len()))).await;
    raw.say(body).await;
    raw
}

/// Waits until only the earlier state is left: no task of a request, one link per machine, and no
/// work in a guest.
async fn only_what_was(door: &Door<'_>, before: (usize, usize)) {
    wait_for("what was under way to end", SOON, async || {
        let now = (door.scope.tasks(), door.bed.driver.links());
        (now.0 <= before.0 && now.1 <= before.1 && door.bed.script.under_way() == 0).then_some(())
    })
    .await;
}

/// Waits until guests run so many pieces of work.
async fn reached(door: &Door<'_>, count: usize) {
    wait_for("the guest to have it", SOON, async || (door.bed.script.under_way() >= count).then_some(())).await;
}

async fn has_failed(door: &Door<'_>, id: &str) {
    wait_for("the sandbox to have failed", SOON, async || {
        (door.get(&format!("/v1/sandboxes/{id}")).await.1["status"] == "failed").then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_stream_cut_at_any_byte_ends_its_command() {
    with_door(async |door| {
        let (id, _) = sandbox(door).await;
        let (stream, whole) = (format!("/v1/sandboxes/{id}/exec/stream"), format!("/v1/sandboxes/{id}/exec"));
        let before = (door.scope.tasks(), door.bed.driver.links());
        // Cuts in the head, between the frames, and within a frame.
        for cut in (1..=400).step_by(37) {
            let mut raw = begun(door, &stream, &json!({"cmd": "yes"})).await;
            raw.until(|text| text.len() >= cut).await;
        }
        for path in [&stream, &whole] {
            for cmd in ["yes", "sleep 1000", "cat"] {
                let raw = begun(door, path, &json!({"cmd": cmd, "stdin": ""})).await;
                drop(raw);
            }
        }
        only_what_was(door, before).await;
        door.is_well().await;
    })
    .await;
}

#[tokio::test]
async fn a_socket_cut_in_the_middle_of_a_frame_ends_its_commands() {
    with_door(async |door| {
        let (id, _) = sandbox(door).await;
        let before = (door.scope.tasks(), door.bed.driver.links());
        for path in ["exec/ws", "exec/pty?cmd=yes", "exec/pty?cmd=cat"] {
            // A text frame of 30 bytes with a zero mask, cut at several bytes.
            let frame = [&[0x81, 0x80 | 30, 0, 0, 0, 0][..], br#"{"id":"a","cmd":"sleep 10000"}"#].concat();
            for cut in [0, 1, 2, 5, 6, 20, frame.len()] {
                let mut peer = socket(door, &format!("/v1/sandboxes/{id}/{path}")).await;
                let stream = peer.get_mut();
                tokio::io::AsyncWriteExt::write_all(stream, &frame[..cut]).await.unwrap();
                drop(peer);
            }
        }
        only_what_was(door, before).await;
        door.is_well().await;
    })
    .await;
}

#[tokio::test]
async fn followers_that_hang_up_leave_nothing_and_those_that_stay_hear_the_end() {
    with_door(async |door| {
        let (id, _) = sandbox(door).await;
        let before = (door.scope.tasks(), door.bed.driver.links());
        let paths = ["logs?follow=1", "events?follow=1"].map(|path| format!("/v1/sandboxes/{id}/{path}"));
        for path in &paths {
            for cut in (1..=500).step_by(61) {
                let mut raw = door.raw().await;
                raw.say(head("GET", path, "")).await;
                raw.until(|text| text.len() >= cut).await;
            }
        }
        only_what_was(door, before).await;
        let mut staying = Vec::new();
        for path in &paths {
            let mut raw = door.raw().await;
            raw.say(head("GET", path, "")).await;
            raw.until(|text| text.contains("\r\n\r\n")).await;
            staying.push(raw);
        }
        assert_eq!(answer(door.call(Method::DELETE, &format!("/v1/sandboxes/{id}"))).await.0, 204);
        for mut raw in staying {
            let text = raw.until(|text| text.ends_with("0\r\n\r\n")).await;
            assert!(text.ends_with("0\r\n\r\n"), "a stream goes on after its sandbox: {text}");
        }
    })
    .await;
}

/// Paths of a watch and a reader of a process, each with much and with little output.
async fn guests_streams(door: &Door<'_>, id: &str) -> [String; 4] {
    let mut paths = Vec::new();
    for cmd in ["yes", "sleep 1000"] {
        let process = door.make(&format!("/v1/sandboxes/{id}/processes"), json!({ "cmd": cmd })).await;
        let process = process["id"].as_str().unwrap();
        paths.push(format!("/v1/sandboxes/{id}/processes/{process}/output?follow=1"));
    }
    let watch = |path| format!("/v1/sandboxes/{id}/fs/watch?path={path}");
    [paths.remove(0), paths.remove(0), watch("/busy"), watch("/quiet")]
}

#[tokio::test]
async fn watches_and_readers_of_processes_cut_at_any_byte_are_gone_from_the_guest() {
    with_door(async |door| {
        let (id, _) = sandbox(door).await;
        let paths = guests_streams(door, &id).await;
        let before = (door.scope.tasks(), door.bed.driver.links());
        for path in &paths {
            // Cuts before any data, in the head, between the events and within an event. The quiet
            // ones send little.
            let last = if path.contains("quiet") || *path == paths[1] { 120 } else { 900 };
            for cut in (0..=last).step_by(29) {
                let mut raw = door.raw().await;
                raw.say(head("GET", path, "")).await;
                if cut > 0 {
                    raw.until(|text| text.len() >= cut).await;
                }
            }
            only_what_was(door, before).await;
        }
        // More readers than a guest allows at once have come and gone. A remaining one is still
        // served, and receives the process's end.
        let path = format!("/v1/sandboxes/{id}/processes");
        let ended = door.make(&path, json!({"cmd": "echo last"})).await;
        let mut raw = door.raw().await;
        let path = format!("{path}/{}/output?follow=1", ended["id"].as_str().unwrap());
        raw.say(head("GET", &path, "")).await;
        let text = raw.until(|text| text.ends_with("0\r\n\r\n")).await;
        assert!(text.contains("last") && text.contains("event: exit"), "{text}");
        drop(raw);
        only_what_was(door, before).await;
        door.is_well().await;
    })
    .await;
}

/// Starts a request on a sandbox, waits until the guest has it, and kills the machine. Returns the
/// end that the caller saw.
async fn killed_under<T, W: Future<Output = T>>(door: &Door<'_>, start: impl AsyncFnOnce(String) -> W) -> T {
    let (id, machine) = sandbox(door).await;
    let (other, _) = sandbox(door).await;
    let under_way = start(id.clone()).await;
    let kill = async {
        reached(door, 1).await;
        door.bed.driver.kill(machine);
    };
    let (ended, ()) = tokio::join!(within("the end of what was under way", under_way), kill);
    has_failed(door, &id).await;
    let after =
        answer(door.call(Method::POST, &format!("/v1/sandboxes/{id}/exec")).json(&json!({"cmd": "true"}))).await;
    assert_eq!(after.0, 409, "{}", after.1);
    let alive = door.make(&format!("/v1/sandboxes/{other}/exec"), json!({"cmd": "echo alive"})).await;
    assert_eq!(alive["stdout"], "alive\n");
    for id in [id, other] {
        assert_eq!(answer(door.call(Method::DELETE, &format!("/v1/sandboxes/{id}"))).await.0, 204);
    }
    ended
}

#[tokio::test]
async fn a_guest_killed_under_a_question_is_an_answer_with_a_code() {
    with_door(async |door| {
        for cmd in ["sleep 1000", "yes"] {
            let (status, said) = killed_under(door, async |id| {
                answer(door.call(Method::POST, &format!("/v1/sandboxes/{id}/exec")).json(&json!({ "cmd": cmd })))
            })
            .await;
            assert_eq!((status, said["code"].as_str()), (502, Some("guest.lost")), "{cmd}: {said}");
        }
        let (status, said) = killed_under(door, async |id| {
            let session = door.make(&format!("/v1/sandboxes/{id}/repl/sessions"), json!({})).await;
            let path = format!("/v1/sandboxes/{id}/repl/sessions/{}/run", session["id"].as_str().unwrap());
            answer(door.call(Method::POST, &path).json(&json!({"code": "forever"})))
        })
        .await;
        assert!(status == 502 && !said["code"].as_str().unwrap().is_empty(), "{status} {said}");
        let (status, said) = killed_under(door, async |id| {
            let call = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call",
                "params": {"name": "shell", "arguments": {"command": "sleep 1000"}}});
            answer(door.call(Method::POST, &format!("/v1/sandboxes/{id}/mcp")).json(&call))
        })
        .await;
        assert_eq!((status, &said["id"], &said["result"]["isError"]), (200, &json!(7), &json!(true)), "{said}");
        door.is_well().await;
    })
    .await;
}

#[tokio::test]
async fn a_guest_killed_under_a_stream_ends_it_with_an_error() {
    with_door(async |door| {
        for cmd in ["sleep 1000", "yes", "cat"] {
            let text = killed_under(door, async |id| {
                let mut raw = begun(door, &format!("/v1/sandboxes/{id}/exec/stream"), &json!({"cmd": cmd})).await;
                async move { raw.until(|text| text.contains("event: exit") || text.contains("event: error")).await }
            })
            .await;
            assert!(text.contains("event: error") && !text.contains("event: exit"), "{cmd}: {text}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_guest_killed_under_a_watch_or_a_reader_of_a_process_ends_it_with_an_error() {
    with_door(async |door| {
        for number in 0..4 {
            let text = killed_under(door, async |id| {
                let path = guests_streams(door, &id).await[number].clone();
                let mut raw = door.raw().await;
                raw.say(head("GET", &path, "")).await;
                async move { raw.until(|text| text.ends_with("0\r\n\r\n")).await }
            })
            .await;
            let ends = text.matches("event: error").count();
            assert!(ends == 1 && !text.contains("event: exit") && text.ends_with("0\r\n\r\n"), "{number}: {text}");
        }
        door.is_well().await;
    })
    .await;
}

#[tokio::test]
async fn a_sandbox_deleted_under_a_watch_or_a_reader_of_a_process_ends_it_with_an_error() {
    with_door(async |door| {
        let (id, _) = sandbox(door).await;
        let mut staying = Vec::new();
        for path in guests_streams(door, &id).await {
            let mut raw = door.raw().await;
            raw.say(head("GET", &path, "")).await;
            raw.until(|text| text.contains("\r\n\r\n")).await;
            staying.push((path, raw));
        }
        reached(door, staying.len()).await;
        let removed = async { answer(door.call(Method::DELETE, &format!("/v1/sandboxes/{id}"))).await.0 };
        let ends = futures_util::future::join_all(staying.into_iter().map(async |(path, mut raw)| {
            let text = raw.until(|text| text.ends_with("0\r\n\r\n")).await;
            (path, text)
        }));
        let (ends, status) = tokio::join!(ends, removed);
        assert_eq!(status, 204);
        for (path, text) in ends {
            assert!(text.contains("event: error") && text.ends_with("0\r\n\r\n"), "{path}: {text}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_guest_killed_under_a_socket_ends_every_command_with_an_error() {
    with_door(async |door| {
        let text = killed_under(door, async |id| {
            let mut peer = socket(door, &format!("/v1/sandboxes/{id}/exec/ws")).await;
            for name in ["a", "b"] {
                let frame = json!({"id": name, "cmd": "sleep 1000"}).to_string();
                peer.send(Message::text(frame)).await.unwrap();
            }
            reached(door, 2).await;
            async move {
                let mut ends = String::new();
                while ends.matches("error").count() < 2 {
                    match within("an end", peer.next()).await {
                        Some(Ok(Message::Text(text))) => ends.push_str(&text),
                        Some(Ok(_)) => {}
                        Some(Err(_)) | None => break,
                    }
                }
                ends
            }
        })
        .await;
        assert!(text.contains("\"a\"") && text.contains("\"b\"") && text.matches("error").count() >= 2, "{text}");
        for cmd in ["sleep+1000", "yes"] {
            let text = killed_under(door, async |id| {
                let mut peer = socket(door, &format!("/v1/sandboxes/{id}/exec/pty?cmd={cmd}")).await;
                async move { texts(&mut peer).await }
            })
            .await;
            assert!(text.contains("error"), "{cmd}: {text}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_guest_killed_under_a_file_breaks_it_off_visibly() {
    with_door(async |door| {
        let said = killed_under(door, async |id| {
            let mut raw = door.raw().await;
            let path = format!("/v1/sandboxes/{id}/fs?path=/up");
            raw.say(head("PUT", &path, "content-length: 1000000\r\n")).await;
            raw.say("x".repeat(1000)).await;
            async move { raw.until(|text| text.contains("request_id")).await }
        })
        .await;
        assert!(said.starts_with("HTTP/1.1 5") && said.contains("\"code\""), "{said}");
        let whole = killed_under(door, async |id| {
            let path = format!("/v1/sandboxes/{id}/fs?path=/down");
            let written = answer(door.call(Method::PUT, &path).body(vec![b'x'; 32 << 20])).await;
            assert_eq!(written.0, 200, "{}", written.1);
            let response = door.call(Method::GET, &path).send().await.unwrap();
            async move {
                // Read only after the death: the rest is still in the guest then.
                has_failed(door, &id).await;
                response.bytes().await.map(|bytes| bytes.len())
            }
        })
        .await;
        assert!(whole.is_err(), "half a file was taken for a whole one: {whole:?}");
    })
    .await;
}
