//! Promotion: one child of a tree is kept.

use pandastack_model::{Fault, FaultKind, SandboxId};
use pandastack_wire_fleet::IdlePolicy;
use reqwest::Method;
use serde_json::{Value, json};

use crate::rig::Rig;

struct Tree {
    id: String,
    parent: String,
    children: Vec<String>,
}

async fn grow(rig: &Rig, parent: &str, body: Value) -> Tree {
    let (status, made) = rig.send(Method::POST, &format!("/v1/sandboxes/{parent}/fork-tree"), body).await;
    assert_eq!(status, 201, "{made}");
    let children = made["children"].as_array().unwrap().iter().map(|child| child["id"].as_str().unwrap().to_owned());
    Tree { id: made["tree_id"].as_str().unwrap().to_owned(), parent: parent.to_owned(), children: children.collect() }
}

async fn promote(rig: &Rig, id: &str, body: Value) -> (u16, Value) {
    rig.send(Method::POST, &format!("/v1/sandboxes/{id}/promote"), body).await
}

async fn ids(rig: &Rig) -> Vec<String> {
    let list = rig.get("/v1/sandboxes").await.1;
    let mut ids: Vec<_> = list.as_array().unwrap().iter().map(|s| s["id"].as_str().unwrap().to_owned()).collect();
    ids.sort();
    ids
}

fn sorted(mut ids: Vec<String>) -> Vec<String> {
    ids.sort();
    ids
}

#[tokio::test]
async fn the_tree_is_inferred_and_exactly_the_siblings_go() {
    let rig = Rig::start().await;
    let parent = rig.created().await;
    let tree = grow(&rig, &parent, json!({"count": 3})).await;
    let other = grow(&rig, &parent, json!({"count": 2})).await;
    let winner = &tree.children[1];
    let nephew = grow(&rig, &tree.children[0], json!({"count": 1})).await;
    let (status, done) = promote(&rig, winner, json!({"cleanup_siblings": true})).await;
    let expected = json!({"winner": winner, "tree_id": tree.id, "failures": {},
                          "deleted": [tree.children[0], tree.children[2]]});
    assert_eq!((status, done), (200, expected));
    let left = [vec![tree.parent, winner.clone()], other.children, nephew.children].concat();
    assert_eq!(ids(&rig).await, sorted(left), "parent, other trees and descendants of siblings stay");

    let (status, again) = promote(&rig, winner, json!({"cleanup_siblings": true})).await;
    assert_eq!((status, again), (200, json!({"winner": winner, "tree_id": tree.id, "deleted": [], "failures": {}})));
    assert_eq!(rig.delete(&format!("/v1/sandboxes/{parent}")).await, 204);
    assert_eq!(rig.get(&format!("/v1/sandboxes/{winner}")).await.1["status"], "running", "it survives its parent");
}

#[tokio::test]
async fn a_tree_id_must_be_the_winners() {
    let rig = Rig::start().await;
    let parent = rig.created().await;
    let (tree, other) = (grow(&rig, &parent, json!({})).await, grow(&rig, &parent, json!({})).await);
    let refused = async |id: &str, body: Value, code: &str| {
        let (status, body) = promote(&rig, id, body).await;
        assert_eq!((status, &body["code"]), (400, &json!(code)));
    };
    refused(&tree.children[0], json!({"cleanup_siblings": true, "tree_id": other.id}), "fork.other_tree").await;
    refused(&parent, json!({"cleanup_siblings": true, "tree_id": tree.id}), "fork.other_tree").await;
    refused(&parent, json!({"cleanup_siblings": true}), "fork.no_tree").await;
    refused(&parent, json!({"cleanup_siblings": "yes"}), "body.bad_json").await;
    assert_eq!(ids(&rig).await.len(), 5, "nothing was deleted");
    let (status, done) =
        promote(&rig, &tree.children[0], json!({"cleanup_siblings": true, "tree_id": tree.id, "zzz": 1})).await;
    assert_eq!((status, &done["deleted"]), (200, &json!([tree.children[1]])));
    let (status, done) = promote(&rig, &other.children[0], json!({"cleanup_siblings": false})).await;
    assert_eq!((status, &done["deleted"], &done["tree_id"]), (200, &json!([]), &json!(other.id)));
    assert_eq!(promote(&rig, &parent, json!({"cleanup_siblings": false})).await.0, 200);
    assert_eq!(promote(&rig, &SandboxId::random().to_string(), json!({"cleanup_siblings": true})).await.0, 404);
}

