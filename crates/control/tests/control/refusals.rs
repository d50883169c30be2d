//! Credentials, routes and headers, and the routes that need no credentials.

use pandastack_model::Tier;
use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::rig::{KEY, Rig, answer};

#[tokio::test]
async fn only_a_known_key_opens_the_door() {
    let rig = Rig::start().await;
    let url = format!("{}/v1/me", rig.url);
    let me = json!({"user_id": "default", "email": "", "current_org": null, "current_org_id": null, "orgs": [],
                    "auth_method": "token", "workspace": "default"});
    for scheme in ["Bearer", "bearer", "BEARER"] {
        let request = rig.http.get(&url).header("authorization", format!("{scheme} {KEY}"));
        assert_eq!(answer(request).await, (200, me.clone()));
    }
    assert_eq!(answer(rig.http.get(format!("{url}?access_token={KEY}"))).await.0, 200);
    let unknown = "pds_ffffffffffffffffffffffffffffffff";
    for credential in [None, Some(unknown), Some("pds_"), Some("eyJhbGciOi.x.y"), Some("' OR 1=1 --")] {
        let mut request = rig.http.get(&url);
        if let Some(credential) = credential {
            request = request.bearer_auth(credential);
        }
        let (status, body) = answer(request).await;
        assert_eq!((status, &body["error"]), (401, &json!("unauthorized")), "{credential:?}");
        assert!(!body["detail"].as_str().unwrap().is_empty());
    }
    for (method, path) in
        [(Method::POST, "/v1/sandboxes"), (Method::GET, "/v1/templates"), (Method::DELETE, "/v1/sandboxes/x")]
    {
        let request = rig.http.request(method, format!("{}{path}", rig.url)).header("x-fcs-workspace", "default");
        assert_eq!(answer(request).await.0, 401, "{path}");
    }
}

#[tokio::test]
async fn every_refusal_is_json_with_a_code() {
    let rig = Rig::start().await;
    let check = async |method: Method, path: &str, status: u16, code: &str| {
        let (got, body) = answer(rig.call(method.clone(), path)).await;
        assert_eq!((got, &body["code"]), (status, &json!(code)), "{method} {path}");
        assert!(!body["error"].as_str().unwrap().is_empty() && !body["request_id"].as_str().unwrap().is_empty());
    };
    check(Method::GET, "/", 404, "route.not_found").await;
    check(Method::GET, "/v2/sandboxes", 404, "route.not_found").await;
    check(Method::GET, "/v1/sandboxes/", 404, "route.not_found").await;
    check(Method::PUT, "/v1/sandboxes", 405, "route.method_not_allowed").await;
    check(Method::POST, "/healthz", 405, "route.method_not_allowed").await;
    check(Method::GET, "/v1/templates/nope", 404, "template.not_found").await;
    for id in ["x", "..%2f..%2fetc", "%ff", "%00", "00000000-0000-0000-0000-00000000000g", "%F0%9F%98%80"] {
        check(Method::GET, &format!("/v1/sandboxes/{id}"), 404, "sandbox.not_found").await;
        check(Method::DELETE, &format!("/v1/sandboxes/{id}"), 404, "sandbox.not_found").await;
    }
}

#[tokio::test]
async fn every_answer_carries_its_id_and_is_readable_from_browsers() {
    let rig = Rig::start().await;
    let long = "x".repeat(65);
    for (sent, kept) in [(Some("my-id"), true), (None, false), (Some(long.as_str()), false), (Some(""), false)] {
        let mut request = rig.call(Method::GET, "/v1/sandboxes/x");
        if let Some(sent) = sent {
            request = request.header("x-request-id", sent);
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.headers()["access-control-allow-origin"], "*");
        let id = response.headers()["x-request-id"].to_str().unwrap().to_owned();
        assert_eq!(sent == Some(id.as_str()), kept);
        assert!(kept || (id.len() == 16 && id.chars().all(|c| c.is_ascii_hexdigit())), "{id}");
        let body: serde_json::Value = response.json().await.unwrap();
        assert_eq!(body["request_id"], id);
    }
    for path in ["/v1/sandboxes", "/v1/unknown"] {
        let request = rig.http.request(Method::OPTIONS, format!("{}{path}", rig.url));
        assert_eq!(request.send().await.unwrap().status(), StatusCode::NO_CONTENT, "{path}");
    }
}

#[tokio::test]
async fn emulation_is_warned_of_by_the_version_and_by_every_sandbox() {
    let rig = Rig::start().await;
    let (_, sandbox) = rig.create(json!({"template": "mini"})).await;
    assert!(sandbox.get("isolation_warning").is_none(), "{sandbox}");
    *rig.host.tier.lock().unwrap() = Tier::Emulated;
    let (_, version) = answer(rig.http.get(format!("{}/v1/version", rig.url))).await;
    let (_, sandbox) = rig.create(json!({"template": "mini"})).await;
    let (_, seen) = rig.get(&format!("/v1/sandboxes/{}", sandbox["id"].as_str().unwrap())).await;
    for said in [version, sandbox, seen] {
        assert_eq!(said["isolation"], "emulated", "{said}");
        assert!(said["isolation_warning"].as_str().unwrap().contains("no security guarantee"), "{said}");
    }
}

#[tokio::test]
async fn health_version_and_templates_answer() {
    let rig = Rig::start().await;
    for path in ["/healthz", "/v1/healthz"] {
        let (status, health) = answer(rig.http.get(format!("{}{path}", rig.url))).await;
        assert_eq!((status, &health["status"]), (200, &json!("ok")));
        assert_eq!(health["checks"], json!({"database": "ok", "host": "ok", "isolation": "fake"}));
    }
    for (path, service) in [("/version", "pandastack-api"), ("/v1/version", "pandastack-agent")] {
        let (status, version) = answer(rig.http.get(format!("{}{path}", rig.url))).await;
        assert_eq!((status, &version["service"]), (200, &json!(service)));
    }
    let (_, templates) = rig.get("/v1/templates").await;
    let names: Vec<_> =
        templates.as_array().unwrap().iter().map(|template| template["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["base", "mini"]);
    assert_eq!(rig.get("/v1/templates/mini").await.1["memory_mb"], 512);
    rig.control.close().await;
    let (status, health) = answer(rig.http.get(format!("{}/healthz", rig.url))).await;
    assert_eq!((status, &health["status"]), (503, &json!("unhealthy")));
}
