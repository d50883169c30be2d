//! Signed previews: minting, and the check of a token.

use pandastack_model::{FaultKind, SandboxId};
use pandastack_wire_fleet::ControlPort;
use reqwest::Method;
use serde_json::{Value, json};

use crate::rig::{OTHER_KEY, Rig, answer};

async fn minted(rig: &Rig, id: &str, body: Value) -> Value {
    let (status, preview) = rig.send(Method::POST, &format!("/v1/sandboxes/{id}/preview-token"), body).await;
    assert_eq!(status, 200, "{preview}");
    preview
}

#[tokio::test]
async fn a_token_says_what_was_asked_for() {
    let rig = Rig::start().await;
    let id = rig.created().await;
    let preview = minted(&rig, &id, json!({"port": 3000, "paths": ["docs", "/a"], "ttl_seconds": 60})).await;
    let token = preview["token"].as_str().unwrap();
    let url = preview["url"].as_str().unwrap();
    let (name, rest) = url.strip_prefix("http://").unwrap().split_once('.').unwrap();
    let port = rig.url.rsplit_once(':').unwrap().1;
    assert_eq!(rest, format!("localhost:{port}/v1/p/{token}/"), "not on the API's own name");
    assert_eq!((&preview["sandbox_id"], &preview["port"]), (&json!(id), &json!(3000)));
    assert_eq!(preview["paths"], json!(["/docs", "/a"]));
    assert!(preview["expires_at"].as_str().unwrap().ends_with('Z'), "{preview}");
    let grant = rig.control.open_preview(token).await.unwrap();
    assert_eq!((grant.sandbox.to_string(), grant.port.get()), (id.clone(), 3000));
    assert_eq!(grant.label.to_string(), name);
    assert!(grant.paths.allows("/docs/x") && !grant.paths.allows("/"));
    let (status, open) = rig.send(Method::POST, &format!("/v1/sandboxes/{id}/preview"), json!({"port": 80})).await;
    assert_eq!((status, &open["paths"]), (200, &json!([])));
    let path = format!("{}/v1/sandboxes/{id}/preview", rig.url);
    let behind = rig.http.post(path).bearer_auth(crate::rig::KEY).header("x-forwarded-proto", "https");
    let (_, behind) = answer(behind.header("host", "api.example.com").json(&json!({"port": 80}))).await;
    let url = behind["url"].as_str().unwrap();
    assert!(url.starts_with("https://link-") && url.contains(".localhost/v1/p/"), "{behind}");
}

#[tokio::test]
async fn bad_asks_and_other_tenants_get_no_token() {
    let rig = Rig::start().await;
    let id = rig.created().await;
    let path = format!("/v1/sandboxes/{id}/preview-token");
    for (body, code) in [
        (json!({}), "port.bad_port"),
        (json!({"port": 1050}), "port.bad_port"),
        (json!({"port": 80, "paths": ["/a|b"]}), "preview.bad_path"),
        (json!({"port": 80, "paths": vec!["/a"; 17]}), "preview.bad_path"),
        (json!({"port": 80, "ttl_seconds": 0}), "preview.bad_ttl"),
    ] {
        let (status, refused) = rig.send(Method::POST, &path, body.clone()).await;
        assert_eq!((status, &refused["code"]), (400, &json!(code)), "{body}");
    }
    let ask = |path: &str| rig.http.post(format!("{}{path}", rig.url)).json(&json!({"port": 80}));
    assert_eq!(answer(ask(&path).bearer_auth(OTHER_KEY)).await.0, 404);
    assert_eq!(answer(ask(&path)).await.0, 401);
    let unknown = format!("/v1/sandboxes/{}/preview-token", SandboxId::random());
    assert_eq!(rig.send(Method::POST, &unknown, json!({"port": 80})).await.0, 404);
}

#[tokio::test]
async fn tokens_live_through_a_restart_and_die_with_their_sandbox() {
    let rig = Rig::start().await;
    let id = rig.created().await;
    let full: Vec<String> = (0..16).map(|at| format!("/{at}{}", "é".repeat(125))).collect();
    let token = minted(&rig, &id, json!({"port": 3000, "paths": full})).await["token"].as_str().unwrap().to_owned();
    let rig = rig.restart_control().await;
    assert_eq!(rig.control.open_preview(&token).await.unwrap().paths.as_slice(), full);
    rig.control.admit_anyone(id.parse().unwrap()).await.unwrap();
    assert_eq!(rig.delete(&format!("/v1/sandboxes/{id}")).await, 204);
    let gone = rig.control.open_preview(&token).await.unwrap_err();
    assert_eq!(gone.kind, FaultKind::Missing);
    let gone = rig.control.admit_anyone(id.parse().unwrap()).await.unwrap_err();
    assert_eq!(gone.kind, FaultKind::Missing);
}

#[tokio::test]
async fn another_servers_token_is_worth_nothing() {
    let (ours, theirs) = (Rig::start().await, Rig::start().await);
    let id = theirs.created().await;
    let token = minted(&theirs, &id, json!({"port": 3000})).await["token"].as_str().unwrap().to_owned();
    for forged in [token.as_str(), "", ".", "a.b", &"x".repeat(100_000), "e30.e30", &token[1..]] {
        let refused = ours.control.open_preview(forged).await.unwrap_err();
        assert_eq!((refused.kind, refused.code), (FaultKind::Unauthorized, "preview.bad_token"));
    }
}

#[tokio::test]
async fn a_token_ends() {
    let rig = Rig::start().await;
    let id = rig.created().await;
    let token = minted(&rig, &id, json!({"port": 3000, "ttl_seconds": 1})).await["token"].as_str().unwrap().to_owned();
    crate::rig::wait_for("the token's end", async || match rig.control.open_preview(&token).await {
        Ok(_) => false,
        Err(refused) => refused.kind == FaultKind::Unauthorized && refused.text.contains("expired"),
    })
    .await;
}