#[tokio::test]
async fn a_sibling_that_cannot_be_deleted_is_reported() {
    let rig = Rig::start().await;
    let parent = rig.created().await;
    let tree = grow(&rig, &parent, json!({"count": 3})).await;
    rig.host.fail_next("remove", Fault::new(FaultKind::Unavailable, "host.lost", "agent unreachable"));
    let (status, done) = promote(&rig, &tree.children[0], json!({"cleanup_siblings": true})).await;
    assert_eq!((status, done["deleted"].as_array().unwrap().len()), (200, 1));
    let failures: Vec<_> = done["failures"].as_object().unwrap().values().collect();
    assert_eq!(failures, ["agent unreachable"]);
    let (_, again) = promote(&rig, &tree.children[0], json!({"cleanup_siblings": true})).await;
    assert_eq!((again["deleted"].as_array().unwrap().len(), &again["failures"]), (1, &json!({})));
    assert_eq!(ids(&rig).await.len(), 2);
}

#[tokio::test]
async fn the_limit_of_exploring_is_dropped() {
    let rig = Rig::start().await;
    let (_, parent) = rig.create(json!({"template": "mini", "ttl_seconds": 900, "persistent": true})).await;
    let tree = grow(&rig, parent["id"].as_str().unwrap(), json!({"metadata": {"explore_ttl": "60"}})).await;
    let limit = async |id: &str| {
        let (_, shown) = rig.get(&format!("/v1/sandboxes/{id}/lifecycle")).await;
        (shown["ttl_seconds"].clone(), shown["persistent"].clone())
    };
    for child in &tree.children {
        assert_eq!(limit(child).await, (json!(60), json!(false)));
    }
    let [winner, loser] = &tree.children[..] else { panic!("two children") };
    assert_eq!(promote(&rig, winner, json!({"cleanup_siblings": false})).await.0, 200);
    assert_eq!(limit(winner).await, (json!(900), json!(true)));
    assert_eq!(limit(loser).await, (json!(60), json!(false)), "the others still end by themselves");
    let told = rig.host.lifecycles.lock().unwrap()[&winner.parse().unwrap()];
    assert_eq!(told, IdlePolicy { ttl_seconds: 900, persistent: true });

    let changed = rig.send(Method::PATCH, &format!("/v1/sandboxes/{loser}/lifecycle"), json!({"ttl_seconds": 5})).await;
    assert_eq!(changed.0, 200);
    assert_eq!(promote(&rig, loser, json!({"cleanup_siblings": false})).await.0, 200);
    assert_eq!(limit(loser).await, (json!(5), json!(false)), "what the caller set since is not undone");
}

#[tokio::test]
async fn two_winners_of_one_tree_cannot_reap_each_other() {
    let rig = Rig::start().await;
    let parent = rig.created().await;
    for _ in 0..8 {
        let tree = grow(&rig, &parent, json!({"count": 2})).await;
        let cleanup = json!({"cleanup_siblings": true});
        let (one, two) = tokio::join!(
            promote(&rig, &tree.children[0], cleanup.clone()),
            promote(&rig, &tree.children[1], cleanup.clone())
        );
        let wins = [one.0, two.0].iter().filter(|status| **status == 200).count();
        let left = ids(&rig).await.into_iter().filter(|id| tree.children.contains(id)).count();
        assert_eq!((wins, left), (1, 1), "{one:?} {two:?}");
    }
}
