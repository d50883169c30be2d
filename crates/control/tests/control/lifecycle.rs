//! A sandbox from create to delete.

use pandastack_model::{Fault, FaultKind, SandboxId};
use pandastack_wire_fleet::{ControlPort, Credential, HostEvent, RemovedBy};
use reqwest::Method;
use serde_json::json;

use crate::rig::{KEY, OTHER_KEY, Rig, answer, hang_up_at_the_gate, wait_for};

#[tokio::test]
async fn a_sandbox_is_created_listed_shown_and_deleted() {
    let rig = Rig::start().await;
    let (status, sandbox) = rig
        .create(json!({"template": "mini", "ttl_seconds": 60, "persistent": true, "cpu": 64,
                       "metadata": {"a": "b", "secret.k": "hidden", "workspace": "forged"}}))
        .await;
    assert_eq!(status, 201);
    assert_eq!(
        (&sandbox["cpu"], &sandbox["memory_mb"], &sandbox["status"], &sandbox["boot_ms"], &sandbox["boot_mode"]),
        (&json!(2), &json!(512), &json!("running"), &json!(12), &json!("snapshot-natid"))
    );
    assert_eq!(
        (&sandbox["persistent"], &sandbox["ttl_seconds"], &sandbox["isolation"]),
        (&json!(true), &json!(60), &json!("fake"))
    );
    assert_eq!(sandbox["metadata"], json!({"a": "b", "workspace": "default"}));
    assert!(sandbox["created_at"].as_str().unwrap().ends_with('Z'));
    let path = format!("/v1/sandboxes/{}", sandbox["id"].as_str().unwrap());
    assert_eq!(rig.get(&path).await, (200, sandbox.clone()));

    let newer = rig.created().await;
    let (_, list) = rig.get("/v1/sandboxes").await;
    let ids: Vec<_> = list.as_array().unwrap().iter().map(|sandbox| sandbox["id"].as_str().unwrap()).collect();
    assert_eq!(ids, [newer.as_str(), sandbox["id"].as_str().unwrap()]);
    assert!(!list.to_string().contains("hidden") && !list.to_string().contains("null"));

    assert_eq!(rig.delete(&path).await, 204);
    assert_eq!(rig.get(&path).await.0, 404);
    assert_eq!(rig.delete(&path).await, 204, "a repeated delete succeeds");
    assert_eq!(rig.host.count(), 1);
    assert_eq!(rig.delete(&format!("/v1/sandboxes/{}", SandboxId::random())).await, 404);
}

#[tokio::test]
async fn another_tenant_sees_and_reaches_nothing() {
    let rig = Rig::start().await;
    let id = rig.created().await;
    let path = format!("{}/v1/sandboxes/{id}", rig.url);
    let other = |method| rig.http.request(method, &path).bearer_auth(OTHER_KEY);
    let unknown = rig.get(&format!("/v1/sandboxes/{}", SandboxId::random())).await;
    let (status, mut body) = answer(other(Method::GET)).await;
    body["request_id"] = unknown.1["request_id"].clone();
    assert_eq!((status, body), unknown, "another tenant's sandbox looks like one that never was");
    assert_eq!(answer(other(Method::DELETE)).await.0, 404);
    let list = rig.http.get(format!("{}/v1/sandboxes", rig.url)).bearer_auth(OTHER_KEY);
    assert_eq!(answer(list).await, (200, json!([])));
    assert_eq!(rig.host.count(), 1);

    let caller = rig.control.authenticate(Credential::bearer(OTHER_KEY)).await.unwrap();
    let id: SandboxId = id.parse().unwrap();
    assert_eq!(rig.control.admit(&caller, id).await.unwrap_err(), Fault::no_sandbox());
    let owner = rig.control.authenticate(Credential::bearer(KEY)).await.unwrap();
    rig.control.admit(&owner, id).await.unwrap();
    assert_eq!(rig.delete(&format!("/v1/sandboxes/{id}")).await, 204);
    assert_eq!(answer(other(Method::DELETE)).await.0, 404, "nor does a deleted one answer a stranger");
}

