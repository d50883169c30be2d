//! Restarts after a crash in the middle of an operation: the start finishes or undoes it before it
//! serves requests.

use std::sync::Arc;

use pandastack_database::query;
use pandastack_model::{Egress, Fault, FaultKind, SandboxId, SandboxState};
use pandastack_wire_fleet::{HostEvent, stub::StubHost};
use reqwest::Method;
use serde_json::json;

use crate::rig::{Rig, hang_up_at_the_gate, wait_for};

/// Sends a request that gets no answer, because the host waits at its gate.
async fn cut_off(rig: &Rig, path: &str, body: serde_json::Value) {
    rig.host.gate.close();
    hang_up_at_the_gate(rig, rig.call(Method::POST, path).json(&body)).await;
}

/// Restarts as after a crash. The tasks of the old server stay blocked at the gate, and a new host
/// has the state of the old one.
async fn crash(rig: Rig) -> Rig {
    let host = StubHost::default();
    *host.sandboxes.lock().unwrap() = std::mem::take(&mut *rig.host.sandboxes.lock().unwrap());
    *host.layers.lock().unwrap() = std::mem::take(&mut *rig.host.layers.lock().unwrap());
    *host.volumes.lock().unwrap() = std::mem::take(&mut *rig.host.volumes.lock().unwrap());
    rig.control.close().await;
    Rig::start_in(rig.folder, Arc::new(host)).await
}

#[tokio::test]
async fn children_that_the_host_does_not_know_are_forgotten() {
    let rig = Rig::start().await;
    let parent = rig.created().await;
    cut_off(&rig, &format!("/v1/sandboxes/{parent}/fork-tree"), json!({"count": 3})).await;
    assert_eq!(rig.get("/v1/sandboxes").await.1.as_array().unwrap().len(), 4);
    let rig = crash(rig).await;
    let list = rig.get("/v1/sandboxes").await.1;
    assert_eq!((list.as_array().unwrap().len(), &list[0]["id"]), (1, &json!(parent)));
}

#[tokio::test]
async fn a_snapshot_cut_off_gives_its_layer_up() {
    let rig = Rig::start().await;
    let id = rig.created().await;
    cut_off(&rig, &format!("/v1/sandboxes/{id}/snapshots"), json!({})).await;
    // The seal is still blocked at the gate, so the host has no layer.
    rig.host.layers.lock().unwrap().clear();
    let rig = crash(rig).await;
    assert_eq!(rig.get("/v1/snapshots").await.1, json!({"snapshots": []}));
    assert!(rig.host.layers.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_delete_cut_off_is_finished() {
    let rig = Rig::start().await;
    let id = rig.created().await;
    let (_, snapshot) = rig.post(&format!("/v1/sandboxes/{id}/snapshots")).await;
    rig.host.fail_next("release", Fault::new(FaultKind::Unavailable, "host.lost", "agent unreachable"));
    rig.delete(&format!("/v1/snapshots/{}", snapshot["id"].as_str().unwrap())).await;
    assert_eq!(rig.host.layers.lock().unwrap().len(), 1);
    let rig = rig.restart_control().await;
    assert!(rig.host.layers.lock().unwrap().is_empty());
}

/// The server was killed after it hid the volume and before the host refused. The delete was never
/// confirmed, so the volume must not be deleted later with its sandbox.
#[tokio::test]
async fn a_volume_in_use_whose_delete_was_cut_off_stays() {
    let mut rig = Rig::start().await;
    for name in ["used", "free"] {
        rig.send(Method::POST, "/v1/volumes", json!({"name": name})).await;
    }
    let (_, user) = rig.create(json!({"template": "mini", "volumes": [{"name": "used"}]})).await;
    let database = rig.database().await;
    query("UPDATE volume SET status = 'deleting'").execute(&database).await.unwrap();
    database.close().await;
    assert_eq!(rig.get("/v1/volumes").await.1, json!([]));
    rig = rig.restart_control().await;
    let listed = rig.get("/v1/volumes").await.1;
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["name"]), (1, &json!("used")), "a free one goes");
    assert_eq!((&listed[0]["size_mb"], &listed[0]["attached_to"]), (&json!(256), &json!([user["id"]])));
    assert_eq!(rig.delete(&format!("/v1/sandboxes/{}", user["id"].as_str().unwrap())).await, 204);
    rig = rig.restart_control().await;
    assert_eq!(rig.get("/v1/volumes/used").await.1["size_mb"], 256, "it went with its last user");
    assert_eq!(rig.host.volumes.lock().unwrap().len(), 1);
    assert_eq!(rig.delete("/v1/volumes/used").await, 204);
    assert!(rig.host.volumes.lock().unwrap().is_empty());
}

