//! Every route with a body, with invalid bodies of all kinds: each returns a 4xx with a code, and
//! leaves nothing behind.

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    people::operator,
    raw::{head, head_as},
    rig::{Door, KEY, answer, refused, with_door},
    routes::{Endpoint, Need, endpoints},
};

/// Routes that read JSON.
fn json_routes() -> impl Iterator<Item = Endpoint> {
    endpoints().into_iter().filter(|endpoint| endpoint.json.is_some())
}

/// All resources of a tenant, for a comparison.
async fn holdings(door: &Door<'_>) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    for path in [
        "/v1/sandboxes",
        "/v1/snapshots",
        "/v1/volumes",
        "/v1/webhooks",
        "/v1/templates/builds",
        "/v1/api-keys",
        "/v1/databases",
    ] {
        let (_, mut listed) = door.get(path).await;
        // The request itself counts as a use.
        for sandbox in listed.as_array_mut().into_iter().flatten() {
            if let Some(fields) = sandbox.as_object_mut() {
                fields.retain(|name, _| matches!(name.as_str(), "id" | "status" | "name" | "size_mb" | "enabled"));
            }
        }
        all.push((path.to_owned(), listed));
    }
    all
}

/// One resource of each kind, and the path of a route to it.
struct Ground {
    id: String,
    webhook: String,
    session: String,
}

impl Ground {
    async fn make(door: &Door<'_>) -> Self {
        let id = door.sandbox().await;
        let hook = json!({"url": "https://receiver.example/hook", "events": ["*"]});
        let webhook = door.make("/v1/webhooks", hook).await["id"].as_str().unwrap().to_owned();
        door.make("/v1/volumes", json!({"name": "disk"})).await;
        let session = door.make(&format!("/v1/sandboxes/{id}/repl/sessions"), json!({})).await;
        Self { id, webhook, session: session["id"].as_str().unwrap().to_owned() }
    }

    fn path(&self, endpoint: &Endpoint) -> String {
        let path = endpoint.path.replace("{id}", &self.id).replace("{webhook}", &self.webhook);
        path.replace("{name}", "disk").replace("{process}", "prc_1").replace("{session}", &self.session)
    }
}

#[tokio::test]
async fn a_wrong_body_is_refused_by_every_route_and_changes_nothing() {
    with_door(async |door| {
        let ground = Ground::make(door).await;
        let before = holdings(door).await;
        // Only in known fields: unknown fields are ignored.
        let names = [
            "ttl_seconds",
            "port",
            "count",
            "language",
            "grace_seconds",
            "enabled",
            "size_mb",
            "tree_id",
            "expires_in_days",
            "always_on",
            "label",
        ];
        let all =
            |value: &str| format!("{{{}}}", names.map(|name| format!("\"{name}\":{value}")).join(",")).into_bytes();
        let deep = format!("{}1{}", "[".repeat(5_000), "]".repeat(5_000));
        let broken: [(&str, Vec<u8>); 8] = [
            ("not JSON", b"hello".to_vec()),
            ("half of it", b"{\"cmd\":\"tr".to_vec()),
            ("an array", b"[]".to_vec()),
            ("a string", b"\"x\"".to_vec()),
            ("null", b"null".to_vec()),
            ("not UTF-8", b"{\"cmd\":\"\xff\xfe\"}".to_vec()),
            ("a number past all", all("1e999")),
            ("too deep", all(&deep)),
        ];
        let root = operator(door).await;
        let mut tried = 0;
        for endpoint in json_routes() {
            let token = if endpoint.person { &root.token } else { KEY };
            for (what, body) in &broken {
                // These speak JSON-RPC, whose errors have another shape and may answer arrays.
                let tools = endpoint.path.ends_with("/mcp");
                let what = format!("{what} at {} {}", endpoint.method, endpoint.path);
                let request = door.call_as(token, endpoint.method.clone(), &ground.path(&endpoint)).body(body.clone());
                let (status, said) = answer(request).await;
                if tools {
                    assert!(matches!(status, 200 | 400) && said["error"]["code"].as_i64() < Some(0), "{what}: {said}");
                } else {
                    refused(&what, &(status, said));
                }
                tried += 1;
            }
            if endpoint.json == Some(Need::Required) && !endpoint.path.ends_with("/mcp") {
                let empty = answer(door.call_as(token, endpoint.method.clone(), &ground.path(&endpoint))).await;
                refused(&format!("nothing at {} {}", endpoint.method, endpoint.path), &empty);
            }
        }
        assert!(tried > 180, "only {tried} were tried");
        assert_eq!(holdings(door).await, before);
        door.is_well().await;
    })
    .await;
}

