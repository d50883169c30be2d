//! Section 17: texts that clients compare.

use pandastack_control::{QuotaLimit, QuotaOverrides, WorkspacePlans};
use pandastack_model::{Fault, FaultKind};
use reqwest::Method;
use serde_json::json;

use crate::{
    backend,
    people::{operator, owner},
    rig::{OTHER_KEY, Rig, answer},
};

#[tokio::test]
async fn s17_a_403_for_an_org_says_not_a_member() {
    let rig = Rig::start().await;
    let root = operator(&rig).await;
    let other = owner(&rig, &root, "other-org").await;
    let chosen = root.request(&rig, Method::GET, "/v1/me").header("x-pandastack-org", &other.org);
    let (status, body) = answer(chosen).await;
    assert!(status == 403 && body["error"].as_str().unwrap().contains("not a member"), "{body}");
}

#[tokio::test]
async fn s17_series_need_no_store_that_could_be_missing() {
    let rig = Rig::start().await;
    let (status, body) = rig.get("/v1/metrics/overview").await;
    assert!(status == 200 && !body.to_string().contains("clickhouse"), "{body}");
}

#[tokio::test]
async fn s17_a_ttl_above_the_plan_says_ttl_seconds_exceeds_tier_maximum() {
    let rig = Rig::start().await;
    let place = backend::place(rig.folder.path()).await;
    let plans = WorkspacePlans::open(&place.database, 1).await.unwrap();
    let own = QuotaOverrides { ttl_seconds_max: Some(QuotaLimit::AtMost(60)), ..QuotaOverrides::default() };
    plans.change("other", |stored| stored.own = own).await.unwrap();
    plans.close().await;
    let create = rig.http.post(format!("{}/v1/sandboxes", rig.url)).bearer_auth(OTHER_KEY);
    let (status, body) = answer(create.json(&json!({"template": "mini", "ttl_seconds": 61}))).await;
    assert_eq!(status, 400);
    assert!(body["error"].as_str().unwrap().contains("ttl_seconds exceeds tier maximum"), "{body}");
}

#[tokio::test]
async fn s17_a_missing_sandbox_says_not_found() {
    let rig = Rig::start().await;
    let id = rig.created().await;
    assert_eq!(rig.delete(&format!("/v1/sandboxes/{id}")).await, 204);
    let (status, body) = rig.get(&format!("/v1/sandboxes/{id}")).await;
    assert!(status == 404 && body["error"].as_str().unwrap().contains("not found"), "{body}");
}

#[tokio::test]
async fn s17_a_timeout_of_the_host_is_a_5xx_that_says_timeout() {
    let rig = Rig::start().await;
    rig.host.fail_next("ensure", Fault::new(FaultKind::Timeout, "host.timeout", "timeout: the machine did not start"));
    let (status, body) = rig.create(json!({"template": "mini"})).await;
    assert!(status >= 500 && body["error"].as_str().unwrap().contains("timeout"), "{status} {body}");
}
