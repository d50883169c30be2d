//! Code sessions, cells, and code that runs without a session.

use std::time::Duration;

use bytes::Bytes;
use pandastack_model::{CodeLanguage, Fault, FaultKind, SandboxId};
use pandastack_wire_fleet::{CellEnd, CellEnded, CellEvent, CellParams, ExecEvent, Program, stub::PlayedCell};
use reqwest::Method;
use serde_json::{Value, json};

use crate::rig::{Rig, answer, within};

pub fn ended(how: CellEnd) -> CellEnded {
    let took = Duration::from_millis(1500);
    CellEnded { how, took, anew: false, lost: false, stdout_cut: false, stderr_cut: false }
}

fn piece(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

async fn open(rig: &Rig) -> String {
    let (status, body) = answer(rig.post("/repl/sessions", &json!({"language": "python"}))).await;
    assert_eq!(status, 201, "{body}");
    body["id"].as_str().unwrap().to_owned()
}

/// Runs a cell whose events come from the test.
async fn run(rig: &Rig, session: &str, body: Value, events: Vec<CellEvent>) -> (u16, Value, CellParams) {
    let mut cells = rig.host.play_cells();
    let play = async {
        let PlayedCell { ask, events: played } = cells.recv().await.unwrap();
        for event in events {
            played.send(event).await.unwrap();
        }
        ask
    };
    let asked = answer(rig.post(&format!("/repl/sessions/{session}/run"), &body));
    let ((status, body), ask) = within("a cell", async { tokio::join!(asked, play) }).await;
    (status, body, ask)
}

#[tokio::test]
async fn sessions_are_opened_listed_and_closed() {
    let rig = Rig::start().await;
    let (status, opened) = answer(rig.post("/repl/sessions", &json!({"language": "py"}))).await;
    assert_eq!(
        (status, &opened["language"], &opened["sandbox_id"]),
        (201, &json!("python"), &json!(rig.id.to_string()))
    );
    assert_eq!((&opened["id"], &opened["created_at"]), (&opened["session_id"], &json!("2023-11-14T22:13:20.000Z")));
    assert_eq!(answer(rig.call(Method::POST, "/repl/sessions")).await.0, 201, "a body may be left out");
    let (status, list) = answer(rig.call(Method::GET, "/repl/sessions")).await;
    assert_eq!((status, list.as_array().unwrap().len(), &list[0]["cells"]), (200, 2, &json!(0)));
    let path = format!("/repl/sessions/{}", opened["id"].as_str().unwrap());
    assert_eq!(answer(rig.call(Method::DELETE, &path)).await, (204, Value::Null));
    let (status, body) = answer(rig.call(Method::DELETE, &path)).await;
    assert_eq!((status, &body["error"]), (404, &json!("session not found")));
    let (status, languages) = answer(rig.http.get(format!("{}/repl/languages", rig.url)).bearer_auth("mine")).await;
    assert_eq!((status, &languages[0]), (200, &json!("python")));
    assert_eq!(answer(rig.http.get(format!("{}/v1/repl/languages", rig.url))).await.0, 401);
}

#[tokio::test]
async fn a_cell_gives_output_results_and_exit_code() {
    let rig = Rig::start().await;
    let session = open(&rig).await;
    let body = r#"{"results":[{"text/plain":"42","image/png":"aWNo"},{"type":"x"}]}"#;
    let events = vec![
        CellEvent::Stdout(Bytes::from_static(b"h\xc3")),
        CellEvent::Stdout(Bytes::from_static(b"\xa9\xff")),
        CellEvent::Stderr(piece("warned")),
        CellEvent::Body(piece(&body[..20])),
        CellEvent::Body(piece(&body[20..])),
        CellEvent::Ended(ended(CellEnd::Answered { exit: 0 })),
    ];
    let (status, said, ask) = run(&rig, &session, json!({"code": "x", "timeout_ms": 1500}), events).await;
    assert_eq!((ask.code, ask.limit), (piece("x"), Duration::from_millis(1500)));
    let expected = json!({
        "stdout": "hé\u{fffd}", "stderr": "warned", "exit": 0, "exit_code": 0, "duration_ms": 1500,
        "results": [{"text/plain": "42", "image/png": "aWNo"}],
    });
    assert_eq!((status, said), (200, expected));

    let events = vec![
        CellEvent::Body(piece(r#"{"error":"Traceback"}"#)),
        CellEvent::Ended(CellEnded { anew: true, stdout_cut: true, ..ended(CellEnd::Answered { exit: 1 }) }),
    ];
    let (status, said, ask) = run(&rig, &session, json!({"code": "x"}), events).await;
    assert_eq!((status, &said["error"], &said["exit"]), (200, &json!("Traceback"), &json!(1)));
    assert_eq!((&said["restarted"], &said["truncated"]), (&json!(true), &json!(true)));
    assert!(
        said["stderr"].as_str().unwrap().contains("restarted")
            && said["stdout"].as_str().unwrap().contains("truncated")
    );
    assert!(ask.limit < Duration::from_secs(30), "published clients give up after 30 s");
}

#[tokio::test]
async fn each_bad_end_of_a_cell_has_its_status_and_text() {
    let rig = Rig::start().await;
    let session = open(&rig).await;
    let code = json!({"code": "x", "timeout_ms": 2000});
    let check = async |event: CellEvent, status: u16, text: &str| {
        let (got, said, _) = run(&rig, &session, code.clone(), vec![event]).await;
        assert_eq!(got, status, "{said}");
        assert!(said["error"].as_str().unwrap().contains(text), "{said}");
    };
    check(CellEvent::Ended(ended(CellEnd::Late)), 504, "cell timeout after 2s").await;
    check(CellEvent::Ended(CellEnded { lost: true, ..ended(CellEnd::Late) }), 504, "state of earlier cells is lost")
        .await;
    check(CellEvent::Ended(ended(CellEnd::NeverBegun)), 504, "timeout").await;
    check(CellEvent::Ended(ended(CellEnd::KernelEnded { code: 137 })), 200, "killed by signal 9").await;
    let lost = Fault::new(FaultKind::Unavailable, "guest.lost", "the sandbox's machine ended during the request");
    check(CellEvent::Failed(lost), 502, "machine ended").await;
    check(CellEvent::Body(piece("{")), 502, "lost").await;
}

#[tokio::test]
async fn a_client_that_hangs_up_interrupts_its_cell() {
    let rig = Rig::start().await;
    let session = open(&rig).await;
    let mut cells = rig.host.play_cells();
    let path = format!("/repl/sessions/{session}/run");
    let request = rig.post(&path, &json!({"code": "while True: pass"}));
    let played = tokio::select! {
        answer = request.send() => panic!("it does not wait: {answer:?}"),
        played = cells.recv() => played.unwrap(),
    };
    within("the end of the cell", played.events.closed()).await;
}

#[tokio::test]
async fn requests_about_code_are_refused_before_anything_runs() {
    let rig = Rig::start().await;
    let session = open(&rig).await;
    for (path, body, status, text) in [
        ("/repl/sessions".to_owned(), r#"{"language":"cobol"}"#, 400, "unsupported language"),
        ("/repl/sessions".to_owned(), r#"{"language":5}"#, 400, "bad JSON"),
        (format!("/repl/sessions/{session}/run"), "{}", 400, "code required"),
        (format!("/repl/sessions/{session}/run"), "", 400, "bad JSON"),
        (format!("/repl/sessions/{session}/run"), r#"{"code":"1","timeout_ms":-5}"#, 400, "timeout_ms"),
        ("/repl/sessions/ctx_none/run".to_owned(), r#"{"code":"1"}"#, 404, "session not found"),
        ("/repl/sessions/%00/run".to_owned(), r#"{"code":"1"}"#, 404, "session not found"),
        ("/repl".to_owned(), r#"{"language":"cobol","code":"1"}"#, 400, "unsupported language"),
        ("/repl".to_owned(), r#"{"language":"ruby"}"#, 400, "code required"),
    ] {
        let (got, said) = answer(rig.call(Method::POST, &path).body(body)).await;
        assert_eq!(got, status, "{path} {body}: {said}");
        assert!(said["error"].as_str().unwrap().contains(text), "{path} {body}: {said}");
    }
    let long = json!({"code": "x".repeat(2 << 20)});
    assert_eq!(answer(rig.post(&format!("/repl/sessions/{session}/run"), &long)).await.0, 413);
    assert_eq!(answer(rig.post("/repl", &long)).await.0, 413);
    let full = Fault::new(FaultKind::Quota, "session.too_many", "this sandbox already has 8 sessions; close one first");
    rig.refuse_to_run(&full);
    let refused = rig.call(Method::POST, "/repl/sessions").send().await.unwrap();
    assert_eq!((refused.status().as_u16(), refused.headers().get("retry-after")), (429, None));
    for path in ["/repl", "/repl/sessions", &format!("/repl/sessions/{session}/run"), "/mcp"] {
        for (sandbox, key, status) in
            [(rig.id, Some("theirs"), 404), (SandboxId::random(), Some("mine"), 404), (rig.id, None, 401)]
        {
            let mut request = rig.http.post(format!("{}/v1/sandboxes/{sandbox}{path}", rig.url)).body("{}");
            if let Some(key) = key {
                request = request.bearer_auth(key);
            }
            assert_eq!(answer(request).await.0, status, "{path} {key:?}");
        }
    }
}

#[tokio::test]
async fn code_is_run_once_by_its_interpreter() {
    let mut rig = Rig::start().await;
    let asked = answer(rig.post("/repl", &json!({"language": "js", "code": "console.log(1)"})));
    let play = async {
        let played = rig.played.recv().await.unwrap();
        let argv = vec!["node".into(), "-e".into(), "console.log(1)".into()];
        assert_eq!(played.ask.program, Program::Code(CodeLanguage::JavaScript, argv));
        played.play([ExecEvent::Stdout(piece("1\n")), ExecEvent::Exit { code: 3 }]).await;
    };
    let ((status, said), ()) = tokio::join!(asked, play);
    assert_eq!((status, &said["language"], &said["stdout"]), (200, &json!("javascript"), &json!("1\n")));
    assert_eq!((&said["stderr"], &said["exit_code"]), (&json!(""), &json!(3)));
    rig.refuse_to_run(&Fault::new(FaultKind::Missing, "path.not_found", "run ruby: no such file"));
    let (status, said) = answer(rig.post("/repl", &json!({"language": "ruby", "code": "puts 1"}))).await;
    assert_eq!((status, &said["error"]), (400, &json!("ruby is not installed in this sandbox")));
}
