//! Section 8 of the contract: quotas and rate limits.

use std::collections::BTreeSet;

use pandastack_control::QuotaOverrides;
use pandastack_model::{Fault, FaultKind};
use reqwest::{Method, Response};
use serde_json::{Value, json};

use crate::{
    billing::{NOON_S, StillClock, rig},
    quotas::{AT_MOST, limit, send},
    rig::{OTHER_KEY, Rig, answer},
};

async fn ask(rig: &Rig, path: &str) -> Response {
    rig.http.get(format!("{}{path}", rig.url)).bearer_auth(OTHER_KEY).send().await.unwrap()
}

/// Sends a request that a limit refuses: 429 without `Retry-After`.
async fn refused(rig: &Rig, path: &str, body: Value, code: &str) {
    let request = rig.http.post(format!("{}{path}", rig.url)).bearer_auth(OTHER_KEY).json(&body);
    let response = request.send().await.unwrap();
    assert_eq!((response.status().as_u16(), response.headers().get("retry-after")), (429, None), "{body}");
    assert_eq!(response.json::<Value>().await.unwrap()["code"], code, "{body}");
}

#[tokio::test]
async fn request_rate_per_workspace_is_burst_50_refill_25_per_second_and_answers_429_with_retry_after_1() {
    let clock = StillClock::at(NOON_S);
    let rig = rig(&clock).await;
    for (seconds, allowed) in [(0, 50), (1, 25), (60, 50)] {
        clock.pass(seconds);
        let mut passed = 0;
        let refused = loop {
            let response = ask(&rig, "/v1/me").await;
            if response.status() != 200 {
                break response;
            }
            passed += 1;
        };
        assert_eq!((passed, refused.status().as_u16()), (allowed, 429), "after {seconds} s");
        assert_eq!(refused.headers()["retry-after"], "1");
        let body: Value = refused.json().await.unwrap();
        assert!(body["error"].as_str().unwrap().starts_with("rate limit: "), "{body}");
        assert_eq!(body["workspace"], "other", "{body}");
    }
    assert_eq!(rig.get("/v1/me").await.0, 200, "another workspace is not concerned");
}

#[tokio::test]
async fn health_version_and_metrics_are_exempt_from_the_request_rate() {
    let rig = rig(&StillClock::at(NOON_S)).await;
    while ask(&rig, "/v1/me").await.status() == 200 {}
    for path in ["/healthz", "/v1/healthz", "/version", "/v1/version", "/metrics", "/v1/metrics"] {
        assert_eq!(ask(&rig, path).await.status(), 200, "{path}");
    }
}

#[tokio::test]
async fn concurrent_sandboxes_vcpu_memory_and_hourly_creates_above_the_limit_are_429_without_retry_after() {
    let rig = Rig::start().await;
    let names = ["max_sandboxes", "max_cpu_total", "max_memory_mb_total", "hourly_create_limit"];
    for (plan, numbers) in [("custom", [1000, 1000, 512 * 1024, 10_000]), ("free", [16, 16, 32 * 1024, 200])] {
        limit(&rig, plan, QuotaOverrides::default()).await;
        let (_, shown) = rig.stranger(Method::GET, "/v1/quotas").await;
        assert_eq!(names.map(|name| shown["limits"][name].as_u64().unwrap()), numbers, "{plan}: {shown}");
    }
    let create = json!({"template": "mini"});
    let (status, first) = send(&rig, Method::POST, "/v1/sandboxes", create.clone()).await;
    assert_eq!(status, 201, "{first}");
    let used = |name: &str| AT_MOST(first[name].as_u64().unwrap());
    let none = QuotaOverrides::default();
    for (own, code) in [
        (QuotaOverrides { max_sandboxes: AT_MOST(1), ..none }, "quota.sandboxes"),
        (QuotaOverrides { max_cpu_total: used("cpu"), ..none }, "quota.cpu"),
        (QuotaOverrides { max_memory_mb_total: used("memory_mb"), ..none }, "quota.memory_total"),
        (QuotaOverrides { hourly_create_limit: AT_MOST(1), ..none }, "quota.hourly_creates"),
    ] {
        limit(&rig, "free", own).await;
        refused(&rig, "/v1/sandboxes", create.clone(), code).await;
    }
    assert_eq!(rig.host.count(), 1, "nothing was made");
}

