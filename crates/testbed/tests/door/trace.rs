//! The trace of a request: on every answer, and passed to programs it starts in a guest.

use reqwest::Method;
use serde_json::json;

use crate::rig::{answer, with_door};

#[tokio::test]
async fn every_answer_names_its_trace() {
    with_door(async |door| {
        let mine = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        for path in ["/v1/sandboxes", "/v1/sandboxes/none", "/nowhere"] {
            let answered = async |sent: Option<&str>| {
                let mut request = door.call(Method::GET, path);
                if let Some(sent) = sent {
                    request = request.header("traceparent", sent);
                }
                request.send().await.unwrap().headers()["traceparent"].to_str().unwrap().to_owned()
            };
            let continued = answered(Some(mine)).await;
            assert!(continued.starts_with(&mine[..36]) && continued != mine, "{path}: {continued}");
            let begun = answered(None).await;
            assert!(begun.len() == mine.len() && begun != answered(Some("nonsense")).await, "{path}: {begun}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_command_finds_the_trace_that_it_belongs_to() {
    with_door(async |door| {
        let mine = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let id = door.sandbox().await;
        let shell = json!({"name": "shell", "arguments": {"command": "printenv TRACEPARENT"}});
        for (path, body) in [
            ("exec", json!({"cmd": "printenv TRACEPARENT"})),
            ("exec/stream", json!({"cmd": "printenv TRACEPARENT"})),
            ("mcp", json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": shell})),
        ] {
            let request = door.call(Method::POST, &format!("/v1/sandboxes/{id}/{path}")).header("traceparent", mine);
            let (status, said) = answer(request.json(&body)).await;
            assert!(status == 200 && said.to_string().contains(&mine[..36]), "{path}: {said}");
        }
        let own = json!({"cmd": "printenv TRACEPARENT", "env": {"TRACEPARENT": "theirs"}});
        let said = door.make(&format!("/v1/sandboxes/{id}/exec"), own).await;
        assert_eq!(said["stdout"], "theirs\n", "a caller's own variable wins");
    })
    .await;
}