/// The row must stay marked for deletion: a failed sandbox would not be deleted at the next start.
#[tokio::test]
async fn a_machine_that_dies_during_a_delete_does_not_stop_the_delete() {
    let rig = Rig::start().await;
    let (id, other) = (rig.created().await, rig.created().await);
    rig.host.fail_next("remove", Fault::new(FaultKind::Unavailable, "host.busy", "busy"));
    assert_eq!(rig.delete(&format!("/v1/sandboxes/{id}")).await, 502);
    for id in [&id, &other] {
        rig.host.events.send(HostEvent::Failed { id: id.parse().unwrap(), reason: "killed".into() }).unwrap();
    }
    // Events are applied in order, so the first one is done too.
    let failed = || async { rig.get(&format!("/v1/sandboxes/{other}")).await.1["status"] == "failed" };
    wait_for("the second event", failed).await;
    let rig = rig.restart_control().await;
    assert_eq!(rig.get(&format!("/v1/sandboxes/{id}")).await.0, 404);
    assert!(!rig.host.sandboxes.lock().unwrap().contains_key(&id.parse().unwrap()), "the host keeps it");
}

/// Interrupted before or after the host's part: either way the sandbox is gone and not failed.
#[tokio::test]
async fn a_sandbox_whose_delete_was_cut_off_is_gone() {
    for host_was_done in [false, true] {
        let rig = Rig::start().await;
        let id = rig.created().await;
        rig.host.fail_next("remove", Fault::new(FaultKind::Unavailable, "host.lost", "agent unreachable"));
        rig.delete(&format!("/v1/sandboxes/{id}")).await;
        assert_eq!(rig.get(&format!("/v1/sandboxes/{id}")).await.1["status"], "stopping");
        if host_was_done {
            rig.host.sandboxes.lock().unwrap().clear();
        }
        let rig = rig.restart_control().await;
        assert_eq!(rig.get(&format!("/v1/sandboxes/{id}")).await.0, 404);
        assert!(rig.host.sandboxes.lock().unwrap().is_empty());
        assert_eq!(rig.delete(&format!("/v1/sandboxes/{id}")).await, 204, "it was deleted a short time ago");
    }
}

/// Power was lost after the delete was answered, before the host's ledger was on its disk.
#[tokio::test]
async fn a_sandbox_that_the_host_still_has_after_its_delete_goes() {
    let rig = Rig::start().await;
    let (id, other) = (rig.created().await, rig.created().await);
    let lost = rig.host.sandboxes.lock().unwrap().clone();
    assert_eq!(rig.delete(&format!("/v1/sandboxes/{id}")).await, 204);
    *rig.host.sandboxes.lock().unwrap() = lost;
    let rig = rig.restart_control().await;
    let left: Vec<String> = rig.host.sandboxes.lock().unwrap().keys().map(ToString::to_string).collect();
    assert_eq!(left, [other]);
}

#[tokio::test]
async fn a_restart_takes_the_hosts_word_for_every_state() {
    let rig = Rig::start().await;
    let ids = [rig.created().await, rig.created().await, rig.created().await];
    let states = [SandboxState::Asleep, SandboxState::Paused, SandboxState::Failed { reason: "out of memory".into() }];
    rig.post(&format!("/v1/sandboxes/{}/hibernate", ids[0])).await;
    for (id, state) in ids.iter().zip(states) {
        rig.host.sandboxes.lock().unwrap().get_mut(&id.parse().unwrap()).unwrap().state = state;
    }
    let rig = rig.restart_control().await;
    for (id, status) in ids.iter().zip(["hibernated", "paused", "failed"]) {
        assert_eq!(rig.get(&format!("/v1/sandboxes/{id}")).await.1["status"], status);
    }
    assert_eq!(rig.get(&format!("/v1/sandboxes/{}", ids[2])).await.1["status_reason"], "out of memory");
    assert_eq!(rig.post(&format!("/v1/sandboxes/{}/wake", ids[0])).await.0, 200);
}