#[tokio::test]
async fn wrong_types_are_refused_in_every_field() {
    with_door(async |door| {
        let ground = Ground::make(door).await;
        let before = holdings(door).await;
        let fields = [
            (
                "/v1/sandboxes",
                json!({"template": "mini"}),
                &["template", "metadata", "env", "volumes", "ttl_seconds"][..],
            ),
            ("/v1/volumes", json!({"name": "other"}), &["name", "size_mb"]),
            (
                "/v1/webhooks",
                json!({"url": "https://receiver.example/", "events": ["*"]}),
                &["url", "events", "enabled"],
            ),
            (
                "/v1/sandboxes/{id}/exec",
                json!({"cmd": "true"}),
                &["cmd", "argv", "cwd", "env", "user", "timeout_seconds"],
            ),
            ("/v1/sandboxes/{id}/processes", json!({"cmd": "true"}), &["cmd", "argv", "cwd", "env", "tag", "stdin"]),
            ("/v1/sandboxes/{id}/fs/mkdir", json!({"path": "/x"}), &["path"]),
            ("/v1/sandboxes/{id}/fs/move", json!({"from": "/x", "to": "/y"}), &["from", "to"]),
            ("/v1/sandboxes/{id}/ports", json!({"port": 3000}), &["port"]),
            ("/v1/sandboxes/{id}/preview", json!({"port": 3000}), &["port", "ttl_seconds"]),
            ("/v1/sandboxes/{id}/fork", json!({}), &["count", "metadata"]),
            ("/v1/sandboxes/{id}/repl", json!({"code": "1"}), &["code", "language"]),
        ];
        for (path, good, names) in fields {
            for name in names {
                for wrong in [json!({"a": {"b": [1]}}), json!([[1]]), json!(-1.5)] {
                    let mut body = good.clone();
                    body[name] = wrong;
                    let path = path.replace("{id}", &ground.id);
                    let said = answer(door.call(Method::POST, &path).json(&body)).await;
                    // A limit in seconds may be any number. A negative one means no limit.
                    if !(said.0 == 200 && name.ends_with("_seconds")) {
                        refused(&format!("{path} with {body}"), &said);
                    }
                }
            }
        }
        assert_eq!(holdings(door).await, before);
    })
    .await;
}

#[tokio::test]
async fn a_body_past_its_limit_is_refused_however_it_comes() {
    with_door(async |door| {
        let ground = Ground::make(door).await;
        let root = operator(door).await;
        for endpoint in json_routes() {
            let (method, path) = (endpoint.method.as_str(), ground.path(&endpoint));
            let token = if endpoint.person { &root.token } else { KEY };
            // Announced but never sent: the server must not wait for it.
            let mut raw = door.raw().await;
            raw.say(head_as(token, method, &path, "content-length: 999999999999\r\n")).await;
            let said = raw.until(|text| text.contains("request_id")).await;
            assert!(said.starts_with("HTTP/1.1 413 ") && said.contains("body.too_large"), "{method} {path}: {said}");
        }
        // In chunks, which announce no size. The server may close before it has read everything.
        let mut raw = door.raw().await;
        raw.say(head("POST", "/v1/sandboxes", "transfer-encoding: chunked\r\n")).await;
        let piece = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
        for _ in 0..65 {
            raw.say(&piece).await;
        }
        let said = raw.until(|text| text.contains("request_id")).await;
        assert!(said.starts_with("HTTP/1.1 413 ") && said.contains("body.too_large"), "{said}");
        let path = format!("/v1/sandboxes/{}/fs?path=/big", ground.id);
        let mut raw = door.raw().await;
        raw.say(head("PUT", &path, "content-length: 99999999999\r\n")).await;
        let said = raw.until(|text| text.contains("request_id")).await;
        assert!(said.starts_with("HTTP/1.1 413 ") && said.contains("fs.too_large"), "{said}");
        door.is_well().await;
    })
    .await;
}

