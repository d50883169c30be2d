//! Rate limits, quotas and capacity: the refusals, their headers, and that nothing was made.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use pandastack_control::{ControlSettings, OperatorLimit, RateSettings};
use pandastack_kit::{Clock, SystemClock};
use pandastack_model::{Fault, FaultKind};
use pandastack_wire_fleet::{WorkspaceId, stub::StubHost};
use reqwest::{Method, Response};
use serde_json::{Value, json};

use crate::rig::{OTHER_KEY, Rig, answer};

struct Watch(AtomicU64);

impl Clock for Watch {
    fn now_ns(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

const SECOND: u64 = 1_000_000_000;

async fn rig(settings: ControlSettings) -> (Rig, Arc<Watch>) {
    let watch = Arc::new(Watch(AtomicU64::new(1_700_000_000 * SECOND)));
    let (folder, host) = (tempfile::tempdir().unwrap(), Arc::new(StubHost::default()));
    (Rig::start_with(folder, host, settings, watch.clone()).await, watch)
}

async fn get(rig: &Rig, key: &str, path: &str) -> Response {
    rig.http.get(format!("{}{path}", rig.url)).bearer_auth(key).send().await.unwrap()
}

#[tokio::test]
async fn a_workspace_that_asks_too_fast_is_told_when_to_come_back() {
    let (rig, watch) = rig(ControlSettings::default()).await;
    let mut passed = 0;
    let refused = loop {
        let response = get(&rig, OTHER_KEY, "/v1/sandboxes").await;
        if response.status() != 200 {
            break response;
        }
        passed += 1;
    };
    assert_eq!((passed, refused.status().as_u16()), (50, 429));
    assert_eq!(
        (&refused.headers()["retry-after"], &refused.headers()["access-control-allow-origin"]),
        (&"1".parse().unwrap(), &"*".parse().unwrap())
    );
    assert!(refused.headers().contains_key("x-request-id"));
    let body: Value = refused.json().await.unwrap();
    assert_eq!(body["code"], "rate.limited");
    assert!(body["error"].as_str().unwrap().contains("workspace"));
    let create =
        rig.http.post(format!("{}/v1/sandboxes", rig.url)).bearer_auth(OTHER_KEY).json(&json!({"template": "mini"}));
    let create = create.header("idempotency-key", "k");
    assert_eq!((answer(create.try_clone().unwrap()).await.0, rig.host.count()), (429, 0), "nothing was made");
    for path in ["/healthz", "/v1/healthz", "/version", "/v1/version", "/metrics", "/v1/metrics"] {
        assert_eq!(get(&rig, OTHER_KEY, path).await.status(), 200, "{path}");
    }
    for _ in 0..60 {
        assert_eq!(rig.get("/v1/sandboxes").await.0, 200, "the operator's own workspace is free");
    }
    watch.0.fetch_add(SECOND, Ordering::SeqCst);
    assert_eq!(answer(create).await.0, 201);
    let mut passed = 1;
    while get(&rig, OTHER_KEY, "/v1/sandboxes").await.status() == 200 {
        passed += 1;
    }
    assert_eq!(passed, 25);
}

#[tokio::test]
async fn an_operator_may_hold_everybody_to_a_rate_or_nobody() {
    let rate = RateSettings { per_second: 1, burst: 3, operator: OperatorLimit::Limited };
    let (rig, _watch) = rig(ControlSettings { rate, ..ControlSettings::default() }).await;
    let mut statuses = Vec::new();
    for _ in 0..5 {
        statuses.push(rig.get("/v1/sandboxes").await.0);
    }
    assert_eq!(statuses, [200, 200, 200, 429, 429]);
    let none = RateSettings { per_second: 0, ..rate };
    let folder = tempfile::tempdir().unwrap();
    let settings = ControlSettings { rate: none, ..ControlSettings::default() };
    let free = Rig::start_with(folder, Arc::default(), settings, Arc::new(SystemClock)).await;
    for _ in 0..80 {
        assert_eq!(free.get("/v1/me").await.0, 200);
    }
}

#[tokio::test]
async fn a_full_workspace_is_refused_without_an_invitation() {
    let (rig, _watch) = rig(ControlSettings { sandboxes_max: 2, ..ControlSettings::default() }).await;
    let (one, two) = (rig.created().await, rig.created().await);
    for (path, body) in [
        ("/v1/sandboxes".to_owned(), json!({"template": "mini"})),
        (format!("/v1/sandboxes/{one}/fork"), json!({})),
        (format!("/v1/sandboxes/{one}/fork-tree"), json!({"count": 2})),
    ] {
        let response = rig.call(Method::POST, &path).json(&body).send().await.unwrap();
        assert_eq!((response.status().as_u16(), response.headers().get("retry-after")), (429, None), "{path}");
        let body: Value = response.json().await.unwrap();
        assert_eq!(body["code"], "quota.sandboxes");
        assert!(body["error"].as_str().unwrap().starts_with("max sandboxes reached"));
    }
    assert_eq!((rig.host.count(), rig.get("/v1/sandboxes").await.1.as_array().unwrap().len()), (2, 2));
    rig.delete(&format!("/v1/sandboxes/{two}")).await;
    assert_eq!(rig.post(&format!("/v1/sandboxes/{one}/fork")).await.0, 201);
}

#[tokio::test]
async fn refusals_of_capacity_leave_nothing() {
    let (rig, _watch) = rig(ControlSettings::default()).await;
    let id = rig.created().await;
    let busy = || Fault::new(FaultKind::Busy, "host.full", "no compute capacity available");
    let storage = || Fault::new(FaultKind::Storage, "host.storage", "insufficient host storage for sandbox");
    for (verb, path) in [
        ("ensure", "/v1/sandboxes".to_owned()),
        ("fork", format!("/v1/sandboxes/{id}/fork")),
        ("fork", format!("/v1/sandboxes/{id}/fork-tree")),
    ] {
        for (fault, status, retry_after) in [(busy(), 503, Some("5")), (storage(), 507, None)] {
            rig.host.fail_next(verb, fault);
            let response = rig.call(Method::POST, &path).json(&json!({"template": "mini"})).send().await.unwrap();
            let marked = response.headers().get("retry-after").map(|value| value.to_str().unwrap().to_owned());
            assert_eq!((response.status().as_u16(), marked.as_deref()), (status, retry_after), "{path}");
            let body: Value = response.json().await.unwrap();
            assert!(body["error"].is_string());
            assert_eq!((rig.host.count(), rig.get("/v1/sandboxes").await.1.as_array().unwrap().len()), (1, 1));
        }
    }
}

#[tokio::test]
async fn a_key_works_until_its_end() {
    let (rig, watch) = rig(ControlSettings::default()).await;
    let key = "pds_000000000000000000000000000000aa";
    let end_ns = watch.now_ns() + 60 * SECOND;
    rig.control.ensure_key_until(&WorkspaceId("other".into()), key, "short", Some(end_ns)).await.unwrap();
    assert_eq!(get(&rig, key, "/v1/me").await.status(), 200);
    watch.0.store(end_ns - 1, Ordering::SeqCst);
    assert_eq!(get(&rig, key, "/v1/me").await.status(), 200);
    watch.0.store(end_ns, Ordering::SeqCst);
    let (status, body) = answer(rig.http.get(format!("{}/v1/me", rig.url)).bearer_auth(key)).await;
    assert_eq!(
        (status, &body["error"], &body["detail"]),
        (401, &json!("unauthorized"), &json!("this API key has expired"))
    );
}

#[tokio::test]
async fn keys_do_not_manage_keys() {
    let (rig, _watch) = rig(ControlSettings::default()).await;
    for (method, path) in [
        (Method::GET, "/v1/me/tokens"),
        (Method::POST, "/v1/me/tokens"),
        (Method::DELETE, "/v1/me/tokens/pds_00000000"),
    ] {
        let (status, body) = answer(rig.call(method.clone(), path)).await;
        assert_eq!((status, &body["error"], &body["detail"]), (401, &json!("unauthorized"), &json!("jwt required")));
        let nobody = answer(rig.http.request(method, format!("{}{path}", rig.url))).await;
        assert_eq!(nobody.0, 401);
        assert_ne!(nobody.1["detail"], "jwt required");
    }
}
