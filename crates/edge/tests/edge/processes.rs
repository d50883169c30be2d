//! Processes that outlive their requests, through the edge.

use std::time::Duration;

use bytes::Bytes;
use pandastack_model::{Fault, FaultKind};
use pandastack_wire_fleet::{OutputEvent, ProcessEnd, ProcessView, Program, stub::process_view};
use reqwest::Method;
use serde_json::json;

use crate::rig::{Rig, answer, within};

fn out(bytes: &'static [u8]) -> Result<OutputEvent, Fault> {
    Ok(OutputEvent::Stdout(Bytes::from_static(bytes)))
}

fn err(bytes: &'static [u8]) -> Result<OutputEvent, Fault> {
    Ok(OutputEvent::Stderr(Bytes::from_static(bytes)))
}

fn end(ended: Option<ProcessEnd>) -> Result<OutputEvent, Fault> {
    Ok(OutputEvent::End(ProcessView { ended, ..process_view(1, "sleep 1") }))
}

fn ended(code: i32) -> Result<OutputEvent, Fault> {
    end(Some(ProcessEnd { code, signal: None, timed_out: false, at_ms: 0 }))
}

fn lay_out(rig: &Rig, steps: impl IntoIterator<Item = Result<OutputEvent, Fault>>) {
    rig.host.output.lock().unwrap().push_back(steps.into_iter().collect());
}

#[tokio::test]
async fn a_process_is_started_shown_fed_signalled_and_forgotten() {
    let rig = Rig::start().await;
    let ask = json!({"cmd": "serve", "cwd": "/srv", "stdin": true, "timeout_seconds": 5, "tag": "web"});
    let (status, process) = answer(rig.post("/processes", &ask)).await;
    assert_eq!(
        (status, process),
        (
            201,
            json!({"id": "prc_1", "pid": 42, "cmd": "serve", "tag": "web", "status": "running", "stdin": true,
                   "started_at": "2023-11-14T22:13:20.000Z", "stdout_bytes": 5, "stderr_bytes": 6, "kept_from": 0})
        )
    );
    let asked = rig.host.spawned.lock().unwrap()[0].clone();
    assert_eq!((asked.exec.program, asked.tag.as_deref()), (Program::Shell("serve".into()), Some("web")));
    assert_eq!(
        (asked.exec.cwd.as_deref(), asked.exec.stdin, asked.exec.deadline),
        (Some("/srv"), true, Some(Duration::from_secs(5)))
    );
    assert_eq!(answer(rig.post("/processes", &json!({"cmd": "sleep 1"}))).await.1["id"], "prc_2");
    assert_eq!(answer(rig.post("/processes/prc_2/signal", &json!({"signal": 9}))).await.0, 204);
    let (status, all) = answer(rig.call(Method::GET, "/processes")).await;
    assert_eq!(
        (status, &all[0]["status"], &all[1]["status"], &all[1]["signal"]),
        (200, &json!("running"), &json!("killed"), &json!(9))
    );
    rig.host.end_process(rig.id, 1, ProcessEnd { code: 3, signal: None, timed_out: false, at_ms: u64::MAX });
    let (_, one) = answer(rig.call(Method::GET, "/processes/prc_1")).await;
    assert_eq!((&one["status"], &one["exit_code"]), (&json!("exited"), &json!(3)));
    let fed = rig.call(Method::POST, "/processes/prc_1/stdin?end=1").body("input");
    assert_eq!(answer(fed).await, (200, json!({"bytes": 5})));
    assert_eq!(answer(rig.call(Method::POST, "/processes/prc_1/stdin").body("")).await.0, 200);
    assert_eq!(answer(rig.post("/processes/prc_1/signal", &json!({"signal": "INT"}))).await.0, 204);
    assert_eq!(answer(rig.post("/processes/prc_1/signal", &json!({"signal": 9}))).await.0, 204);
    assert_eq!(answer(rig.call(Method::DELETE, "/processes/prc_7")).await.0, 204);
    assert_eq!(
        *rig.host.calls.lock().unwrap(),
        [
            "spawn 1",
            "spawn 2",
            "signal 2 9",
            "feed 1 \"input\" Closes",
            "feed 1 \"\" StaysOpen",
            "signal 1 2",
            "signal 1 9",
            "forget 7",
        ]
    );
}

#[tokio::test]
async fn what_is_wrong_is_said_and_what_is_not_the_callers_is_missing() {
    let rig = Rig::start().await;
    for (body, code) in [
        (json!({}), "exec.bad_request"),
        (json!({"cmd": "x", "tag": "a\u{0}"}), "process.bad_request"),
        (json!({"cmd": "x", "cwd": "relative"}), "exec.bad_request"),
        (json!({"cmd": "x", "stdin": "text"}), "body.bad_json"),
    ] {
        let (status, refusal) = answer(rig.post("/processes", &body)).await;
        assert_eq!((status, &refusal["code"]), (400, &json!(code)), "{body}");
    }
    for body in [json!({}), json!({"signal": "NOPE"}), json!({"signal": 0})] {
        let (status, refusal) = answer(rig.post("/processes/prc_1/signal", &body)).await;
        assert_eq!((status, &refusal["code"]), (400, &json!("process.bad_signal")), "{body}");
    }
    for offset in ["-1", "x", "99999999999999999999999"] {
        let path = format!("/processes/prc_1/output?offset={offset}");
        assert_eq!(answer(rig.call(Method::GET, &path)).await.1["code"], "process.bad_offset");
    }
    for id in ["prc_9", "1", "prc_x", "..%2F..", "prc_1%00"] {
        let (status, refusal) = answer(rig.call(Method::GET, &format!("/processes/{id}"))).await;
        assert_eq!((status, &refusal["code"]), (404, &json!("process.not_found")), "{id}");
    }
    let routes = [(Method::GET, ""), (Method::POST, ""), (Method::GET, "/prc_1"), (Method::DELETE, "/prc_1")];
    let more = [(Method::GET, "/prc_1/output"), (Method::POST, "/prc_1/stdin"), (Method::POST, "/prc_1/signal")];
    for (method, route) in routes.into_iter().chain(more) {
        let url = format!("{}/v1/sandboxes/{}/processes{route}", rig.url, rig.id);
        let ask = || rig.http.request(method.clone(), &url).json(&json!({"cmd": "x", "signal": "TERM"}));
        let (status, refusal) = answer(ask().bearer_auth("theirs")).await;
        assert_eq!((status, &refusal["code"]), (404, &json!("sandbox.not_found")), "{method} {route}");
        assert_eq!(answer(ask()).await.0, 401, "{method} {route}");
    }
    assert!(rig.host.calls.lock().unwrap().is_empty());
}

