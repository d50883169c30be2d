//! A real machine killed during every kind of request: each caller gets an error, and nothing is
//! left. Also callers that disconnect while their machine keeps running: nothing of theirs stays in
//! it.

use std::time::Duration;

use futures_util::stream;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use pandastack_e2e::{Events, HttpDoor, PATIENCE, answer, with_sandbox};
use pandastack_model::{SandboxId, SandboxState};
use pandastack_testbed::{Bed, wait_for};
use pandastack_wire_fleet::HostPort;
use reqwest::{Body, Method};
use serde_json::{Value, json};

/// Reads a stream to its last event.
async fn last(mut events: Events) -> (String, Value) {
    let mut last = None;
    while let Some(event) = events.next().await {
        last = Some(event);
    }
    last.expect("a stream that says something")
}

#[tokio::test]
async fn whoever_is_served_when_a_machine_is_killed_hears_of_it() {
    with_sandbox(async |bed, id| {
        let door = HttpDoor::open(bed).await;
        let endless = json!({"cmd": "echo up; sleep 600"});
        let mut stream = Events::open(door.call(Method::POST, id, "/exec/stream").json(&endless)).await;
        assert_eq!(stream.next().await.unwrap().1["chunk"], "up\n");
        let process = answer(door.call(Method::POST, id, "/processes").json(&endless)).await.1;
        let path = format!("/processes/{}/output?follow=1", process["id"].as_str().unwrap());
        let mut followed = Events::open(door.call(Method::GET, id, &path)).await;
        assert_eq!(followed.next().await.unwrap().1["chunk"], "up\n");
        let mut watched = Events::open(door.call(Method::GET, id, "/fs/watch?path=/tmp")).await;
        assert_eq!(watched.next().await.unwrap().0, "ready");
        let whole = answer(door.call(Method::POST, id, "/exec").json(&json!({"cmd": "touch /tmp/on; sleep 600"})));
        // Two senders that have sent less than an archive's first header and stall.
        let stalled = || {
            let first = stream::iter([Ok::<_, std::io::Error>("x".repeat(100))]);
            Body::wrap_stream(futures_util::StreamExt::chain(first, stream::pending()))
        };
        let file = answer(door.call(Method::PUT, id, "/fs?path=/tmp/up").body(stalled()));
        let tree = answer(door.call(Method::PUT, id, "/fs/tar?path=/tmp/tree").body(stalled()));
        let killing = async {
            // The command with a single answer has started, so the earlier requests are running.
            while watched.next().await.unwrap().1["path"] != "/tmp/on" {}
            let pid = bed.host.machine_pid(id).await.unwrap();
            kill(Pid::from_raw(pid as i32), Signal::SIGKILL).unwrap();
            [last(stream).await, last(followed).await, last(watched).await]
        };
        let (whole, file, tree, ends) = tokio::join!(whole, file, tree, killing);
        for (name, said) in &ends {
            assert!(name == "error" && !said["error"].as_str().unwrap().is_empty(), "{name} {said}");
        }
        for (what, (status, said)) in [("exec", whole), ("file", file), ("tree", tree)] {
            let code = said["code"].as_str().unwrap_or_default();
            assert!(matches!(status, 502 | 503) && !code.is_empty(), "{what}: {status} {said}");
        }
        let failed = async || matches!(bed.host.observe(id).await?.state, SandboxState::Failed { .. }).then_some(());
        wait_for("the sandbox's failure", PATIENCE, failed).await;
        let (status, said) = answer(door.call(Method::POST, id, "/exec").json(&json!({"cmd": "true"}))).await;
        assert_eq!((status, said["code"].as_str()), (409, Some("sandbox.failed")), "{said}");
        door.close().await;
        bed.host.remove(id).await.unwrap();
    })
    .await;
}

/// Counts the open watches of the guest's agent, which is its first process.
async fn watches(bed: &Bed, id: SandboxId) -> String {
    bed.out(id, "ls -l /proc/1/fd | grep -c inotify || true").await
}

#[tokio::test]
async fn readers_that_hang_up_anywhere_leave_no_watch_in_the_guest() {
    with_sandbox(async |bed, id| {
        let door = HttpDoor::open(bed).await;
        let before = watches(bed, id).await;
        let talk = json!({"cmd": "while :; do echo y; touch /tmp/seen/x; done"});
        bed.out(id, "mkdir -p /tmp/seen").await;
        let process = answer(door.call(Method::POST, id, "/processes").json(&talk)).await.1;
        let process = process["id"].as_str().unwrap();
        let follow = format!("/processes/{process}/output?follow=1");
        // More than the guest allows at once. Some leave before the head, some after it, some after
        // a few events.
        for round in 0..24 {
            for path in [follow.as_str(), "/fs/watch?path=/tmp/seen"] {
                let request = door.call(Method::GET, id, path);
                if round % 4 == 0 {
                    let _ = tokio::time::timeout(Duration::from_millis(round), request.send()).await;
                    continue;
                }
                let mut events = Events::open(request).await;
                for _ in 1..round % 4 {
                    events.next().await.unwrap();
                }
            }
        }
        wait_for("the last watch to go", PATIENCE, async || (watches(bed, id).await == before).then_some(())).await;
        // A remaining reader is still served, and receives the end.
        let mut staying = Events::open(door.call(Method::GET, id, &follow)).await;
        staying.next().await.unwrap();
        let ended = door.call(Method::POST, id, &format!("/processes/{process}/signal"));
        assert_eq!(answer(ended.json(&json!({"signal": "KILL"}))).await.0, 204);
        assert_eq!(last(staying).await.0, "exit");
        door.close().await;
    })
    .await;
}
