//! Commands whose output comes in one answer.

use std::time::Duration;

use bytes::Bytes;
use pandastack_model::{Fault, FaultKind, SandboxId};
use pandastack_wire_fleet::{ExecControl, ExecEvent, Program};
use reqwest::Method;
use serde_json::json;

use crate::rig::{Rig, answer, within};

#[tokio::test]
async fn a_command_runs_and_its_output_comes_back() {
    let mut rig = Rig::start().await;
    let asked = answer(rig.post("/exec", &json!({"cmd": "cat <<'E'\nhi\nE", "timeout_seconds": 7})));
    let play = async {
        let played = rig.played.recv().await.unwrap();
        assert_eq!(played.ask.program, Program::Shell("cat <<'E'\nhi\nE".into()));
        assert_eq!(played.ask.deadline, Some(Duration::from_secs(7)));
        let out = |bytes: &'static [u8]| ExecEvent::Stdout(Bytes::from_static(bytes));
        let err = ExecEvent::Stderr(Bytes::from_static(b"bad \xff byte"));
        played.play([out(b"h\xc3"), out(b"\xa9"), err, ExecEvent::Exit { code: 130 }]).await;
    };
    let ((status, body), ()) = tokio::join!(asked, play);
    assert_eq!(status, 200);
    assert_eq!(
        (&body["stdout"], &body["stderr"], &body["exit_code"]),
        (&json!("hé"), &json!("bad \u{fffd} byte"), &json!(130))
    );
    assert!(body["duration_ms"].is_u64() && body.get("truncated").is_none());
}

#[tokio::test]
async fn our_own_fields_reach_the_host() {
    let mut rig = Rig::start().await;
    let body =
        json!({"argv": ["printf", "%s", "a b"], "cwd": "/tmp", "env": {"A": "1"}, "user": "nobody", "stdin": "in"});
    let asked = answer(rig.post("/exec", &body));
    let play = async {
        let mut played = rig.played.recv().await.unwrap();
        assert_eq!(played.ask.program, Program::Argv(vec!["printf".into(), "%s".into(), "a b".into()]));
        assert_eq!(
            (played.ask.cwd.as_deref(), played.ask.user.as_deref(), played.ask.stdin),
            (Some("/tmp"), Some("nobody"), true)
        );
        assert_eq!(played.ask.env["A"], "1");
        assert_eq!(played.control.recv().await, Some(ExecControl::Stdin(Bytes::from_static(b"in"))));
        assert_eq!(played.control.recv().await, Some(ExecControl::CloseStdin));
        played.play([ExecEvent::Exit { code: 0 }]).await;
    };
    assert_eq!(tokio::join!(asked, play).0.0, 200);
}

#[tokio::test]
async fn each_bad_end_has_its_status_and_text() {
    let mut rig = Rig::start().await;
    let mut check = async |end: Option<ExecEvent>, status: u16, text: &str| {
        let asked = answer(rig.post("/exec", &json!({"cmd": "x"})));
        let play = async {
            let played = rig.played.recv().await.unwrap();
            played.play(end).await;
        };
        let ((got, body), ()) = tokio::join!(asked, play);
        assert_eq!((got, &body["error"]), (status, &json!(text)));
    };
    check(Some(ExecEvent::TimedOut { after: Duration::from_secs(10) }), 504, "exec timeout after 10s").await;
    check(None, 502, "the connection to the sandbox was lost while the command ran").await;
    check(Some(ExecEvent::Failed(Fault::no_sandbox())), 404, "sandbox not found").await;
    let dead = Fault::new(FaultKind::Conflict, "sandbox.failed", "the sandbox has failed");
    check(Some(ExecEvent::Failed(dead)), 409, "the sandbox has failed").await;
}

#[tokio::test]
async fn requests_are_refused_before_anything_runs() {
    let mut rig = Rig::start().await;
    for (body, status, text) in [
        ("{}", 400, "cmd required"),
        (r#"{"cmd":""}"#, 400, "cmd required"),
        ("{", 400, "bad JSON"),
        ("", 400, "bad JSON"),
        (r#"{"cmd":["a"]}"#, 400, "bad JSON"),
        (r#"{"cmd":"a","timeout_seconds":-1}"#, 400, "timeout_seconds"),
    ] {
        for path in ["/exec", "/exec/stream"] {
            let (got, answer) = answer(rig.call(Method::POST, path).body(body)).await;
            assert_eq!(got, status, "{body}");
            assert!(answer["error"].as_str().unwrap().contains(text), "{body}: {answer}");
        }
    }
    let huge = json!({"cmd": "x".repeat(3 << 20)});
    assert_eq!(answer(rig.post("/exec", &huge)).await.1["code"], "exec.command_too_large");
    for (url, key, status) in [
        (format!("{}/v1/sandboxes/{}/exec", rig.url, rig.id), Some("theirs"), 404),
        (format!("{}/v1/sandboxes/{}/exec", rig.url, SandboxId::random()), Some("mine"), 404),
        (format!("{}/v1/sandboxes/x/exec", rig.url), Some("mine"), 404),
        (format!("{}/v1/sandboxes/{}/exec", rig.url, rig.id), None, 401),
    ] {
        let mut request = rig.http.post(&url).body("not even JSON");
        if let Some(key) = key {
            request = request.bearer_auth(key);
        }
        assert_eq!(answer(request).await.0, status, "{url} {key:?}");
    }
    assert_eq!(answer(rig.call(Method::GET, "/exec")).await.0, 405);
    assert!(rig.played.try_recv().is_err(), "nothing ran");
}

#[tokio::test]
async fn a_client_that_hangs_up_ends_its_command() {
    let mut rig = Rig::start().await;
    for path in ["/exec", "/exec/stream"] {
        let request = rig.post(path, &json!({"cmd": "sleep 1000"}));
        let asking = async { request.send().await?.bytes().await };
        let played = tokio::select! {
            answer = asking => panic!("it does not wait: {answer:?}"),
            played = rig.played.recv() => played.unwrap(),
        };
        within("the end of the command", played.events.closed()).await;
    }
}

#[tokio::test]
async fn output_past_the_limit_is_marked_and_the_command_ends_well() {
    let mut rig = Rig::start().await;
    let asked = answer(rig.post("/exec", &json!({"cmd": "yes"})));
    let play = async {
        let played = rig.played.recv().await.unwrap();
        let piece = Bytes::from(vec![b'y'; 1 << 20]);
        played.play((0..20).map(|_| ExecEvent::Stdout(piece.clone()))).await;
        played.play([ExecEvent::Exit { code: 0 }]).await;
    };
    let ((status, body), ()) = tokio::join!(asked, play);
    assert_eq!((status, &body["exit_code"], &body["truncated"]), (200, &json!(0), &json!(true)));
    let stdout = body["stdout"].as_str().unwrap();
    assert!(stdout.len() < (16 << 20) + 200 && stdout.contains("[output truncated after 16777216 bytes"));
}