#[tokio::test]
async fn a_body_that_ends_early_leaves_nothing() {
    with_door(async |door| {
        let ground = Ground::make(door).await;
        let before = holdings(door).await;
        let fs = format!("/v1/sandboxes/{}/fs?path=/half", ground.id);
        let exec = format!("/v1/sandboxes/{}/exec", ground.id);
        for (method, path) in
            [("POST", "/v1/sandboxes"), ("POST", "/v1/volumes"), ("POST", exec.as_str()), ("PUT", &fs)]
        {
            for (framing, sent) in [
                ("content-length: 100\r\n", "{\"template\":\"mini\"}"),
                ("transfer-encoding: chunked\r\n", "13\r\n{\"template\":\"mini\"}"),
                ("transfer-encoding: chunked\r\n", "zz\r\n{\"template\":\"mini\"}\r\n0\r\n\r\n"),
                ("transfer-encoding: chunked\r\n", "ffffffffffffffffff\r\n{}"),
            ] {
                let mut raw = door.raw().await;
                raw.say(head(method, path, framing)).await;
                raw.say(sent).await;
                raw.finish().await;
                let said = raw.rest().await;
                let refused = said.is_empty() || said.starts_with("HTTP/1.1 400 ") && said.contains("\"code\"");
                assert!(refused, "{method} {path} with {framing}{sent}: {said}");
            }
        }
        assert_eq!(holdings(door).await, before);
        assert_eq!(door.get(&fs).await.0, 404, "half a file was kept");
        door.is_well().await;
    })
    .await;
}

#[tokio::test]
async fn line_ends_never_reach_a_header_or_a_name() {
    with_door(async |door| {
        let ground = Ground::make(door).await;
        let before = holdings(door).await;
        let bad = "a\r\nx-injected: 1\r\n\r\n";
        for (path, body) in [
            ("/v1/sandboxes", json!({"template": bad})),
            ("/v1/volumes", json!({"name": bad})),
            ("/v1/webhooks", json!({"url": format!("https://receiver.example/{bad}"), "events": ["*"]})),
            ("/v1/webhooks", json!({"url": "https://receiver.example/", "events": [bad]})),
            ("/v1/sandboxes/{id}/ports", json!({"port": 3000, "label": bad})),
            ("/v1/sandboxes/{id}/preview", json!({"port": 3000, "paths": [bad]})),
            ("/v1/sandboxes/{id}/processes", json!({"cmd": "true", "tag": bad})),
            ("/v1/sandboxes/{id}/egress", json!({"egress_allowlist": [bad]})),
        ] {
            let path = path.replace("{id}", &ground.id);
            let method = if path.ends_with("egress") { Method::PUT } else { Method::POST };
            refused(&format!("{path} with {body}"), &answer(door.call(method, &path).json(&body)).await);
        }
        let code = "a%0D%0Ax-injected:%201%0D%0A%0D%0A";
        for (method, path) in [
            (Method::GET, format!("/v1/sandboxes/{}/fs?path=/{code}", ground.id)),
            (Method::GET, format!("/v1/sandboxes/{code}")),
            (Method::GET, format!("/v1/templates/{code}")),
            (Method::GET, format!("/v1/snapshots/{code}")),
            (Method::DELETE, format!("/v1/volumes/{code}")),
            (Method::GET, format!("/v1/sandboxes/{}/proxy/{code}/", ground.id)),
            (Method::GET, format!("/v1/p/{code}/")),
            (Method::GET, format!("/v1/sandboxes/{}/logs?tail={code}&stream={code}", ground.id)),
        ] {
            let response = door.call(method, &path).send().await.unwrap();
            assert!(response.headers().get("x-injected").is_none(), "{path}");
            assert!(response.status().as_u16() < 500, "{path}: {}", response.status());
        }
        assert_eq!(holdings(door).await, before);
    })
    .await;
}
