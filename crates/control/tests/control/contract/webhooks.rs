//! Section 10 of the contract: webhooks from Stripe, and ours to receivers.

use std::time::Duration;

use pandastack_wire_fleet::HostEvent;
use reqwest::Method;
use serde_json::json;

use super::billing::Shop;
use crate::{
    receiver::{Receiver, Reply, WebhookRig},
    rig::{Rig, wait_for},
};

async fn listed(rig: &Rig, id: &str) -> Vec<String> {
    let (_, list) = rig.get(&format!("/v1/sandboxes/{id}/events")).await;
    list["events"].as_array().unwrap().iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn stripe_posts_to_v1_webhooks_stripe_without_a_key_and_its_signature_counts() {
    let shop = Shop::open().await;
    assert_eq!(shop.bill().await["plan"], json!("free"));
    assert_eq!(shop.tell("evt_1", "active").await, 200);
    assert_eq!(shop.bill().await["plan"], json!("pro"));
    let forged = shop.stripe.event("evt_2", "customer.subscription.deleted", json!({"id": "sub_1"}));
    let unsigned = shop.rig.http.post(format!("{}/v1/webhooks/stripe", shop.rig.url)).body(forged);
    assert_eq!(unsigned.send().await.unwrap().status().as_u16(), 400);
    assert_eq!(shop.bill().await["plan"], json!("pro"));
}

#[tokio::test]
async fn stripe_events_are_deduped_by_event_id() {
    let shop = Shop::open().await;
    assert_eq!(shop.tell("evt_1", "active").await, 200);
    // Of two events in one second nobody knows which one is newer.
    shop.clock.pass(1);
    assert_eq!(shop.tell("evt_1", "canceled").await, 200);
    assert_eq!(shop.bill().await["plan"], json!("pro"), "the second one with this id changes nothing");
    shop.clock.pass(1);
    assert_eq!(shop.tell("evt_2", "canceled").await, 200);
    assert_eq!(shop.bill().await["plan"], json!("free"));
}

#[tokio::test]
async fn outbound_webhooks_subscribe_to_lifecycle_and_hibernation_events() {
    let told = WebhookRig::start().await;
    let receiver = Receiver::start().await;
    told.subscribe(&receiver.url, &["sandbox.running", "sandbox.hibernated"]).await;
    let id = told.rig.created().await;
    assert_eq!(told.rig.post(&format!("/v1/sandboxes/{id}/hibernate")).await.0, 200);
    let seen = receiver.wait(2).await;
    // Two deliveries may overtake each other.
    let mut kinds = receiver.kinds();
    kinds.sort();
    assert_eq!(kinds, ["sandbox.hibernated", "sandbox.running"]);
    assert!(seen.iter().all(|one| one.json()["sandbox_id"] == json!(id)));
}

#[tokio::test]
async fn a_delivery_is_a_post_signed_with_hmac_sha256_over_timestamp_and_body() {
    let told = WebhookRig::start().await;
    let receiver = Receiver::start().await;
    let (_, secret) = told.subscribe(&receiver.url, &["*"]).await;
    told.rig.created().await;
    let seen = receiver.wait(1).await.remove(0);
    assert!(seen.path.starts_with("POST ") && seen.signed_by(&secret), "{seen:?}");
    let mut body = seen.clone();
    body.body = body.body.replace("running", "deleted");
    let mut time = seen.clone();
    time.headers.insert("webhook-timestamp".into(), "1".into());
    assert!(!body.signed_by(&secret) && !time.signed_by(&secret));
}

#[tokio::test]
async fn delivery_is_at_least_once_with_backoff() {
    let told = WebhookRig::start().await;
    let receiver = Receiver::start().await;
    let (id, _) = told.subscribe(&receiver.url, &["*"]).await;
    receiver.reply([Reply::Status(500), Reply::Status(500)]);
    told.rig.created().await;
    // Each pause is longer than the one before.
    for (tries, pause) in [(1, 6), (2, 36)] {
        receiver.wait(tries).await;
        wait_for("the failure is known", || async {
            let failed = told.deliveries(&id, "failed").await;
            failed.first().is_some_and(|one| one["attempts"].as_array().unwrap().len() == tries)
        })
        .await;
        assert_eq!(receiver.seen().len(), tries, "not before its time");
        told.clock.travel(Duration::from_secs(pause));
    }
    told.wait(&id, "delivered", 1).await;
    let seen = receiver.seen();
    assert_eq!(seen.len(), 3);
    assert!(seen.iter().all(|one| one.headers["webhook-id"] == seen[0].headers["webhook-id"]));
    assert!(seen.iter().all(|one| one.body == seen[0].body));
}

#[tokio::test]
async fn event_names_of_deliveries_are_those_of_the_lifecycle_catalogue() {
    let told = WebhookRig::start().await;
    let receiver = Receiver::start().await;
    told.subscribe(&receiver.url, &["sandbox.*", "vm.died", "fork_tree.*"]).await;
    let id = told.rig.created().await;
    for verb in ["pause", "resume", "hibernate", "wake", "fork"] {
        assert!(told.rig.post(&format!("/v1/sandboxes/{id}/{verb}")).await.0 < 300, "{verb}");
    }
    let died = HostEvent::Failed { id: id.parse().unwrap(), reason: "out of memory".into() };
    told.rig.host.events.send(died).unwrap();
    let path = format!("/v1/sandboxes/{id}");
    wait_for("its death is known", || async { told.rig.get(&path).await.1["status"] == "failed" }).await;
    assert_eq!(told.rig.delete(&path).await, 204);
    receiver.wait(9).await;
    let mut kinds = receiver.kinds();
    kinds.sort();
    kinds.dedup();
    let names = ["deleted", "forked", "hibernated", "paused", "resumed", "running", "woken"];
    let expected: Vec<_> = names.map(|name| format!("sandbox.{name}")).into_iter().chain(["vm.died".into()]).collect();
    assert_eq!(kinds, expected);
}

#[tokio::test]
async fn ssh_ready_fork_fork_tree_and_recover_events_have_the_names_of_the_catalogue() {
    let rig = Rig::start().await;
    let id = rig.created().await;
    assert_eq!(rig.post(&format!("/v1/sandboxes/{id}/fork")).await.0, 201);
    let (status, tree) = rig.send(Method::POST, &format!("/v1/sandboxes/{id}/fork-tree"), json!({"count": 2})).await;
    assert_eq!(status, 201, "{tree}");
    let told = listed(&rig, &id).await;
    for kind in ["sandbox.ssh_ready", "fork.staged", "fork.completed", "fork_tree.completed"] {
        assert!(told.iter().any(|one| one == kind), "{kind} is not in {told:?}");
    }
    rig.post(&format!("/v1/sandboxes/{id}/hibernate")).await;
    let rig = rig.restart_control().await;
    assert_eq!(listed(&rig, &id).await, ["recover.hibernated"]);
}
