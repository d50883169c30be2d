//! Snapshots and sandboxes made from them.

use pandastack_model::{Fault, FaultKind, LayerId, SandboxId, SandboxOrigin};
use pandastack_wire_fleet::LayerHold;
use reqwest::Method;
use serde_json::{Value, json};

use crate::rig::{Rig, hang_up_at_the_gate, wait_for};

async fn snapshot(rig: &Rig, sandbox: &str) -> Value {
    let (status, snapshot) = rig.post(&format!("/v1/sandboxes/{sandbox}/snapshots")).await;
    assert_eq!(status, 201, "{snapshot}");
    snapshot
}

fn layer(snapshot: &Value) -> LayerId {
    format!("lyr_{}", snapshot["id"].as_str().unwrap()).parse().unwrap()
}

#[tokio::test]
async fn a_snapshot_is_made_listed_shown_and_deleted() {
    let rig = Rig::start().await;
    let (one, two) = (rig.created().await, rig.created().await);
    let first = snapshot(&rig, &one).await;
    assert_eq!(rig.host.layers.lock().unwrap()[&layer(&first)], LayerHold::Kept);
    assert_eq!(
        (&first["sandbox_id"], &first["template"], &first["workspace"], &first["size_bytes"]),
        (&json!(one), &json!("mini"), &json!("default"), &json!(24 << 20))
    );
    assert!(first["created_at"].as_str().unwrap().ends_with('Z') && !first.to_string().contains("null"));
    let second = snapshot(&rig, &two).await;
    let path = format!("/v1/snapshots/{}", first["id"].as_str().unwrap());
    assert_eq!(rig.get("/v1/snapshots").await, (200, json!({"snapshots": [second, first]})));
    assert_eq!(rig.get(&format!("/v1/snapshots?sandbox_id={one}")).await.1, json!({"snapshots": [first]}));
    assert_eq!(rig.get("/v1/snapshots?sandbox_id=nobody").await.1, json!({"snapshots": []}));
    assert_eq!(rig.get(&path).await, (200, first.clone()));

    assert_eq!(rig.delete(&format!("/v1/sandboxes/{one}")).await, 204);
    assert_eq!(rig.get(&path).await.0, 200, "a snapshot outlives its sandbox");
    assert_eq!(rig.stranger(Method::GET, &path).await.0, 404);
    assert_eq!(rig.stranger(Method::DELETE, &path).await.0, 404);
    assert_eq!(rig.stranger(Method::GET, "/v1/snapshots").await.1, json!({"snapshots": []}));
    assert_eq!(rig.delete(&path).await, 204);
    assert!(!rig.host.layers.lock().unwrap().contains_key(&layer(&first)));
    assert_eq!((rig.get(&path).await.0, rig.delete(&path).await), (404, 404));
    for nonsense in ["x", "%ff", "..%2f..", &SandboxId::random().to_string()] {
        let (status, body) = rig.get(&format!("/v1/snapshots/{nonsense}")).await;
        assert_eq!((status, &body["code"]), (404, &json!("snapshot.not_found")), "{nonsense}");
        assert_eq!(rig.delete(&format!("/v1/snapshots/{nonsense}")).await, 404, "{nonsense}");
    }
}

#[tokio::test]
async fn a_sandbox_starts_from_a_snapshot_whatever_template_comes_with_it() {
    let rig = Rig::start().await;
    let source = rig.created().await;
    let kept = snapshot(&rig, &source).await;
    let body = json!({"template": "ubuntu-24.04", "from_snapshot": kept["id"], "metadata": {"a": "b"}});
    let (status, sandbox) = rig.create(body.clone()).await;
    assert_eq!(status, 201, "{sandbox}");
    assert_eq!(
        (&sandbox["template"], &sandbox["from_snapshot"], &sandbox["boot_mode"], &sandbox["cpu"]),
        (&json!("mini"), &kept["id"], &json!("snapshot"), &json!(2))
    );
    assert_ne!(sandbox["id"], source);
    let asked = rig.host.ensured.lock().unwrap()[&sandbox["id"].as_str().unwrap().parse().unwrap()].clone();
    assert_eq!(asked.spec.origin, SandboxOrigin::Layer(layer(&kept)));
    assert_eq!(rig.get("/v1/sandboxes").await.1[0], sandbox, "shown again as it was");
    let theirs = rig.http.post(format!("{}/v1/sandboxes", rig.url)).bearer_auth(crate::rig::OTHER_KEY).json(&body);
    assert_eq!(theirs.send().await.unwrap().status().as_u16(), 404, "another tenant's snapshot is none");
    rig.delete(&format!("/v1/snapshots/{}", kept["id"].as_str().unwrap())).await;
    let (status, gone) = rig.create(body).await;
    assert_eq!((status, &gone["code"]), (404, &json!("snapshot.not_found")));
}

#[tokio::test]
async fn a_sleeping_sandbox_is_woken_for_a_snapshot_and_a_paused_one_refuses() {
    let rig = Rig::start().await;
    let id = rig.created().await;
    let path = format!("/v1/sandboxes/{id}");
    rig.post(&format!("{path}/hibernate")).await;
    snapshot(&rig, &id).await;
    assert_eq!(rig.get(&path).await.1["status"], "running");
    rig.post(&format!("{path}/pause")).await;
    let (status, body) = rig.post(&format!("{path}/snapshots")).await;
    assert_eq!((status, &body["code"]), (409, &json!("sandbox.invalid_state")));
    assert_eq!(
        rig.get("/v1/snapshots").await.1["snapshots"].as_array().unwrap().len(),
        1,
        "a refused one is not listed"
    );
}

#[tokio::test]
async fn a_snapshot_that_fails_leaves_nothing() {
    let rig = Rig::start().await;
    let path = format!("/v1/sandboxes/{}/snapshots", rig.created().await);
    rig.host.fail_next("seal", Fault::new(FaultKind::Storage, "host.storage", "insufficient host storage"));
    assert_eq!(rig.post(&path).await.0, 507);
    assert_eq!(rig.get("/v1/snapshots").await.1, json!({"snapshots": []}));
    assert!(rig.host.layers.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_delete_that_the_host_refuses_can_be_repeated() {
    let rig = Rig::start().await;
    let kept = snapshot(&rig, &rig.created().await).await;
    let path = format!("/v1/snapshots/{}", kept["id"].as_str().unwrap());
    rig.host.fail_next("release", Fault::new(FaultKind::Unavailable, "host.lost", "agent unreachable"));
    assert_eq!(rig.delete(&path).await, 502);
    assert_eq!(rig.get(&path).await.0, 404, "it cannot be used any more");
    assert_eq!(rig.delete(&path).await, 204);
    assert!(rig.host.layers.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_snapshot_goes_on_when_its_client_hangs_up() {
    let rig = Rig::start().await;
    let path = format!("/v1/sandboxes/{}/snapshots", rig.created().await);
    rig.host.gate.close();
    hang_up_at_the_gate(&rig, rig.call(Method::POST, &path)).await;
    assert_eq!(rig.get("/v1/snapshots").await.1, json!({"snapshots": []}), "not before it is durable");
    rig.host.gate.let_through(1);
    let listed = || async { rig.get("/v1/snapshots").await.1["snapshots"].as_array().unwrap().len() == 1 };
    wait_for("the snapshot is listed", listed).await;
}
