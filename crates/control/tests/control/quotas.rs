//! Plans and limits of workspaces.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use pandastack_control::{ControlSettings, QuotaLimit, QuotaOverrides, WorkspacePlans};
use pandastack_kit::Clock;
use pandastack_wire_fleet::stub::StubHost;
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    backend,
    receiver::Traveller,
    rig::{OTHER_KEY, Rig, answer},
};

pub const AT_MOST: fn(u64) -> Option<QuotaLimit> = |most| Some(QuotaLimit::AtMost(most));

/// Gives the second workspace a plan and limits of its own.
pub async fn limit(rig: &Rig, plan: &str, own: QuotaOverrides) {
    let place = backend::place(rig.folder.path()).await;
    let plans = WorkspacePlans::open(&place.database, 1).await.unwrap();
    let changed = plans.change("other", |stored| (stored.plan, stored.own) = (Some(plan.to_owned()), own)).await;
    assert_eq!(changed.unwrap().plan.as_deref(), Some(plan));
    assert!(plans.change("nobody", |_| ()).await.is_err());
    plans.close().await;
}

pub async fn send(rig: &Rig, method: Method, path: &str, body: Value) -> (u16, Value) {
    answer(rig.http.request(method, format!("{}{path}", rig.url)).bearer_auth(OTHER_KEY).json(&body)).await
}

async fn create(rig: &Rig) -> (u16, Value) {
    send(rig, Method::POST, "/v1/sandboxes", json!({"template": "mini"})).await
}

fn refused((status, said): &(u16, Value), expected: u16, code: &str) {
    assert_eq!((*status, &said["code"]), (expected, &json!(code)), "{said}");
}

#[tokio::test]
async fn a_workspace_sees_its_plan_and_what_it_uses() {
    let rig = Rig::start().await;
    let (status, mine) = rig.get("/v1/quotas").await;
    assert_eq!((status, &mine["workspace"], &mine["plan"]), (200, &json!("default"), &json!("custom")), "{mine}");
    assert_eq!((&mine["limits"]["max_sandboxes"], &mine["limits"]["max_cpu_total"]), (&json!(1000), &Value::Null));
    assert_eq!(mine["usage"]["sandboxes"], json!(0));
    limit(&rig, "free", QuotaOverrides { max_sandboxes: AT_MOST(3), ..QuotaOverrides::default() }).await;
    let (status, sandbox) = create(&rig).await;
    assert_eq!(status, 201, "{sandbox}");
    let (_, theirs) = rig.stranger(Method::GET, "/v1/quotas").await;
    assert_eq!((&theirs["plan"], &theirs["limits"]["max_sandboxes"]), (&json!("free"), &json!(3)), "{theirs}");
    let (limits, usage) = (&theirs["limits"], &theirs["usage"]);
    assert_eq!((&limits["requests_per_second"], &limits["ttl_seconds_max"]), (&json!(25), &json!(86_400)));
    assert_eq!((&usage["sandboxes"], &usage["creates_last_hour"]), (&json!(1), &json!(1)), "{theirs}");
    assert_eq!((&usage["cpu"], &usage["memory_mb"]), (&sandbox["cpu"], &sandbox["memory_mb"]), "{sandbox}");
    // A sleeping sandbox uses no CPUs and memory.
    let path = format!("/v1/sandboxes/{}/hibernate", sandbox["id"].as_str().unwrap());
    assert_eq!(rig.stranger(Method::POST, &path).await.0, 200);
    let (_, theirs) = rig.stranger(Method::GET, "/v1/quotas").await;
    assert_eq!((&theirs["usage"]["cpu"], &theirs["usage"]["sandboxes"]), (&json!(0), &json!(1)), "{theirs}");
}

