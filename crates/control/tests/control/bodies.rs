//! Malformed bodies: each gets a clear 4xx and leaves nothing behind.

use reqwest::Method;
use serde_json::json;

use crate::rig::{Rig, answer};

async fn check(rig: &Rig, body: impl Into<reqwest::Body>, status: u16, code: &str, text: &str) {
    let (got, answer) = answer(rig.call(Method::POST, "/v1/sandboxes").body(body)).await;
    assert_eq!((got, &answer["code"]), (status, &json!(code)), "{answer}");
    assert!(answer["error"].as_str().unwrap().contains(text), "{answer}");
    assert_eq!(rig.host.count(), 0);
}

#[tokio::test]
async fn malformed_bodies_are_refused_by_name() {
    let rig = Rig::start().await;
    for broken in ["", "{", "null", "[]", "\"template\"", "{\"template\":}", "{\"template\":5}", "\u{feff}{}"] {
        check(&rig, broken, 400, "body.bad_json", "bad JSON").await;
    }
    check(&rig, vec![b'{', 0xff, 0xfe], 400, "body.bad_json", "bad JSON").await;
    check(&rig, "{\"metadata\":".repeat(10_000), 400, "body.bad_json", "bad JSON").await;
    check(&rig, "{}", 400, "sandbox.template_required", "template required").await;
    check(&rig, r#"{"template":"nope"}"#, 400, "template.unknown", "unknown template \"nope\"").await;
    check(&rig, r#"{"template":"a/b"}"#, 400, "template.bad_name", "bad template name").await;
    check(&rig, r#"{"template":"mini","ttl_seconds":-5}"#, 400, "sandbox.bad_ttl", "ttl_seconds").await;
    check(&rig, r#"{"template":"mini","ttl_seconds":"5"}"#, 400, "body.bad_json", "bad JSON").await;
    check(&rig, r#"{"template":"mini","metadata":{"a":null}}"#, 400, "sandbox.bad_metadata", "must be a string").await;
    check(&rig, r#"{"template":"mini","metadata":["a"]}"#, 400, "body.bad_json", "bad JSON").await;
    check(&rig, r#"{"template":"mini","from_snapshot":"s"}"#, 404, "snapshot.not_found", "snapshot not found").await;
    check(&rig, r#"{"template":"mini","volumes":[{"name":"v"}]}"#, 404, "volume.not_found", "volume v not found").await;
    check(&rig, r#"{"template":"mini","volumes":["v"]}"#, 400, "body.bad_json", "bad JSON").await;
    check(&rig, r#"{"template":"mini","egress_allowlist":["a b"]}"#, 400, "egress.bad_rule", "a b").await;
    check(&rig, r#"{"template":"mini","egress_mbps":-1}"#, 400, "egress.bad_mbps", "egress_mbps").await;
    let both = r#"{"template":"mini","from_snapshot":"s","volumes":[{"name":"v"}]}"#;
    check(&rig, both, 400, "sandbox.volumes_and_snapshot", "volumes").await;
    assert_eq!(rig.get("/v1/sandboxes").await.1, json!([]));
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused() {
    let rig = Rig::start().await;
    let large = json!({"template": "mini", "metadata": {"a": "x".repeat(5 << 20)}}).to_string();
    check(&rig, large, 413, "body.too_large", "larger than").await;
    let keys: serde_json::Map<_, _> = (0..65).map(|n| (n.to_string(), json!("v"))).collect();
    check(&rig, json!({"template": "mini", "metadata": keys}).to_string(), 400, "sandbox.bad_metadata", "at most 64")
        .await;
}

#[tokio::test]
async fn a_wrong_content_type_and_strange_text_are_fine() {
    let rig = Rig::start().await;
    let body = json!({"template": "mini", "metadata": {"é'\"; DROP TABLE sandbox; --": "\u{0}\u{2028}😀"}}).to_string();
    let request = rig.call(Method::POST, "/v1/sandboxes").header("content-type", "text/plain").body(body);
    let (status, sandbox) = answer(request).await;
    assert_eq!(status, 201);
    let (_, shown) = rig.get(&format!("/v1/sandboxes/{}", sandbox["id"].as_str().unwrap())).await;
    assert_eq!(shown["metadata"]["é'\"; DROP TABLE sandbox; --"], "\u{0}\u{2028}😀");
}
