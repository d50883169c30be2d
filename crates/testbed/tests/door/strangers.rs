//! Every route with an id of another tenant: the answer equals that for a missing resource, and
//! nothing changes.

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    rig::{Door, answer, refused, with_door},
    routes::endpoints,
};

/// One tenant's ids, by the placeholder in a path.
struct Names(Vec<(&'static str, String)>);

impl Names {
    fn fill(&self, path: &str) -> String {
        self.0.iter().fold(path.to_owned(), |path, (place, name)| path.replace(&format!("{{{place}}}"), name))
    }

    /// Adds names that are the same for both tenants, so that only the ids differ.
    fn with(mut self, more: &[(&'static str, &str)]) -> Self {
        self.0.extend(more.iter().map(|(place, name)| (*place, (*name).to_owned())));
        self
    }
}

/// Makes one resource of each kind, as the first tenant.
async fn everything(door: &Door<'_>) -> Names {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let hook = json!({"url": "https://receiver.example/hook", "events": ["*"]});
    let webhook = text(&door.make("/v1/webhooks", hook).await["id"]);
    let id = door.sandbox().await;
    let snapshot = text(&door.make(&format!("/v1/sandboxes/{id}/snapshots"), json!({})).await["id"]);
    door.make("/v1/volumes", json!({"name": "theirs"})).await;
    let session = text(&door.make(&format!("/v1/sandboxes/{id}/repl/sessions"), json!({})).await["id"]);
    let deliveries = door.get(&format!("/v1/webhooks/{webhook}/deliveries")).await.1;
    let first = |value: &Value| text(&value[0]["id"]);
    let delivery = match &deliveries {
        Value::Array(_) => first(&deliveries),
        wrapped => first(&wrapped["deliveries"]),
    };
    let form =
        door.call(Method::POST, "/v1/templates/build").header("content-type", "application/x-www-form-urlencoded");
    let (status, build) = answer(form.body("name=own&dockerfile=FROM+mini%0ARUN+true")).await;
    assert_eq!(status, 202, "{build}");
    Names(vec![
        ("id", id),
        ("snapshot", snapshot),
        ("name", "theirs".to_owned()),
        ("webhook", webhook),
        ("delivery", delivery),
        ("build", text(&build["id"])),
        ("session", session),
    ])
}

/// Valid ids of no resource: the last character of each is changed.
fn nothing(names: &Names) -> Names {
    let other = |name: &str| {
        let (rest, last) = name.split_at(name.len() - 1);
        format!("{rest}{}", if last == "0" { "1" } else { "0" })
    };
    Names(names.0.iter().map(|(place, name)| (*place, other(name))).collect())
}

/// A body that would be valid for the owner.
fn body(path: &str) -> Option<Value> {
    let end = path.rsplit('/').next().unwrap_or_default();
    Some(match end {
        "exec" | "stream" | "processes" => json!({"cmd": "true"}),
        "lifecycle" => json!({"ttl_seconds": 60}),
        "egress" => json!({"egress_allowlist": []}),
        "ports" | "preview" | "preview-token" => json!({"port": 3000}),
        "promote" => json!({"tree_id": "none"}),
        "mkdir" => json!({"path": "/x"}),
        "move" => json!({"from": "/x", "to": "/y"}),
        "chmod" => json!({"path": "/x", "mode": "644"}),
        "signal" => json!({"signal": "TERM"}),
        "repl" | "run" => json!({"code": "1"}),
        "mcp" => json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
        "{name}" => json!({"size_mb": 512}),
        "{webhook}" => json!({"enabled": false}),
        _ => return None,
    })
}

async fn ask(door: &Door<'_>, method: &Method, (path, full): (&str, &str)) -> (u16, Value) {
    let mut request = door.stranger(method.clone(), &format!("{full}?path=/x&follow=1&from=/a&to=/b"));
    if path.ends_with("/ws") || path.ends_with("/pty") || path.ends_with("/ssh") {
        for (name, value) in [
            ("connection", "upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ] {
            request = request.header(name, value);
        }
    }
    match (method, body(path)) {
        (&Method::GET, _) | (_, None) => answer(request).await,
        (_, Some(body)) => answer(request.json(&body)).await,
    }
}

#[tokio::test]
async fn things_of_others_are_not_there_on_any_route() {
    with_door(async |door| {
        let same = [
            ("process", "prc_1"),
            ("port", "8000"),
            ("path", "index.html"),
            ("prefix", "pds_0"),
            ("token", "t"),
            ("key", "key_0"),
        ];
        let theirs = everything(door).await;
        let (nobodys, theirs) = (nothing(&theirs).with(&same), theirs.with(&same));
        let mut tried = 0;
        for endpoint in endpoints().into_iter().filter(|endpoint| endpoint.path.contains('{')) {
            // Neither names a tenant's resource: keys cannot manage keys, and a signed preview
            // works for everyone with its link.
            if endpoint.path.contains("{prefix}") || endpoint.path.contains("{token}") {
                continue;
            }
            let (method, path) = (&endpoint.method, endpoint.path.as_str());
            let what = format!("{method} {path}");
            let found = ask(door, method, (path, &theirs.fill(path))).await;
            let missing = ask(door, method, (path, &nobodys.fill(path))).await;
            let code = refused(&what, &found);
            assert_eq!(found.0, 404, "{what}: {}", found.1);
            assert!(code.ends_with(".not_found"), "{what}: {code}");
            // The answer repeats the names from the request.
            let plain = |(status, mut body): (u16, Value), names: &Names| {
                body["request_id"] = Value::Null;
                let text = names.0.iter().fold(body.to_string(), |text, (_, name)| text.replace(name.as_str(), "…"));
                (status, text)
            };
            assert_eq!(plain(found, &theirs), plain(missing, &nobodys), "{what} tells one from the other");
            tried += 1;
        }
        assert!(tried > 70, "only {tried} routes were tried");
        for path in ["/v1/sandboxes/{id}", "/v1/snapshots/{snapshot}", "/v1/volumes/{name}", "/v1/webhooks/{webhook}"] {
            let (status, shown) = door.get(&theirs.fill(path)).await;
            assert_eq!(status, 200, "{path}: {shown}");
        }
        assert_eq!(door.get(&theirs.fill("/v1/sandboxes/{id}")).await.1["status"], "running");
        assert_eq!(door.get(&theirs.fill("/v1/webhooks/{webhook}")).await.1["enabled"], true);
    })
    .await;
}

#[tokio::test]
async fn things_of_others_cannot_be_named_in_a_body() {
    with_door(async |door| {
        let theirs = everything(door).await;
        let nobodys = nothing(&theirs);
        let own = answer(door.stranger(Method::POST, "/v1/sandboxes").json(&json!({"template": "mini"}))).await.1;
        let own = own["id"].as_str().unwrap().to_owned();
        for (path, body) in [
            ("/v1/sandboxes", r#"{"template": "mini", "from_snapshot": "{snapshot}"}"#),
            ("/v1/sandboxes", r#"{"template": "mini", "volumes": [{"name": "{name}"}]}"#),
            ("/v1/sandboxes/OWN/promote", r#"{"tree_id": "{id}"}"#),
        ] {
            let path = path.replace("OWN", &own);
            let mut answers = Vec::new();
            for names in [&theirs, &nobodys] {
                let request = door.stranger(Method::POST, &path).body(names.fill(body));
                let (status, mut said) = answer(request).await;
                refused(body, &(status, said.clone()));
                said["request_id"] = Value::Null;
                // The answer repeats the names from the request.
                let text = names.0.iter().fold(said.to_string(), |text, (_, name)| text.replace(name.as_str(), "…"));
                answers.push((status, text));
            }
            assert_eq!(answers[0], answers[1], "{body}");
        }
        let (_, listed) = answer(door.stranger(Method::GET, "/v1/sandboxes")).await;
        assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
    })
    .await;
}

#[tokio::test]
async fn an_id_that_its_owner_deleted_is_not_there_for_others_either() {
    with_door(async |door| {
        let id = door.sandbox().await;
        let path = format!("/v1/sandboxes/{id}");
        for _ in 0..2 {
            assert_eq!(answer(door.call(Method::DELETE, &path)).await.0, 204);
            let stranger = answer(door.stranger(Method::DELETE, &path)).await;
            assert_eq!((stranger.0, refused("a deletion", &stranger).as_str()), (404, "sandbox.not_found"));
        }
    })
    .await;
}
