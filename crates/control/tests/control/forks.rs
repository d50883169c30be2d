//! Forks, fork trees and their families.

use std::time::Duration;

use pandastack_control::limits::{FORK_MAX, SANDBOXES_PER_WORKSPACE_MAX};
use pandastack_model::{Egress, Fault, FaultKind, SandboxId, SandboxOrigin};
use pandastack_wire_fleet::HostEvent;
use reqwest::Method;
use serde_json::{Value, json};

use crate::rig::{Rig, hang_up_at_the_gate, wait_for};

async fn tree(rig: &Rig, parent: &str, body: Value) -> (u16, Value) {
    rig.send(Method::POST, &format!("/v1/sandboxes/{parent}/fork-tree"), body).await
}

fn busy() -> Fault {
    Fault::new(FaultKind::Busy, "host.full", "no compute capacity available")
}

#[tokio::test]
async fn a_fork_is_a_full_sandbox_of_its_own() {
    let rig = Rig::start().await;
    let body = json!({"template": "mini", "ttl_seconds": 77, "persistent": true, "env": {"A": "b"}, "egress_mbps": 9,
                      "egress_allowlist": ["pypi.org"], "metadata": {"label": "parent", "secret.k": "v"}});
    let parent = rig.create(body).await.1;
    let id = parent["id"].as_str().unwrap();
    let ask = json!({"metadata": {"mine": "1", "fork_tree_id": "forged"}, "mode": "warm"});
    let (status, fork) = rig.send(Method::POST, &format!("/v1/sandboxes/{id}/fork"), ask).await;
    assert_eq!((status, &fork["parent_id"]), (201, &json!(id)), "{fork}");
    assert!(fork["at"].as_str().unwrap().ends_with('Z') && fork["snapshot_id"].is_string());
    let child = &fork["sandbox"];
    assert_eq!(fork["children"], json!([child]));
    assert_eq!(
        (&child["template"], &child["cpu"], &child["memory_mb"], &child["status"], &child["boot_mode"]),
        (&json!("mini"), &json!(2), &json!(512), &json!("running"), &json!("fork"))
    );
    assert_eq!(
        (&child["ttl_seconds"], &child["persistent"], &child["egress_mbps"], &child["egress_allowlist"]),
        (&json!(77), &json!(true), &json!(9), &json!(["pypi.org"]))
    );
    let metadata =
        json!({"mine": "1", "workspace": "default", "fork_parent_id": id, "forked_from": id, "fork_index": "0"});
    assert_eq!(child["metadata"], metadata);
    let child_id: SandboxId = child["id"].as_str().unwrap().parse().unwrap();
    let asked = rig.host.ensured.lock().unwrap()[&child_id].clone();
    assert_eq!(asked.spec.env["A"], "b");
    assert!(matches!(asked.spec.origin, SandboxOrigin::Layer(_)) && asked.spec.egress != Egress::Open);
    assert_eq!(rig.get(&format!("/v1/sandboxes/{child_id}")).await.1, *child, "shown again as it was");
    assert_eq!(rig.get("/v1/snapshots").await.1, json!({"snapshots": []}), "the layer between them is not listed");

    assert_eq!(rig.delete(&format!("/v1/sandboxes/{id}")).await, 204);
    assert_eq!(rig.get(&format!("/v1/sandboxes/{child_id}")).await.0, 200, "a child outlives its parent");
}