#[tokio::test]
async fn every_limit_is_kept_and_its_refusal_has_no_retry_after() {
    let clock = Arc::new(Traveller::default());
    let (folder, host) = (tempfile::tempdir().unwrap(), Arc::new(StubHost::default()));
    let rig = Rig::start_with(folder, host, ControlSettings::default(), clock.clone() as Arc<dyn Clock>).await;
    let none = QuotaOverrides::default();
    let (_, sample) = create(&rig).await;
    let (cpu, memory) = (sample["cpu"].as_u64().unwrap(), sample["memory_mb"].as_u64().unwrap());
    for (own, code) in [
        (QuotaOverrides { max_sandboxes: AT_MOST(1), ..none }, "quota.sandboxes"),
        (QuotaOverrides { max_cpu_total: AT_MOST(2 * cpu - 1), ..none }, "quota.cpu"),
        (QuotaOverrides { max_memory_mb_total: AT_MOST(2 * memory - 1), ..none }, "quota.memory_total"),
        (QuotaOverrides { max_disk_gib_total: AT_MOST(1), ..none }, "quota.disk"),
        (QuotaOverrides { hourly_create_limit: AT_MOST(1), ..none }, "quota.hourly_creates"),
    ] {
        limit(&rig, "custom", own).await;
        refused(&create(&rig).await, 429, code);
        let fork = format!("/v1/sandboxes/{}/fork", sample["id"].as_str().unwrap());
        refused(&send(&rig, Method::POST, &fork, json!({})).await, 429, code);
        let again = rig.http.post(format!("{}/v1/sandboxes", rig.url)).bearer_auth(OTHER_KEY);
        let again = again.json(&json!({"template": "mini"})).send().await.unwrap();
        assert!(again.headers().get("retry-after").is_none(), "{code}");
    }
    // A deleted sandbox still counts as a create, for an hour.
    let path = format!("/v1/sandboxes/{}", sample["id"].as_str().unwrap());
    assert_eq!(rig.stranger(Method::DELETE, &path).await.0, 204);
    refused(&create(&rig).await, 429, "quota.hourly_creates");
    clock.travel(Duration::from_secs(3600));
    assert_eq!(create(&rig).await.0, 201);
    limit(&rig, "custom", QuotaOverrides { ttl_seconds_max: AT_MOST(600), ..none }).await;
    for ttl in [601, 0] {
        let asked = json!({"template": "mini", "ttl_seconds": ttl});
        let refusal = send(&rig, Method::POST, "/v1/sandboxes", asked).await;
        refused(&refusal, 400, "quota.ttl_seconds");
        assert!(refusal.1["error"].as_str().unwrap().contains("ttl_seconds exceeds tier maximum"), "{}", refusal.1);
    }
    let (status, kept) =
        send(&rig, Method::POST, "/v1/sandboxes", json!({"template": "mini", "ttl_seconds": 600})).await;
    assert_eq!(status, 201, "{kept}");
    let path = format!("/v1/sandboxes/{}/lifecycle", kept["id"].as_str().unwrap());
    refused(&send(&rig, Method::PATCH, &path, json!({"ttl_seconds": 601})).await, 400, "quota.ttl_seconds");
    assert_eq!(send(&rig, Method::PATCH, &path, json!({"persistent": true})).await.0, 200);
    // Volumes.
    let own = QuotaOverrides { max_volumes: AT_MOST(2), max_volume_size_gib: AT_MOST(2), ..none };
    limit(&rig, "custom", QuotaOverrides { max_volume_total_gib: AT_MOST(3), ..own }).await;
    let make = |name: &str, size_mb: u64| {
        let ask = json!({"name": name, "size_mb": size_mb});
        async { send(&rig, Method::POST, "/v1/volumes", ask).await }
    };
    refused(&make("a", 3072).await, 429, "quota.volume_size");
    assert_eq!(make("a", 2048).await.0, 201);
    refused(&make("b", 2048).await, 429, "quota.volume_total");
    assert_eq!(make("b", 512).await.0, 201);
    refused(&make("c", 16).await, 429, "quota.volumes");
    refused(&send(&rig, Method::PATCH, "/v1/volumes/b", json!({"size_mb": 2048})).await, 429, "quota.volume_total");
    assert_eq!(rig.created().await.len(), 36, "the first workspace is not concerned");
}

#[tokio::test]
async fn creates_at_once_never_pass_a_limit() {
    let rig = Rig::start().await;
    limit(&rig, "custom", QuotaOverrides { hourly_create_limit: AT_MOST(5), ..QuotaOverrides::default() }).await;
    let done = join_all((0..20).map(|_| create(&rig))).await;
    let made = done.iter().filter(|(status, _)| *status == 201).count();
    assert_eq!(made, 5, "{done:?}");
    done.iter().filter(|(status, _)| *status != 201).for_each(|one| refused(one, 429, "quota.hourly_creates"));
}

