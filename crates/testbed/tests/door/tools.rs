//! The tools of a workspace at `/mcp` and `/v1/mcp`: the lines of the API contract.

use reqwest::{Method, RequestBuilder, header};
use serde_json::{Value, json};

use crate::rig::{Door, OTHER_KEY, answer, with_door};

const PATHS: [&str; 2] = ["/mcp", "/v1/mcp"];

/// Tool calls of one workspace in one minute.
const CALLS: usize = 60;

fn message(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
}

async fn said(request: RequestBuilder) -> Value {
    let (status, said) = answer(request).await;
    assert_eq!((status, &said["jsonrpc"], &said["id"]), (200, &json!("2.0"), &json!(7)), "{said}");
    said
}

impl Door<'_> {
    async fn tell(&self, method: &str, params: Value) -> Value {
        said(self.call(Method::POST, "/mcp").json(&message(method, params))).await
    }

    /// Calls a tool. Returns its first text, and whether it failed.
    async fn tool(&self, name: &str, arguments: Value) -> (String, bool) {
        let answer = self.tell("tools/call", json!({"name": name, "arguments": arguments})).await;
        let result = &answer["result"];
        let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{name}: {answer}"));
        (text.to_owned(), result["isError"].as_bool().unwrap_or(false))
    }
}