#[tokio::test]
async fn a_tree_has_as_many_children_as_asked_in_order() {
    let rig = Rig::start().await;
    let parent = rig.created().await;
    let (status, made) = tree(&rig, &parent, json!({"count": 3, "metadata": {"explore": "1"}})).await;
    assert_eq!((status, &made["parent_id"], &made["errors"]), (201, &json!(parent), &json!([])));
    let children = made["children"].as_array().unwrap();
    assert_eq!(children.len(), 3);
    for (index, child) in children.iter().enumerate() {
        let metadata = &child["metadata"];
        assert_eq!((&metadata["fork_tree_id"], &metadata["fork_tree_role"]), (&made["tree_id"], &json!("child")));
        assert_eq!((&metadata["fork_index"], &metadata["fork_parent_id"]), (&json!(index.to_string()), &json!(parent)));
        assert_eq!((&child["status"], &metadata["explore"]), (&json!("running"), &json!("1")));
    }
    assert!(!made["tree_id"].as_str().unwrap().is_empty());
    assert_eq!(rig.host.layers.lock().unwrap().len(), 1, "one seal serves every child");
    assert_eq!(rig.host.count(), 4);
    let (_, defaulted) = rig.post(&format!("/v1/sandboxes/{parent}/fork-tree")).await;
    assert_eq!(defaulted["children"].as_array().unwrap().len(), 2, "two if no number is named");
    let (_, loose) = rig.send(Method::POST, &format!("/v1/sandboxes/{parent}/fork"), json!({"count": 2})).await;
    assert_eq!(loose["children"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn bad_requests_for_children_are_named() {
    let rig = Rig::start().await;
    let parent = rig.created().await;
    for (body, code) in [
        (json!({"count": 0}), "fork.bad_count"),
        (json!({"count": 17}), "fork.bad_count"),
        (json!({"count": -1}), "fork.bad_count"),
        (json!({"count": "many"}), "body.bad_json"),
        (json!({"metadata": {"n": 1}}), "sandbox.bad_metadata"),
        (json!({"metadata": {"explore_ttl": "soon"}}), "sandbox.bad_ttl"),
        (json!([]), "body.bad_json"),
    ] {
        let (status, refused) = tree(&rig, &parent, body.clone()).await;
        assert_eq!((status, &refused["code"]), (400, &json!(code)), "{body}");
    }
    assert_eq!(rig.host.count(), 1);
    assert!(rig.host.layers.lock().unwrap().is_empty());
}

#[tokio::test]
async fn some_children_may_fail_and_are_forgotten() {
    let rig = Rig::start().await;
    let parent = rig.created().await;
    rig.host.fail_children([(1, busy()), (2, busy())]);
    let (status, made) = tree(&rig, &parent, json!({"count": 4})).await;
    assert_eq!(status, 201);
    let indexes: Vec<_> = made["children"].as_array().unwrap().iter().map(|c| &c["metadata"]["fork_index"]).collect();
    assert_eq!(indexes, ["0", "3"]);
    let text = "no compute capacity available";
    assert_eq!(made["errors"], json!([{"index": 1, "err": text}, {"index": 2, "err": text}]));
    assert_eq!(rig.get("/v1/sandboxes").await.1.as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn all_failed_is_an_error_and_nothing_is_left() {
    let rig = Rig::start().await;
    let parent = rig.created().await;
    let check = async |status: u16, retry: Option<&str>| {
        let request = rig.call(Method::POST, &format!("/v1/sandboxes/{parent}/fork-tree")).json(&json!({"count": 2}));
        let response = request.send().await.unwrap();
        let after = response.headers().get("retry-after").map(|value| value.to_str().unwrap().to_owned());
        assert_eq!((response.status().as_u16(), after.as_deref()), (status, retry));
        assert_eq!(rig.get("/v1/sandboxes").await.1.as_array().unwrap().len(), 1);
        assert_eq!(rig.host.count(), 1);
    };
    rig.host.fail_children([(0, busy()), (1, busy())]);
    check(503, Some("5")).await;
    rig.host.fail_next("fork", Fault::new(FaultKind::Storage, "host.memory", "insufficient host memory for sandbox"));
    check(507, None).await;
    rig.host.fail_next("seal", Fault::new(FaultKind::Timeout, "sandbox.seal_timeout", "seal timeout after 20s"));
    check(504, None).await;
    rig.post(&format!("/v1/sandboxes/{parent}/pause")).await;
    check(409, None).await;
}

#[tokio::test]
async fn a_sleeping_parent_is_woken_first() {
    let rig = Rig::start().await;
    let path = format!("/v1/sandboxes/{}", rig.created().await);
    rig.post(&format!("{path}/hibernate")).await;
    assert_eq!(rig.post(&format!("{path}/fork")).await.0, 201);
    wait_for("the parent is awake", || async { rig.get(&path).await.1["status"] == "running" }).await;
}

#[tokio::test]
async fn the_quota_counts_every_child_and_says_no_retry() {
    let rig = Rig::start().await;
    let parent = rig.created().await;
    // Filled with trees, because each is one commit.
    while rig.host.count() + 16 <= SANDBOXES_PER_WORKSPACE_MAX as usize {
        assert_eq!(tree(&rig, &parent, json!({"count": 16})).await.0, 201);
    }
    let room = SANDBOXES_PER_WORKSPACE_MAX as usize - rig.host.count();
    let path = format!("/v1/sandboxes/{parent}/fork-tree");
    let refused = rig.call(Method::POST, &path).json(&json!({"count": room + 1})).send().await.unwrap();
    assert_eq!((refused.status().as_u16(), refused.headers().get("retry-after")), (429, None));
    assert_eq!(rig.host.count(), SANDBOXES_PER_WORKSPACE_MAX as usize - room, "none of them was made");
    assert_eq!(tree(&rig, &parent, json!({"count": room})).await.0, 201);
    assert_eq!(rig.create(json!({"template": "mini"})).await.0, 429);
}

#[tokio::test]
async fn a_fork_goes_on_when_its_client_hangs_up() {
    let rig = Rig::start().await;
    let parent = rig.created().await;
    rig.host.gate.close();
    hang_up_at_the_gate(&rig, rig.call(Method::POST, &format!("/v1/sandboxes/{parent}/fork"))).await;
    let children = async |status: &str| {
        let list = rig.get("/v1/sandboxes").await.1;
        list.as_array().unwrap().iter().filter(|s| s["status"] == status && s["id"] != parent.as_str()).count()
    };
    assert_eq!(children("creating").await, 1);
    rig.host.gate.let_through(1);
    wait_for("the child runs", || async { children("running").await == 1 }).await;
}

#[tokio::test]
async fn a_fork_that_takes_too_long_is_taken_back() {
    let rig = Rig::start().await;
    let parent = rig.created().await;
    rig.host.gate.close();
    let listed = async || rig.get("/v1/sandboxes").await.1.as_array().unwrap().len();
    let forking = tree(&rig, &parent, json!({"count": 2}));
    let time_passes = async {
        wait_for("the children are listed", || async { listed().await == 3 }).await;
        tokio::time::pause();
        tokio::time::advance(FORK_MAX + Duration::from_secs(1)).await;
        tokio::time::resume();
    };
    let ((status, refused), ()) = tokio::join!(forking, time_passes);
    assert_eq!((status, &refused["code"]), (504, &json!("sandbox.fork_timeout")), "{refused}");
    // Only now does the host finish, and it succeeds.
    rig.host.gate.let_through(1);
    wait_for("the children are gone", || async { listed().await == 1 }).await;
    assert_eq!(rig.host.count(), 1);
}

#[tokio::test]
async fn a_child_deleted_while_it_is_made_is_gone() {
    let rig = Rig::start().await;
    let parent = rig.created().await;
    rig.host.gate.close();
    let forking = tree(&rig, &parent, json!({"count": 2}));
    let delete = async {
        let newest = async || rig.get("/v1/sandboxes").await.1[0].clone();
        wait_for("a child is listed", || async { newest().await["status"] == "creating" }).await;
        let newest = newest().await["id"].as_str().unwrap().to_owned();
        assert_eq!(rig.delete(&format!("/v1/sandboxes/{newest}")).await, 204);
        rig.host.gate.let_through(1);
    };
    let ((status, made), ()) = tokio::join!(forking, delete);
    assert_eq!((status, made["children"].as_array().unwrap().len()), (201, 1));
    assert!(made["errors"][0]["err"].as_str().unwrap().contains("deleted"));
    assert_eq!(rig.host.count(), 2, "no machine without an intent");
}

#[tokio::test]
async fn a_family_stays_connected_when_members_die() {
    let rig = Rig::start().await;
    let fork = async |id: &str| {
        let (status, fork) = rig.post(&format!("/v1/sandboxes/{id}/fork")).await;
        assert_eq!(status, 201, "{fork}");
        fork["sandbox"]["id"].as_str().unwrap().to_owned()
    };
    let grandparent = rig.created().await;
    let parent = fork(&grandparent).await;
    let (one, two) = (fork(&parent).await, fork(&parent).await);
    let stranger = rig.created().await;
    let show = async |id: &str| {
        let (status, tree) = rig.get(&format!("/v1/sandboxes/{id}/tree")).await;
        assert_eq!((status, &tree["sandbox_id"]), (200, &json!(id)), "{tree}");
        let nodes = tree["nodes"].as_array().unwrap();
        let text = |node: &Value, key: &str| node[key].as_str().unwrap_or_default().to_owned();
        nodes.iter().map(|node| (text(node, "id"), text(node, "parent_id"), text(node, "status"))).collect::<Vec<_>>()
    };
    let node = |id: &String, parent: &str, status: &str| (id.clone(), parent.to_owned(), status.to_owned());
    let whole = [
        node(&grandparent, "", "running"),
        node(&parent, &grandparent, "running"),
        node(&one, &parent, "running"),
        node(&two, &parent, "running"),
    ];
    assert_eq!(show(&two).await, whole);
    assert_eq!(show(&stranger).await, [node(&stranger, "", "running")]);
    for gone in [&parent, &grandparent] {
        assert_eq!(rig.delete(&format!("/v1/sandboxes/{gone}")).await, 204);
    }
    rig.post(&format!("/v1/sandboxes/{one}/hibernate")).await;
    let left = [
        node(&grandparent, "", "deleted"),
        node(&parent, &grandparent, "deleted"),
        node(&one, &parent, "hibernated"),
        node(&two, &parent, "running"),
    ];
    assert_eq!(show(&one).await, left);
    rig.delete(&format!("/v1/sandboxes/{two}")).await;
    assert_eq!(show(&one).await, left[..3]);
    rig.delete(&format!("/v1/sandboxes/{one}")).await;
    assert_eq!(rig.get(&format!("/v1/sandboxes/{one}/tree")).await.0, 404);
    assert_eq!(rig.get(&format!("/v1/sandboxes/{parent}/tree")).await.0, 404, "a deleted one is a miss itself");
}

#[tokio::test]
async fn a_child_that_idles_out_is_buried_like_a_deleted_one() {
    let rig = Rig::start().await;
    let parent = rig.created().await;
    let (_, made) = tree(&rig, &parent, json!({"count": 1, "metadata": {"explore_ttl": "5"}})).await;
    let child = &made["children"][0];
    assert_eq!((&child["ttl_seconds"], &child["metadata"]["explore_ttl"]), (&json!(5), &json!("5")));
    let id: SandboxId = child["id"].as_str().unwrap().parse().unwrap();
    rig.host.sandboxes.lock().unwrap().remove(&id);
    rig.host
        .events
        .send(HostEvent::Removed { id, why: pandastack_wire_fleet::RemovedBy::Idleness, cause: None })
        .unwrap();
    let path = format!("/v1/sandboxes/{id}");
    wait_for("it is gone", || async { rig.get(&path).await.0 == 404 }).await;
    assert_eq!(rig.delete(&path).await, 204);
}