#[tokio::test]
async fn a_plan_has_its_own_request_rate() {
    let rig = Rig::start().await;
    limit(&rig, "free", QuotaOverrides::default()).await;
    let asked = join_all((0..120).map(|_| rig.stranger(Method::GET, "/v1/quotas"))).await;
    let refused = asked.iter().filter(|(status, _)| *status == 429).count();
    assert!(refused > 20, "the plan allows 50 at once, and {refused} of 120 were refused");
    assert!(asked.iter().any(|(_, said)| said["error"].as_str().is_some_and(|text| text.contains("rate limit"))));
}

#[tokio::test]
async fn a_wake_needs_cpus_and_memory_again() {
    let rig = Rig::start().await;
    let (_, first) = create(&rig).await;
    let (cpu, id) = (first["cpu"].as_u64().unwrap(), first["id"].as_str().unwrap().to_owned());
    let post = async |verb: &str| send(&rig, Method::POST, &format!("/v1/sandboxes/{id}/{verb}"), json!({})).await;
    assert_eq!(post("hibernate").await.0, 200);
    limit(&rig, "custom", QuotaOverrides { max_cpu_total: AT_MOST(cpu), ..QuotaOverrides::default() }).await;
    let (status, second) = create(&rig).await;
    assert_eq!(status, 201, "a sleeping sandbox uses no CPUs: {second}");
    refused(&post("wake").await, 429, "quota.cpu");
    let path = format!("/v1/sandboxes/{}", second["id"].as_str().unwrap());
    assert_eq!(rig.stranger(Method::DELETE, &path).await.0, 204);
    assert_eq!(post("wake").await.0, 200);
}

#[tokio::test]
async fn a_plan_limits_builds_and_requests_at_once() {
    let rig = Rig::start().await;
    let none = QuotaOverrides::default();
    limit(&rig, "custom", QuotaOverrides { builds_concurrent_max: AT_MOST(0), ..none }).await;
    let build = rig.http.post(format!("{}/v1/templates/build", rig.url)).bearer_auth(OTHER_KEY);
    let build = build.header("content-type", "application/x-www-form-urlencoded");
    refused(&answer(build.body("name=own&dockerfile=FROM+mini")).await, 429, "quota.builds");
    let rig = Rig::start().await;
    limit(&rig, "custom", QuotaOverrides { connections_max: AT_MOST(1), ..none }).await;
    let (_, made) = create(&rig).await;
    let path = format!("{}/v1/sandboxes/{}/events?follow=1", rig.url, made["id"].as_str().unwrap());
    let stream = rig.http.get(path).bearer_auth(OTHER_KEY).header("accept", "text/event-stream").send().await.unwrap();
    assert_eq!(stream.status().as_u16(), 200);
    refused(&rig.stranger(Method::GET, "/v1/quotas").await, 429, "quota.plan_connections");
    assert_eq!(rig.get("/v1/quotas").await.0, 200, "others are not concerned");
    drop(stream);
}

#[tokio::test]
async fn sandboxes_are_listed_in_pages() {
    let rig = Rig::start().await;
    let mut made = Vec::new();
    for _ in 0..5 {
        made.insert(0, rig.created().await);
    }
    let ids = |listed: &Value| -> Vec<String> {
        listed.as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&rig.get("/v1/sandboxes").await.1), made);
    assert_eq!(ids(&rig.get("/v1/sandboxes?limit=2").await.1), made[..2]);
    assert_eq!(ids(&rig.get(&format!("/v1/sandboxes?limit=2&after={}", made[1])).await.1), made[2..4]);
    assert_eq!(ids(&rig.get(&format!("/v1/sandboxes?after={}", made[3])).await.1), made[4..]);
    assert!(ids(&rig.get(&format!("/v1/sandboxes?after={}", made[4])).await.1).is_empty());
    for (bad, expected) in [("limit=few", 400), ("after=nothing", 400)] {
        assert_eq!(rig.get(&format!("/v1/sandboxes?{bad}")).await.0, expected, "{bad}");
    }
    let path = format!("/v1/sandboxes?after={}", made[0]);
    assert_eq!(rig.stranger(Method::GET, &path).await.0, 404, "the page of another workspace");
}