#[tokio::test]
async fn ttl_above_plan_is_400_with_ttl_seconds_exceeds_tier_maximum() {
    let rig = Rig::start().await;
    limit(&rig, "free", QuotaOverrides::default()).await;
    let create = async |body: Value| send(&rig, Method::POST, "/v1/sandboxes", body).await;
    let (status, refused) = create(json!({"template": "mini", "ttl_seconds": 86_401})).await;
    assert_eq!(status, 400, "{refused}");
    assert!(refused["error"].as_str().unwrap().contains("ttl_seconds exceeds tier maximum"), "{refused}");
    assert_eq!(create(json!({"template": "mini", "ttl_seconds": 86_400})).await.0, 201);
    assert_eq!(create(json!({"template": "mini"})).await.0, 201, "the worker retries without a TTL");
}

#[tokio::test]
async fn volumes_by_plan_are_free_1_of_1_pro_10_of_10_team_50_of_50_gib_enterprise_unlimited() {
    let rig = Rig::start().await;
    let names = ["max_volumes", "max_volume_size_gib", "max_volume_total_gib"];
    for (plan, numbers) in [
        ("free", [json!(1), json!(1), json!(1)]),
        ("pro", [json!(10), json!(10), json!(100)]),
        ("team", [json!(50), json!(50), json!(2560)]),
        ("custom", [Value::Null, json!(64), Value::Null]),
    ] {
        limit(&rig, plan, QuotaOverrides::default()).await;
        let (_, shown) = rig.stranger(Method::GET, "/v1/quotas").await;
        assert_eq!(names.map(|name| shown["limits"][name].clone()), numbers, "{plan}");
    }
    limit(&rig, "free", QuotaOverrides::default()).await;
    refused(&rig, "/v1/volumes", json!({"name": "large", "size_mb": 1025}), "quota.volume_size").await;
    let (status, made) = send(&rig, Method::POST, "/v1/volumes", json!({"name": "one", "size_mb": 1024})).await;
    assert_eq!(status, 201, "{made}");
    refused(&rig, "/v1/volumes", json!({"name": "two", "size_mb": 16}), "quota.volumes").await;
    limit(&rig, "pro", QuotaOverrides { max_volume_total_gib: AT_MOST(3), ..QuotaOverrides::default() }).await;
    refused(&rig, "/v1/volumes", json!({"name": "three", "size_mb": 3072}), "quota.volume_total").await;
}

#[tokio::test]
async fn a_volume_has_64_gib_at_most_in_every_plan() {
    let rig = Rig::start().await;
    limit(&rig, "custom", QuotaOverrides::default()).await;
    let make =
        async |size_mb: u64| send(&rig, Method::POST, "/v1/volumes", json!({"name": "v", "size_mb": size_mb})).await.0;
    assert_eq!(make(64 * 1024 + 1).await, 400, "the other half of the contract says 400");
    assert_eq!(make(64 * 1024).await, 201);
    limit(&rig, "pro", QuotaOverrides::default()).await;
    assert_eq!(rig.stranger(Method::GET, "/v1/volumes/v").await.0, 200, "what exists stays");
}

#[tokio::test]
async fn a_volume_on_a_host_without_headroom_is_507() {
    let rig = Rig::start().await;
    rig.host.fail_next("make_volume", Fault::new(FaultKind::Storage, "host.storage", "insufficient host storage"));
    assert_eq!(rig.send(Method::POST, "/v1/volumes", json!({"name": "v"})).await.0, 507);
}

#[tokio::test]
async fn get_v1_quotas_with_a_key_shows_workspace_plan_limits_and_usage() {
    let rig = Rig::start().await;
    rig.created().await;
    let (status, shown) = rig.get("/v1/quotas").await;
    assert_eq!((status, &shown["workspace"]), (200, &json!("default")), "{shown}");
    assert!(shown["plan"].is_string(), "{shown}");
    let keys = |part: &str| shown[part].as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
    for (part, names) in [
        ("limits", ["max_sandboxes", "max_cpu_total", "max_memory_mb_total", "hourly_create_limit"]),
        ("usage", ["sandboxes", "cpu", "memory_mb", "creates_last_hour"]),
    ] {
        assert!(names.iter().all(|name| keys(part).contains(*name)), "{part} of {shown}");
    }
    assert_eq!((&shown["usage"]["sandboxes"], &shown["usage"]["creates_last_hour"]), (&json!(1), &json!(1)));
    assert_eq!(answer(rig.http.get(format!("{}/v1/quotas", rig.url))).await.0, 401);
}