#[tokio::test]
async fn a_host_that_refuses_leaves_nothing() {
    let rig = Rig::start().await;
    let check = async |fault: Fault, status: u16, retry_after: Option<&str>| {
        rig.host.fail_next("ensure", fault.clone());
        let response = rig.call(Method::POST, "/v1/sandboxes").json(&json!({"template": "mini"})).send().await.unwrap();
        assert_eq!(response.status().as_u16(), status);
        let after = response.headers().get("retry-after").map(|value| value.to_str().unwrap().to_owned());
        assert_eq!(after.as_deref(), retry_after);
        let body: serde_json::Value = response.json().await.unwrap();
        assert_eq!((&body["error"], &body["code"]), (&json!(fault.text), &json!(fault.code)));
        assert_eq!(rig.get("/v1/sandboxes").await.1, json!([]));
        assert_eq!(rig.host.count(), 0);
    };
    check(Fault::new(FaultKind::Busy, "host.full", "no compute capacity available"), 503, Some("5")).await;
    check(Fault::new(FaultKind::Storage, "host.memory", "insufficient host memory for sandbox"), 507, None).await;
    check(Fault::new(FaultKind::Unavailable, "host.lost", "agent unreachable"), 502, None).await;
    rig.created().await;
}

#[tokio::test]
async fn a_create_goes_on_when_its_client_hangs_up() {
    let rig = Rig::start().await;
    rig.host.gate.close();
    let create = rig.call(Method::POST, "/v1/sandboxes").json(&json!({"template": "mini"}));
    hang_up_at_the_gate(&rig, create).await;
    assert_eq!(rig.get("/v1/sandboxes").await.1[0]["status"], "creating");
    rig.host.gate.let_through(1);
    wait_for("the sandbox runs", || async { rig.get("/v1/sandboxes").await.1[0]["status"] == "running" }).await;
}

#[tokio::test]
async fn a_sandbox_deleted_while_it_is_created_is_gone() {
    let rig = Rig::start().await;
    rig.host.gate.close();
    let create = rig.create(json!({"template": "mini"}));
    let delete = async {
        let listed = || async { rig.get("/v1/sandboxes").await.1[0]["id"].is_string() };
        wait_for("the sandbox is listed", listed).await;
        let id = rig.get("/v1/sandboxes").await.1[0]["id"].as_str().unwrap().to_owned();
        assert_eq!(rig.delete(&format!("/v1/sandboxes/{id}")).await, 204);
        rig.host.gate.let_through(1);
    };
    let ((status, body), ()) = tokio::join!(create, delete);
    assert_eq!((status, &body["code"]), (409, &json!("sandbox.deleted")));
    assert_eq!(rig.host.count(), 0, "no machine without an intent");
    assert_eq!(rig.get("/v1/sandboxes").await.1, json!([]));
}

#[tokio::test]
async fn a_dead_machine_shows_as_failed() {
    let rig = Rig::start().await;
    let id = rig.created().await;
    let path = format!("/v1/sandboxes/{id}");
    rig.host.events.send(HostEvent::Failed { id: id.parse().unwrap(), reason: "killed".into() }).unwrap();
    wait_for("it has failed", || async { rig.get(&path).await.1["status"] == "failed" }).await;
    assert_eq!(rig.get(&path).await.1["status_reason"], "killed");
    let caller = rig.control.authenticate(Credential::bearer(KEY)).await.unwrap();
    let fault = rig.control.admit(&caller, id.parse().unwrap()).await.unwrap_err();
    assert_eq!((fault.kind, fault.code), (FaultKind::Conflict, "sandbox.failed"));
    assert_eq!(rig.delete(&path).await, 204);
}

#[tokio::test]
async fn a_sandbox_that_its_host_removed_is_gone_but_deletable() {
    let rig = Rig::start().await;
    let id = rig.created().await;
    let path = format!("/v1/sandboxes/{id}");
    rig.host
        .events
        .send(HostEvent::Removed { id: id.parse().unwrap(), why: RemovedBy::Idleness, cause: None })
        .unwrap();
    wait_for("it is gone", || async { rig.get(&path).await.0 == 404 }).await;
    assert_eq!(rig.delete(&path).await, 204);
}

#[tokio::test]
async fn many_creates_and_deletes_at_once_all_succeed() {
    let rig = Rig::start().await;
    let one = async || {
        let id = rig.created().await;
        assert_eq!(rig.delete(&format!("/v1/sandboxes/{id}")).await, 204);
    };
    futures_util::future::join_all((0..50).map(|_| one())).await;
    assert_eq!(rig.host.count(), 0);
}