#[tokio::test]
async fn missed_events_are_made_up_for() {
    let rig = Rig::start().await;
    let (asleep, gone) = (rig.created().await, rig.created().await);
    {
        let mut sandboxes = rig.host.sandboxes.lock().unwrap();
        sandboxes.get_mut(&asleep.parse().unwrap()).unwrap().state = SandboxState::Asleep;
        sandboxes.remove(&gone.parse().unwrap());
    }
    // More events at once than the channel holds, so the listener misses some. None names these two
    // sandboxes.
    for n in 0..200 {
        let id = pandastack_model::SandboxId::random();
        rig.host.events.send(HostEvent::Denied { id, target: format!("t{n}") }).unwrap();
    }
    let path = format!("/v1/sandboxes/{asleep}");
    wait_for("it sleeps", || async { rig.get(&path).await.1["status"] == "hibernated" }).await;
    let path = format!("/v1/sandboxes/{gone}");
    wait_for("it is gone", || async { rig.get(&path).await.0 == 404 }).await;
}

#[tokio::test]
async fn a_list_that_the_host_never_heard_of_is_applied_and_holds_for_children() {
    let rig = Rig::start().await;
    let id = rig.created().await;
    let path = format!("/v1/sandboxes/{id}/egress");
    rig.host.gate.close();
    let list = json!({"egress_allowlist": ["a.example"]});
    hang_up_at_the_gate(&rig, rig.call(Method::PUT, &path).json(&list)).await;
    assert_eq!(rig.get(&path).await.1, list, "the row is first");
    let rig = crash(rig).await;
    let sandbox: SandboxId = id.parse().unwrap();
    let told = rig.host.egress.lock().unwrap().get(&sandbox).cloned();
    assert!(matches!(&told, Some(Egress::Only(rules)) if rules.len() == 1), "{told:?}");
    let (status, tree) = rig.send(Method::POST, &format!("/v1/sandboxes/{id}/fork-tree"), json!({"count": 1})).await;
    assert_eq!(status, 201, "{tree}");
    let listed = Egress::Only(vec!["a.example".parse().unwrap()]);
    assert!(rig.host.ensured.lock().unwrap().values().all(|ask| ask.spec.egress == listed));
    // An applied list is not applied again.
    let rig = crash(rig).await;
    assert!(rig.host.egress.lock().unwrap().is_empty());
}

#[tokio::test]
async fn an_idle_limit_that_the_host_never_heard_of_is_applied() {
    let rig = Rig::start().await;
    let id = rig.created().await;
    rig.host.gate.close();
    let change = rig.call(Method::PATCH, &format!("/v1/sandboxes/{id}/lifecycle")).json(&json!({"ttl_seconds": 77}));
    hang_up_at_the_gate(&rig, change).await;
    let rig = crash(rig).await;
    assert_eq!(rig.host.lifecycles.lock().unwrap()[&id.parse::<SandboxId>().unwrap()].ttl_seconds, 77);
}

#[tokio::test]
async fn terms_that_the_host_refused_are_set_back_there_too() {
    let rig = Rig::start().await;
    let id = rig.created().await;
    let path = format!("/v1/sandboxes/{id}/egress");
    assert_eq!(rig.send(Method::PUT, &path, json!({"egress_allowlist": ["a.example"]})).await.0, 200);
    rig.host.fail_next("set_egress", Fault::new(FaultKind::Unavailable, "host.lost", "agent unreachable"));
    assert_eq!(rig.send(Method::PUT, &path, json!({"egress_allowlist": null})).await.0, 502);
    let rig = crash(rig).await;
    assert_eq!(rig.get(&path).await.1, json!({"egress_allowlist": ["a.example"]}));
    let told = rig.host.egress.lock().unwrap().get(&id.parse().unwrap()).cloned();
    assert!(matches!(&told, Some(Egress::Only(rules)) if rules.len() == 1), "the host hears of it again: {told:?}");
}