#[tokio::test]
async fn the_envelope_is_that_of_the_contract() {
    with_door(async |door| {
        for path in PATHS {
            let post = |body: &str| door.call(Method::POST, path).body(body.to_owned());
            for (body, status, code) in [
                ("{", 400, -32700),
                ("", 400, -32700),
                ("[]", 400, -32600),
                (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, 400, -32600),
                (r#"{"jsonrpc":"2.0","id":1,"method":"fly"}"#, 200, -32601),
                (r#"{"jsonrpc":"2.0","id":1,"method":"prompts/list"}"#, 200, -32601),
                (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}"#, 200, -32602),
                (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":5}}"#, 200, -32602),
                (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}"#, 200, -32602),
            ] {
                let (got, said) = answer(post(body)).await;
                assert_eq!((got, &said["error"]["code"]), (status, &json!(code)), "{body}: {said}");
            }
            for method in [Method::GET, Method::PUT, Method::DELETE, Method::PATCH] {
                let refused = door.call(method, path).send().await.unwrap();
                assert_eq!(
                    (refused.status().as_u16(), &refused.headers()[header::ALLOW]),
                    (405, &"POST".parse().unwrap())
                );
            }
            let notice = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
            assert_eq!(answer(post(&notice.to_string())).await, (202, Value::Null));
            assert_eq!(
                said(door.call(Method::POST, path).json(&message("ping", json!({})))).await["result"],
                json!({})
            );
            let large = "x".repeat((1 << 20) + 1);
            assert_eq!(answer(post(&large)).await.0, 413);
        }
    })
    .await;
}

#[tokio::test]
async fn it_introduces_itself_in_the_clients_version() {
    with_door(async |door| {
        for (params, version) in [
            (json!({"protocolVersion": "2025-06-18"}), "2025-06-18"),
            (json!({"protocolVersion": "2024-11-05", "capabilities": {}}), "2024-11-05"),
            (json!({"protocolVersion": "1999-01-01"}), "1999-01-01"),
            (json!({}), "2025-03-26"),
        ] {
            let hello = &door.tell("initialize", params).await["result"];
            assert_eq!(
                (&hello["protocolVersion"], &hello["serverInfo"]["name"]),
                (&json!(version), &json!("pandastack"))
            );
            assert!(hello["capabilities"]["tools"].is_object(), "{hello}");
        }
        // A client repeats the version of the start in each request.
        let request = door.call(Method::POST, "/mcp").header("mcp-protocol-version", "1999-01-01");
        let tools = said(request.json(&message("tools/list", json!({})))).await;
        let tools = tools["result"]["tools"].as_array().unwrap().clone();
        assert!(tools.len() >= 13, "{tools:?}");
        for tool in tools {
            let described = tool["inputSchema"]["type"] == "object" && tool["annotations"]["readOnlyHint"].is_boolean();
            assert!(described && tool["description"].is_string(), "{tool}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_tool_is_a_request_of_its_caller() {
    with_door(async |door| {
        let (made, failed) = door.tool("create_sandbox", json!({"template": "mini"})).await;
        let made: Value = serde_json::from_str(&made).unwrap();
        assert!(!failed && made["status"] == "running", "{made}");
        let id = made["id"].as_str().unwrap();
        let (listed, _) = door.tool("list_sandboxes", json!({})).await;
        assert!(listed.contains(id));
        let (ran, failed) =
            door.tool("run_command", json!({"sandbox_id": id, "command": "printenv TRACEPARENT"})).await;
        let ran: Value = serde_json::from_str(&ran).unwrap();
        assert!(!failed && ran["exit_code"] == 0 && ran["stdout"].as_str().unwrap().starts_with("00-"), "{ran}");
        // Another workspace does not see it.
        let theirs = json!({"name": "get_sandbox", "arguments": {"sandbox_id": id}});
        let stranger = door.call_as(OTHER_KEY, Method::POST, "/mcp").json(&message("tools/call", theirs));
        let refused = said(stranger).await;
        assert_eq!(refused["result"]["isError"], true);
        assert!(refused["result"]["content"][0]["text"].as_str().unwrap().contains("sandbox.not_found"), "{refused}");
        for bad in ["../x", "a/b", "a?b", "a b", &"x".repeat(129)] {
            let (text, failed) = door.tool("delete_sandbox", json!({"sandbox_id": bad})).await;
            assert!(failed && text.contains("not an id"), "{text}");
        }
        let (text, failed) = door.tool("fly", json!({})).await;
        assert!(failed && text.contains("unknown tool"));
        let (text, failed) = door.tool("list_databases", json!({})).await;
        assert!(!failed && text.contains("\"count\":0"), "{text}");
        // The tool repeats what the API says.
        let (text, failed) = door.tool("create_database", json!({})).await;
        assert!(failed && text.contains("database.no_template"), "{text}");
        assert!(!door.tool("delete_sandbox", json!({"sandbox_id": id})).await.1);
        assert_eq!(door.get(&format!("/v1/sandboxes/{id}")).await.0, 404);
    })
    .await;
}

#[tokio::test]
async fn calls_are_counted_and_lists_are_not() {
    with_door(async |door| {
        let mut refused = Value::Null;
        // The minute may change once meanwhile.
        for _ in 0..=2 * CALLS {
            refused = door.tell("tools/call", json!({"name": "fly"})).await;
            if refused.get("error").is_some() {
                break;
            }
        }
        assert_eq!(refused["error"]["code"], -32000, "{refused}");
        assert!(refused["error"]["message"].as_str().unwrap().contains("try again in"), "{refused}");
        assert!(door.tell("tools/list", json!({})).await["result"]["tools"].is_array());
        let other = door.call_as(OTHER_KEY, Method::POST, "/mcp").json(&message("tools/call", json!({"name": "fly"})));
        assert!(said(other).await["result"].is_object(), "another workspace has calls of its own");
    })
    .await;
}

#[tokio::test]
async fn a_caller_without_a_credential_learns_where_to_get_one() {
    with_door(async |door| {
        for (path, key) in [("/mcp", None), ("/v1/mcp", None), ("/mcp", Some("pds_wrong"))] {
            let request = door.http.post(format!("{}{path}", door.url)).json(&message("tools/list", json!({})));
            let request = match key {
                Some(key) => request.bearer_auth(key),
                None => request,
            };
            let refused = request.send().await.unwrap();
            assert_eq!(refused.status().as_u16(), 401);
            let told = refused.headers()[header::WWW_AUTHENTICATE].to_str().unwrap().to_owned();
            let place = told.strip_prefix("Bearer resource_metadata=\"").unwrap().strip_suffix('"').unwrap();
            let (status, about) = answer(door.http.get(place)).await;
            assert_eq!((status, &about["resource"]), (200, &json!(door.url)), "{about}");
            assert_eq!(about["bearer_methods_supported"], json!(["header"]));
        }
    })
    .await;
}