#[tokio::test]
async fn output_is_given_from_an_offset_on() {
    let rig = Rig::start().await;
    lay_out(&rig, [Ok(OutputEvent::At(7)), out("é\n".as_bytes()), err(b"bad"), out(b"\xff"), end(None)]);
    let (status, output) = answer(rig.call(Method::GET, "/processes/prc_1/output?offset=4")).await;
    let chunk = |stream: &str, text: &str| json!({"stream": stream, "chunk": text});
    let chunks = [chunk("stdout", "é\n"), chunk("stderr", "bad"), chunk("stdout", "\u{fffd}")];
    let expected = json!({"stdout": "é\n\u{fffd}", "stderr": "bad", "next_offset": 14, "truncated": 3,
        "status": "running", "chunks": chunks});
    assert_eq!((status, output), (200, expected));
    lay_out(&rig, [Ok(OutputEvent::At(0)), ended(3)]);
    let (_, output) = answer(rig.call(Method::GET, "/processes/prc_1/output")).await;
    assert_eq!(
        (&output["status"], &output["exit_code"], &output["next_offset"]),
        (&json!("exited"), &json!(3), &json!(0))
    );
    let (status, refusal) = answer(rig.call(Method::GET, "/processes/prc_1/output")).await;
    assert_eq!((status, &refusal["code"]), (404, &json!("process.not_found")));
    assert_eq!(rig.host.calls.lock().unwrap()[..2], ["attach 1 4 Now", "attach 1 0 Now"]);
}

#[tokio::test]
async fn followed_output_tells_the_offset_after_each_piece() {
    let rig = Rig::start().await;
    lay_out(&rig, [Ok(OutputEvent::At(4)), out(b"ab"), Ok(OutputEvent::At(10)), err("é".as_bytes()), ended(0)]);
    let response = rig.call(Method::GET, "/processes/prc_1/output?offset=4&follow=1").send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream; charset=utf-8");
    assert_eq!(
        within("the end", response.text()).await.unwrap(),
        "id: 6\nevent: stdout\ndata: {\"chunk\":\"ab\",\"offset\":6}\n\n\
         id: 10\nevent: lost\ndata: {\"bytes\":4,\"offset\":10}\n\n\
         id: 12\nevent: stderr\ndata: {\"chunk\":\"\\u00e9\",\"offset\":12}\n\n\
         id: 12\nevent: exit\ndata: {\"exit_code\":0,\"status\":\"exited\",\"offset\":12}\n\n"
    );
    // A browser that reconnects gives its last offset.
    lay_out(&rig, [Ok(OutputEvent::At(12)), ended(0)]);
    let again = rig.call(Method::GET, "/processes/prc_1/output?offset=4&follow=1").header("last-event-id", "12");
    within("the end", again.send()).await.unwrap().text().await.unwrap();
    assert_eq!(*rig.host.calls.lock().unwrap(), ["attach 1 4 End", "attach 1 12 End"]);
}

#[tokio::test]
async fn every_end_of_a_followed_process_is_said_once() {
    let rig = Rig::start().await;
    let gone = Fault::new(FaultKind::Unavailable, "guest.lost", "the sandbox's machine ended during the request");
    for (steps, expected) in [
        (
            vec![Ok(OutputEvent::At(0)), Err(gone)],
            "event: error\ndata: {\"error\":\"the sandbox's machine ended during the request\"}\n\n",
        ),
        (
            vec![Ok(OutputEvent::At(0))],
            "event: error\ndata: {\"error\":\"the connection to the sandbox was lost while the command ran\"}\n\n",
        ),
    ] {
        lay_out(&rig, steps);
        let response = rig.call(Method::GET, "/processes/prc_1/output?follow=1").send().await.unwrap();
        assert_eq!(within("the end", response.text()).await.unwrap(), expected);
    }
    let timed_out = ProcessEnd { code: 143, signal: Some(15), timed_out: true, at_ms: 0 };
    lay_out(&rig, [Ok(OutputEvent::At(0)), end(Some(timed_out))]);
    let response = rig.call(Method::GET, "/processes/prc_1/output?follow=true").send().await.unwrap();
    let text = within("the end", response.text()).await.unwrap();
    assert!(text.contains("\"exit_code\":143,\"status\":\"killed\",\"timed_out\":true"), "{text}");
}
