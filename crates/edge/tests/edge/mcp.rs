//! MCP tools for agents.

use bytes::Bytes;
use pandastack_model::{Fault, FaultKind};
use pandastack_wire_fleet::{CellEnd, CellEvent, ExecEvent, Program};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    repl::ended,
    rig::{Rig, answer, within},
};

async fn ask(rig: &Rig, method: &str, params: Value) -> Value {
    let message = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
    let (status, said) = answer(rig.post("/mcp", &message)).await;
    assert_eq!((status, &said["jsonrpc"], &said["id"]), (200, &json!("2.0"), &json!(7)), "{said}");
    said
}

async fn call(rig: &Rig, tool: &str, arguments: Value) -> Value {
    ask(rig, "tools/call", json!({"name": tool, "arguments": arguments})).await
}

/// The first text of a tool's answer, and whether the tool failed.
fn said(answer: &Value) -> (&str, bool) {
    (answer["result"]["content"][0]["text"].as_str().unwrap(), answer["result"]["isError"].as_bool().unwrap())
}

#[tokio::test]
async fn it_introduces_itself_and_lists_its_tools() {
    let rig = Rig::start().await;
    for (asked, given) in [("2025-03-26", "2025-03-26"), ("2024-11-05", "2024-11-05"), ("1999-01-01", "2025-06-18")] {
        let hello = ask(&rig, "initialize", json!({"protocolVersion": asked})).await;
        assert_eq!(hello["result"]["protocolVersion"], given);
        assert!(
            hello["result"]["serverInfo"]["name"].is_string() && hello["result"]["capabilities"]["tools"].is_object()
        );
    }
    assert_eq!(ask(&rig, "initialize", json!({})).await["result"]["protocolVersion"], "2024-11-05");
    assert_eq!(ask(&rig, "ping", json!({})).await["result"], json!({}));
    let tools = ask(&rig, "tools/list", json!({})).await;
    let names: Vec<_> = tools["result"]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].clone()).collect();
    assert_eq!(names, ["shell", "run_code", "read_file", "write_file", "list_dir"]);
    let notice = rig.post("/mcp", &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    assert_eq!(answer(notice).await, (204, Value::Null));
    assert_eq!(answer(rig.call(Method::GET, "/mcp")).await.0, 405);
}

#[tokio::test]
async fn wrong_messages_have_their_codes() {
    let rig = Rig::start().await;
    for (body, status, code) in [
        ("{", 400, -32700),
        ("", 400, -32700),
        ("[]", 400, -32600),
        ("5", 200, -32600),
        (r#"{"id":1,"method":"ping"}"#, 200, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"resources/list"}"#, 200, -32601),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#, 200, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"fly"}}"#, 200, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"shell","arguments":{}}}"#, 200, -32602),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"shell","arguments":{"cmd":5}}}"#,
            200,
            -32602,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read_file","arguments":{"path":"a"}}}"#,
            200,
            -32602,
        ),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#, 200, -32602),
    ] {
        let (got, said) = answer(rig.call(Method::POST, "/mcp").body(body)).await;
        assert_eq!((got, &said["error"]["code"]), (status, &json!(code)), "{body}: {said}");
    }
    let batch = json!([
        {"jsonrpc": "2.0", "id": "a", "method": "ping"},
        {"jsonrpc": "2.0", "method": "notifications/x"},
        {"jsonrpc": "2.0", "id": "b", "method": "nothing"},
    ]);
    let (status, said) = answer(rig.post("/mcp", &batch)).await;
    assert_eq!((status, said.as_array().unwrap().len(), &said[1]["error"]["code"]), (200, 2, &json!(-32601)));
}

#[tokio::test]
async fn a_shell_tool_runs_commands_by_either_spelling() {
    let mut rig = Rig::start().await;
    for arguments in [json!({"command": "ls", "timeout_ms": 2000}), json!({"cmd": "ls", "timeout_seconds": 2})] {
        let params = json!({"name": "shell", "arguments": arguments});
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let asked = answer(rig.post("/mcp", &message));
        let play = async {
            let played = rig.played.recv().await.unwrap();
            assert_eq!(played.ask.program, Program::Shell("ls".into()));
            assert_eq!(played.ask.deadline, Some(std::time::Duration::from_secs(2)));
            let text = |text: &'static str| Bytes::from_static(text.as_bytes());
            played
                .play([ExecEvent::Stdout(text("out\n")), ExecEvent::Stderr(text("err")), ExecEvent::Exit { code: 3 }])
                .await;
        };
        let ((_, answer), ()) = tokio::join!(asked, play);
        assert_eq!(said(&answer), ("out\n\n[stderr]\nerr\n[exit code]\n3", true));
    }
    rig.refuse_to_run(&Fault::new(FaultKind::Conflict, "sandbox.invalid_state", "it is paused"));
    assert_eq!(said(&call(&rig, "shell", json!({"cmd": "ls"})).await), ("it is paused", true));
}

#[tokio::test]
async fn file_tools_write_read_and_list() {
    let rig = Rig::start().await;
    let wrote = call(&rig, "write_file", json!({"path": "/tmp/é", "content": "text é"})).await;
    assert_eq!(said(&wrote), ("wrote 7 bytes to /tmp/é", false));
    assert_eq!(said(&call(&rig, "read_file", json!({"path": "/tmp/é"})).await), ("text é", false));
    assert_eq!(said(&call(&rig, "read_file", json!({"path": "/none"})).await), ("no such file", true));
    assert!(said(&call(&rig, "list_dir", json!({})).await).0.contains("- "));
    rig.host.put_file("/big", vec![b'x'; 3 << 20]);
    let big = call(&rig, "read_file", json!({"path": "/big"})).await;
    assert!(said(&big).0.len() < (1 << 20) + 100 && said(&big).0.ends_with("bytes]\n"));
}

#[tokio::test]
async fn code_runs_in_a_session_that_everybody_shares() {
    let rig = Rig::start().await;
    let mut cells = rig.host.play_cells();
    for round in 0..2 {
        let play = async {
            let played = cells.recv().await.unwrap();
            assert_eq!(played.ask.session.as_str(), "shared_python");
            let body = Bytes::from_static(br#"{"results":[{"image/png":"aWNo"},{"text/plain":"42"}]}"#);
            played.events.send(CellEvent::Body(body)).await.unwrap();
            played.events.send(CellEvent::Ended(ended(CellEnd::Answered { exit: 0 }))).await.unwrap();
        };
        let (answer, ()) =
            within("a cell", async { tokio::join!(call(&rig, "run_code", json!({"code": "x"})), play) }).await;
        assert_eq!(said(&answer), ("\n[result]\n42", false), "round {round}");
        assert_eq!(answer["result"]["content"][1]["mimeType"], "image/png");
    }
    assert_eq!(rig.host.sessions.lock().unwrap().len(), 1);
    let none = call(&rig, "run_code", json!({"code": "x", "session_id": "ctx_none"})).await;
    assert_eq!(said(&none), ("session not found", true));
    assert_eq!(call(&rig, "run_code", json!({"code": "x", "language": "cobol"})).await["error"]["code"], -32602);
    let missing = Fault::new(FaultKind::Caller, "language.unavailable", "node is not installed in this sandbox");
    rig.refuse_to_run(&missing);
    let refused = call(&rig, "run_code", json!({"code": "x", "language": "js"})).await;
    assert_eq!(said(&refused), ("node is not installed in this sandbox", true));
}
