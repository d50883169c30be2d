//! Every route with an id of another tenant: the answer equals that for a missing resource, and
//! nothing changes.

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    people::{Team, everybody, operator},
    rig::{Door, DoorStore, OTHER_KEY, answer, refused, with_door_on},
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

/// Makes an organisation with members and an invite, as the first tenant.
async fn everybody_of(team: &Team) -> Names {
    Names(vec![("org", team.org.clone()), ("user", team.member.id.clone()), ("invite", team.invite.clone())])
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
        "{org}" => json!({"name": "x"}),
        "members" => json!({"email": "x@example.com"}),
        "{user}" => json!({"role": "admin"}),
        "transfer" => json!({"user_id": "x"}),
        "budget" => json!({"monthly_usd": 50}),
        "checkout" => json!({"plan": "pro"}),
        _ => return None,
    })
}

async fn ask(door: &Door<'_>, token: &str, method: &Method, (path, full): (&str, &str)) -> (u16, Value) {
    let full = format!("{full}?path=/x&follow=1&from=/a&to=/b");
    let mut request = door.call_as(token, method.clone(), &full);
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

async fn things_of_others_are_not_there_on_any_route(store: DoorStore) {
    with_door_on(store, async |door| {
        let same = [
            ("process", "prc_1"),
            ("port", "8000"),
            ("path", "index.html"),
            ("prefix", "pds_0"),
            ("token", "t"),
            ("key", "key_0"),
        ];
        let theirs = everything(door).await;
        let root = operator(door).await;
        let team = everybody(door, &root, "theirs").await;
        let mut theirs = theirs;
        theirs.0.extend(everybody_of(&team).await.0);
        let (nobodys, theirs) = (nothing(&theirs).with(&same), theirs.with(&same));
        // The second tenant is a key, the third one has persons of every role.
        let third = everybody(door, &root, "third").await;
        let persons = [&third.owner, &third.admin, &third.member].map(|somebody| (somebody.token.as_str(), true));
        let mut tried = 0;
        for (token, is_person) in [(OTHER_KEY, false)].into_iter().chain(persons) {
            for endpoint in endpoints().into_iter().filter(|endpoint| endpoint.path.contains('{')) {
                // Neither names a tenant's resource: a prefix is looked up in the caller's own
                // workspace, and a link works for everyone who has it.
                if endpoint.path.contains("{prefix}") || endpoint.path.contains("{token}") {
                    continue;
                }
                // A session that a person could end is one of its own.
                if endpoint.path == "/v1/auth/sessions/{session}" {
                    continue;
                }
                let (method, path) = (&endpoint.method, endpoint.path.as_str());
                let what = format!("{method} {path}");
                let found = ask(door, token, method, (path, &theirs.fill(path))).await;
                let missing = ask(door, token, method, (path, &nobodys.fill(path))).await;
                let code = refused(&what, &found);
                if endpoint.person && !is_person {
                    assert_eq!((found.0, code.as_str()), (401, "unauthorized"), "{what}: {}", found.1);
                } else {
                    assert_eq!(found.0, 404, "{what}: {}", found.1);
                    assert!(code.ends_with(".not_found"), "{what}: {code}");
                }
                // The answer repeats the names from the request.
                let plain = |(status, mut body): (u16, Value), names: &Names| {
                    body["request_id"] = Value::Null;
                    let hide = |text: String, (_, name): &(&str, String)| text.replace(name.as_str(), "…");
                    (status, names.0.iter().fold(body.to_string(), hide))
                };
                assert_eq!(plain(found, &theirs), plain(missing, &nobodys), "{what} tells one from the other");
                tried += 1;
            }
        }
        assert!(tried > 4 * 70, "only {tried} routes were tried");
        for path in ["/v1/sandboxes/{id}", "/v1/snapshots/{snapshot}", "/v1/volumes/{name}", "/v1/webhooks/{webhook}"] {
            let (status, shown) = door.get(&theirs.fill(path)).await;
            assert_eq!(status, 200, "{path}: {shown}");
        }
        assert_eq!(door.get(&theirs.fill("/v1/sandboxes/{id}")).await.1["status"], "running");
        assert_eq!(door.get(&theirs.fill("/v1/webhooks/{webhook}")).await.1["enabled"], true);
        assert_eq!(team.shown(door).await, (4, 1), "members and invites");
    })
    .await;
}

/// What each route needs is in the document, so that a new route is covered at birth.
async fn a_role_that_is_too_low_is_refused_and_the_least_role_is_enough(store: DoorStore) {
    with_door_on(store, async |door| {
        let root = operator(door).await;
        let mut tried = 0;
        for endpoint in endpoints() {
            let Some(role) = endpoint.role.as_deref() else { continue };
            // Each route has its own organisation, because some remove it.
            let slug = format!("org-{tried}");
            let team = everybody(door, &root, &slug).await;
            let names = everybody_of(&team).await;
            let path = format!("{}?confirm={slug}", names.fill(&endpoint.path));
            let what = format!("{} {path}", endpoint.method);
            let ask = async |token: &str| {
                let request = door.call_as(token, endpoint.method.clone(), &path);
                match body(&endpoint.path) {
                    Some(_) if endpoint.path.ends_with("/transfer") => {
                        answer(request.json(&json!({"user_id": team.member.id}))).await
                    }
                    Some(body) => answer(request.json(&body)).await,
                    None => answer(request).await,
                }
            };
            let ranks = [("member", &team.other), ("admin", &team.admin), ("owner", &team.owner)];
            let least = ranks.iter().position(|(name, _)| *name == role).unwrap();
            for (name, somebody) in &ranks[..least] {
                let refusal = ask(&somebody.token).await;
                assert_eq!(refusal.0, 403, "{what} as {name}: {}", refusal.1);
                assert_eq!(refused(&what, &refusal), "org.insufficient_role");
            }
            let done = ask(&ranks[least].1.token).await;
            // Without Stripe there are no pages to pay on.
            let is_off = done.1["code"] == "billing.off";
            assert!(is_off || (200..300).contains(&done.0), "{what} as {role}: {} {}", done.0, done.1);
            tried += 1;
        }
        assert!(tried >= 8, "only {tried} routes need a role");
    })
    .await;
}

async fn things_of_others_cannot_be_named_in_a_body(store: DoorStore) {
    with_door_on(store, async |door| {
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

async fn an_id_that_its_owner_deleted_is_not_there_for_others_either(store: DoorStore) {
    with_door_on(store, async |door| {
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

/// Runs each test on both databases.
macro_rules! on_both_databases {
    ($($test:ident),* $(,)?) => {
        mod sqlite {
            $(#[tokio::test]
            async fn $test() {
                super::$test(super::DoorStore::Sqlite).await;
            })*
        }

        mod postgres {
            $(#[tokio::test]
            async fn $test() {
                super::$test(super::DoorStore::Postgres).await;
            })*
        }
    };
}

on_both_databases!(
    things_of_others_are_not_there_on_any_route,
    a_role_that_is_too_low_is_refused_and_the_least_role_is_enough,
    things_of_others_cannot_be_named_in_a_body,
    an_id_that_its_owner_deleted_is_not_there_for_others_either,
);
