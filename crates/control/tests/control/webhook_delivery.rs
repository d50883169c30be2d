//! Deliveries: their targets, retries until they are accepted, and crashes.

use std::collections::BTreeMap;
use std::time::Duration;

use pandastack_control::{AddressPolicy, TrustRoots, WebhookSettings};
use pandastack_database::query;
use pandastack_model::{Fault, FaultKind, SandboxState};
use pandastack_wire_fleet::{HostEvent, RemovedBy};
use reqwest::Method;
use serde_json::json;

use crate::{
    receiver::{Receiver, Reply, WebhookRig},
    rig::wait_for,
};

fn near() -> WebhookSettings {
    WebhookSettings { reach: AddressPolicy::Private, roots: TrustRoots::Host }
}

#[tokio::test]
async fn every_subscriber_is_told_what_it_asked_for_and_nothing_is_lost() {
    let told = WebhookRig::start().await;
    let (all, some) = (Receiver::start().await, Receiver::start().await);
    let (all_id, all_secret) = told.subscribe(&all.url, &["*"]).await;
    let (_, some_secret) = told.subscribe(&some.url, &["sandbox.hibernated", "vm.*"]).await;
    let id = told.rig.created().await;
    let path = format!("/v1/sandboxes/{id}");
    for verb in ["pause", "resume", "hibernate", "wake", "fork"] {
        assert!(told.rig.post(&format!("{path}/{verb}")).await.0 < 300, "{verb}");
    }
    let number = id.parse().unwrap();
    told.rig.host.events.send(HostEvent::Denied { id: number, target: "evil.example:443".into() }).unwrap();
    told.rig.host.events.send(HostEvent::Failed { id: number, reason: "out of memory".into() }).unwrap();
    wait_for("its death is known", || async { told.rig.get(&path).await.1["status"] == "failed" }).await;
    assert_eq!(told.rig.delete(&path).await, 204);

    let mut seen = all.wait(10).await;
    seen.sort_by_key(|one| one.json()["sequence"].as_u64());
    let kinds: Vec<_> = seen.iter().map(|one| one.kind()).collect();
    let life = ["running", "paused", "resumed", "hibernated", "woken"].map(|kind| format!("sandbox.{kind}"));
    assert_eq!(kinds[..5], life);
    let mut rest = kinds[5..].to_vec();
    rest.sort();
    assert_eq!(rest, ["egress.denied", "sandbox.deleted", "sandbox.forked", "sandbox.running", "vm.died"]);
    assert_eq!(kinds[9], "sandbox.deleted");
    for (at, one) in seen.iter().enumerate() {
        let event = one.json();
        assert_eq!(event["sequence"], json!(at + 1));
        assert_eq!((&event["id"], &event["workspace"]), (&json!(one.headers["webhook-id"]), &json!("default")));
        assert_eq!((&event["time"], &event["payload"]), (&event["ts"], &event["metadata"]));
        assert!(one.signed_by(&all_secret) && !one.signed_by(&some_secret));
        assert_eq!(one.headers["content-type"], "application/json");
    }
    assert_eq!(seen[0].json()["sandbox_id"], json!(id));
    let phases = json!({"prepare_ms": 7, "guest_ms": 5});
    let running = json!({"boot_ms": 12, "boot_mode": "snapshot-natid", "phases": phases, "isolation": "fake"});
    assert_eq!(seen[0].json()["payload"], running, "as in the sandbox's own list of events");
    assert_eq!(seen[9].json()["payload"], json!({"reason": "request"}));
    let mut kinds = {
        some.wait(2).await;
        some.kinds()
    };
    kinds.sort();
    assert_eq!(kinds, ["sandbox.hibernated", "vm.died"]);
    assert!(some.seen().iter().all(|one| one.signed_by(&some_secret)));
    assert_eq!(told.wait(&all_id, "delivered", 10).await[0]["type"], "sandbox.deleted", "newest first");
    assert_eq!(all.seen().len(), 10, "once each when nothing fails");
}

/// While one delivery ends, the next ones are listed. A delivery that was listed too early must not
/// be sent again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_in_quick_succession_are_told_once_each() {
    let told = WebhookRig::start().await;
    let receiver = Receiver::start().await;
    let (hook, _) = told.subscribe(&receiver.url, &["*"]).await;
    let path = format!("/v1/sandboxes/{}", told.rig.created().await);
    for _ in 0..20 {
        for verb in ["pause", "resume"] {
            assert_eq!(told.rig.post(&format!("{path}/{verb}")).await.0, 204);
        }
    }
    told.wait(&hook, "delivered", 41).await;
    let mut sequences: Vec<_> = receiver.seen().iter().map(|one| one.json()["sequence"].as_u64().unwrap()).collect();
    sequences.sort_unstable();
    assert_eq!(sequences, Vec::from_iter(1..=41));
}

#[tokio::test]
async fn a_failed_delivery_comes_again_later_and_later_until_it_is_dead() {
    let told = WebhookRig::start().await;
    let receiver = Receiver::start().await;
    let (id, secret) = told.subscribe(&receiver.url, &["sandbox.running"]).await;
    receiver.reply([Reply::Status(500), Reply::Status(500)]);
    told.rig.created().await;
    for (tries, pause) in [(1, 6), (2, 36)] {
        receiver.wait(tries).await;
        wait_for("the failure is known", || async {
            told.deliveries(&id, "failed")
                .await
                .first()
                .is_some_and(|one| one["attempts"].as_array().unwrap().len() == tries)
        })
        .await;
        assert_eq!(receiver.seen().len(), tries, "not before its time");
        told.clock.travel(Duration::from_secs(pause));
    }
    let done = told.wait(&id, "delivered", 1).await;
    let attempts = done[0]["attempts"].as_array().unwrap();
    let codes: Vec<_> = attempts.iter().map(|one| one["status"].as_u64().unwrap()).collect();
    assert_eq!(
        (codes, &attempts[0]["error"], &attempts[2].get("error")),
        (vec![500, 500, 200], &json!("answered 500"), &None)
    );
    assert_eq!(attempts[0]["answer"], "hello");
    let seen = receiver.seen();
    assert!(seen.iter().all(|one| one.signed_by(&secret) && one.body == seen[0].body));
    assert!(seen.iter().all(|one| one.headers["webhook-id"] == seen[0].headers["webhook-id"]));
    assert!(seen[2].headers["webhook-timestamp"] > seen[0].headers["webhook-timestamp"], "each try is signed anew");
    assert!(told.rig.get(&format!("/v1/webhooks/{id}")).await.1.get("failing_since").is_none());

    receiver.usually(Reply::Status(500));
    told.rig.created().await;
    for tries in 1..=7 {
        receiver.wait(3 + tries).await;
        if tries < 7 {
            wait_for("the failure is known", || async {
                told.deliveries(&id, "failed")
                    .await
                    .first()
                    .is_some_and(|one| one["attempts"].as_array().unwrap().len() == tries)
            })
            .await;
        }
        told.clock.travel(Duration::from_secs(8 * 3600));
    }
    let dead = told.wait(&id, "dead", 1).await;
    assert_eq!(dead[0]["attempts"].as_array().unwrap().len(), 7);
    let (_, letters) = told.rig.get("/v1/webhooks/dead-letters").await;
    assert_eq!(letters, json!(dead));
    assert!(told.rig.get(&format!("/v1/webhooks/{id}")).await.1["failing_since"].is_string());

    receiver.usually(Reply::Status(204));
    let delivery = dead[0]["id"].as_str().unwrap();
    let (status, replayed) = told.rig.post(&format!("/v1/webhooks/deliveries/{delivery}/replay")).await;
    assert_eq!((status, &replayed["id"]), (202, &dead[0]["id"]));
    told.wait(&id, "delivered", 2).await;
    assert_eq!(told.rig.get("/v1/webhooks/dead-letters").await.1, json!([]));
    let before = receiver.seen();
    let (status, _) = told.rig.post(&format!("/v1/webhooks/deliveries/{delivery}/replay")).await;
    assert_eq!(status, 202, "one that was taken can be had again too");
    let seen = receiver.wait(before.len() + 1).await;
    assert_eq!(seen.last().unwrap().headers["webhook-id"], dead[0]["event_id"].as_str().unwrap());
}

#[tokio::test]
async fn a_crash_loses_nothing() {
    let told = WebhookRig::start().await;
    let receiver = Receiver::start().await;
    let (id, _) = told.subscribe(&receiver.url, &["*"]).await;
    // The receiver accepts it, but the answer does not arrive before the crash.
    receiver.reply([Reply::Hang]);
    let (asleep, gone) = (told.rig.created().await, told.rig.created().await);
    receiver.wait(2).await;
    told.wait(&id, "delivered", 1).await;
    // A change by the host while the server stops, and a delete that is interrupted.
    told.rig.host.fail_next("remove", Fault::new(FaultKind::Unavailable, "host.lost", "agent unreachable"));
    told.rig.delete(&format!("/v1/sandboxes/{gone}")).await;
    let host = told.rig.host.clone();
    host.sandboxes.lock().unwrap().get_mut(&asleep.parse().unwrap()).unwrap().state = SandboxState::Asleep;
    let told = told.crash(near()).await;
    let seen = receiver.wait(5).await;
    assert_eq!(seen[2..].iter().filter(|one| one.body == seen[0].body || one.body == seen[1].body).count(), 1);
    // At least once: events are counted by their id.
    let kinds: BTreeMap<_, _> = seen[2..].iter().map(|one| (one.headers["webhook-id"].clone(), one.kind())).collect();
    let mut kinds: Vec<_> = kinds.into_values().collect();
    kinds.sort();
    assert_eq!(kinds, ["sandbox.deleted", "sandbox.hibernated", "sandbox.running"]);
    assert_eq!(told.wait(&id, "delivered", 4).await.len(), 4);
    let heard = receiver.seen().len();
    let told = told.crash(near()).await;
    assert_eq!(told.deliveries(&id, "delivered").await.len(), 4, "what was told is not told again");
    assert_eq!(receiver.seen().len(), heard);
}

#[tokio::test]
async fn removal_by_idleness_and_a_lost_machine_are_told() {
    let told = WebhookRig::start().await;
    let receiver = Receiver::start().await;
    told.subscribe(&receiver.url, &["sandbox.deleted", "vm.died"]).await;
    let (idle, lost) = (told.rig.created().await, told.rig.created().await);
    let id = idle.parse().unwrap();
    told.rig.host.sandboxes.lock().unwrap().remove(&id);
    told.rig.host.events.send(HostEvent::Removed { id, why: RemovedBy::Idleness, cause: None }).unwrap();
    let seen = receiver.wait(1).await;
    assert_eq!((&seen[0].json()["payload"], &seen[0].json()["sandbox_id"]), (&json!({"reason": "idle"}), &json!(idle)));
    told.rig.host.sandboxes.lock().unwrap().remove(&lost.parse().unwrap());
    let told = told.crash(near()).await;
    let seen = receiver.wait(2).await;
    assert_eq!((seen[1].kind().as_str(), &seen[1].json()["sandbox_id"]), ("vm.died", &json!(lost)));
    assert_eq!(told.rig.delete(&format!("/v1/sandboxes/{lost}")).await, 204);
    assert_eq!(receiver.wait(3).await[2].kind(), "sandbox.deleted");
}

#[tokio::test]
async fn a_slow_receiver_holds_up_nobody_else() {
    let told = WebhookRig::start().await;
    let (slow, quick) = (Receiver::start().await, Receiver::start().await);
    slow.usually(Reply::Hang);
    let (slow_id, _) = told.subscribe(&slow.url, &["*"]).await;
    told.subscribe(&quick.url, &["*"]).await;
    for _ in 0..12 {
        told.rig.created().await;
    }
    quick.wait(12).await;
    assert_eq!(slow.seen().len(), 4, "as many at once as may be");
    let pings = told.rig.post(&format!("/v1/webhooks/{slow_id}/ping")).await;
    assert_eq!((pings.0, &pings.1["code"]), (503, &json!("webhook.busy")));
    // After the timeout the tries fail. A failing receiver gets one delivery at a time.
    let first = async || told.deliveries(&slow_id, "failed").await;
    let deadline = tokio::time::Instant::now() + crate::rig::PATIENCE;
    while first().await.len() < 4 {
        assert!(tokio::time::Instant::now() < deadline, "the time of a try ends");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(first().await[0]["attempts"][0]["error"], "no response within 15s");
    wait_for("one more", || async { slow.seen().len() == 5 }).await;
    assert_eq!(told.rig.delete(&format!("/v1/webhooks/{slow_id}")).await, 204, "deleted while one is on its way");
}

#[tokio::test]
async fn receivers_that_behave_badly_are_told_apart() {
    let told = WebhookRig::start().await;
    let (bad, secret_place) = (Receiver::start().await, Receiver::start().await);
    let (id, _) = told.subscribe(&bad.url, &["*"]).await;
    let attempt = async |reply: Reply, status: &str| {
        let before = told.deliveries(&id, status).await.len();
        bad.reply([reply]);
        told.rig.created().await;
        told.wait(&id, status, before + 1).await[0]["attempts"][0].clone()
    };
    let huge = attempt(Reply::Endless, "delivered").await;
    assert_eq!((huge["status"].as_u64(), huge["answer"].as_str().unwrap().len()), (Some(200), 1024));
    let redirect = attempt(Reply::Redirect(secret_place.url.clone()), "failed").await;
    assert_eq!(redirect["status"], 302);
    assert!(redirect["error"].as_str().unwrap().contains("redirects are not followed"), "{redirect}");
    assert!(secret_place.seen().is_empty());
    let head = attempt(Reply::EndlessHead, "failed").await;
    assert!(head["error"].as_str().unwrap().starts_with("no valid HTTP response"), "{head}");
    let nonsense = attempt(Reply::Nonsense, "failed").await;
    assert!(nonsense["error"].as_str().unwrap().starts_with("no valid HTTP response"), "{nonsense}");

    let port = { std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port() };
    let (closed, _) = told.subscribe(&format!("http://127.0.0.1:{port}/"), &["*"]).await;
    told.rig.created().await;
    let refused = told.wait(&closed, "failed", 1).await[0]["attempts"][0].clone();
    assert!(refused["error"].as_str().unwrap().starts_with("connection failed"), "{refused}");
    let (nowhere, _) = told.subscribe("http://no-such-name.invalid/", &["*"]).await;
    let (_, pong) = told.rig.post(&format!("/v1/webhooks/{nowhere}/ping")).await;
    assert_eq!(pong["delivered"], json!(false), "{pong}");
}

#[tokio::test]
async fn a_receiver_that_wants_no_more_or_fails_for_days_is_switched_off() {
    let told = WebhookRig::start().await;
    let receiver = Receiver::start().await;
    let (id, _) = told.subscribe(&receiver.url, &["*"]).await;
    let path = format!("/v1/webhooks/{id}");
    receiver.reply([Reply::Status(410)]);
    told.rig.created().await;
    let dead = told.wait(&id, "dead", 1).await;
    let (_, hook) = told.rig.get(&path).await;
    assert_eq!(hook["enabled"], json!(false));
    assert!(hook["disabled_reason"].as_str().unwrap().contains("410"));
    let replay = format!("/v1/webhooks/deliveries/{}/replay", dead[0]["id"].as_str().unwrap());
    assert_eq!(told.rig.post(&replay).await.1["code"], "webhook.disabled");
    told.rig.created().await;
    assert_eq!(told.deliveries(&id, "").await.len(), 1, "nothing is queued for one that is off");

    let (_, hook) = told.rig.send(Method::PATCH, &path, json!({"enabled": true})).await;
    assert!(hook.get("disabled_reason").is_none() && hook.get("failing_since").is_none());
    assert_eq!(told.rig.post(&replay).await.0, 202);
    told.wait(&id, "delivered", 1).await;
    receiver.usually(Reply::Status(500));
    told.rig.created().await;
    told.wait(&id, "failed", 1).await;
    told.clock.travel(Duration::from_secs(73 * 3600));
    told.wait(&id, "dead", 1).await;
    let (_, hook) = told.rig.get(&path).await;
    assert_eq!(
        (&hook["enabled"], &hook["disabled_reason"]),
        (&json!(false), &json!("no delivery has succeeded for 3 days"))
    );
}

#[tokio::test]
async fn both_secrets_sign_until_the_old_one_ends() {
    let told = WebhookRig::start().await;
    let receiver = Receiver::start().await;
    let (id, old) = told.subscribe(&receiver.url, &["*"]).await;
    let rotate = format!("/v1/webhooks/{id}/rotate-secret");
    let (status, hook) = told.rig.send(Method::POST, &rotate, json!({"grace_seconds": 3600})).await;
    assert_eq!(status, 200);
    let new = hook["secret"].as_str().unwrap().to_owned();
    assert!(new != old && hook["old_secret_expires_at"].is_string());
    told.rig.created().await;
    let seen = receiver.wait(1).await;
    assert!(seen[0].signed_by(&old) && seen[0].signed_by(&new));
    told.clock.travel(Duration::from_secs(3601));
    told.rig.created().await;
    let seen = receiver.wait(2).await;
    assert!(!seen[1].signed_by(&old) && seen[1].signed_by(&new));
    let (_, hook) = told.rig.send(Method::POST, &rotate, json!({"grace_seconds": 0})).await;
    told.rig.created().await;
    let seen = receiver.wait(3).await;
    assert!(!seen[2].signed_by(&new) && seen[2].signed_by(hook["secret"].as_str().unwrap()), "at once, if asked");
}

#[tokio::test]
async fn what_a_guest_causes_cannot_crowd_out_the_rest() {
    let told = WebhookRig::start().await;
    let receiver = Receiver::start().await;
    receiver.usually(Reply::Hang);
    let id = told.rig.created().await;
    let (hook, _) = told.subscribe(&receiver.url, &["*"]).await;
    fill(&told, &hook).await;
    for n in 0..3 {
        let event = HostEvent::Denied { id: id.parse().unwrap(), target: format!("t{n}") };
        told.rig.host.events.send(event).unwrap();
    }
    let dropped = async || told.rig.get(&format!("/v1/webhooks/{hook}")).await.1["dropped"].as_u64().unwrap();
    wait_for("the surplus is counted", || async { dropped().await == 3 }).await;
    told.rig.post(&format!("/v1/sandboxes/{id}/hibernate")).await;
    let newest = async || told.deliveries(&hook, "").await[0]["type"].clone();
    wait_for("it is queued", || async { newest().await == "sandbox.hibernated" }).await;
    assert_eq!(dropped().await, 3);
}

/// Fills the outbox with denied attempts that are due far in the future.
async fn fill(told: &WebhookRig, hook: &str) {
    let database = told.rig.database().await;
    let sql = "WITH RECURSIVE n(x) AS (SELECT 100000000000 UNION ALL SELECT x + 1 FROM n WHERE x < 100000000999)
               INSERT INTO webhook_delivery (id, webhook, workspace, event_id, kind, sequence, body, status, tries,
                   next_at, created_at, attempts)
               SELECT 'dlv_00000000-0000-4000-8000-' || x, ?, 'default', 'evt_00000000-0000-4000-8000-' || x,
                   'egress.denied', 0, '{}', 'pending', 0, 9000000000000000000, 0, '[]' FROM n";
    query(sql).bind(hook).execute(&database).await.unwrap();
    database.close().await;
}

#[tokio::test]
async fn an_event_names_the_trace_of_its_request_and_a_replay_names_it_again() {
    let told = WebhookRig::start().await;
    let receiver = Receiver::start().await;
    let (hook, _) = told.subscribe(&receiver.url, &["*"]).await;
    let mine = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let traced = async |method, path: &str| {
        let request = told.rig.call(method, path).header("traceparent", mine).json(&json!({"template": "mini"}));
        let answer = request.send().await.unwrap();
        answer.headers()["traceparent"].to_str().unwrap().to_owned()
    };
    let created = traced(Method::POST, "/v1/sandboxes").await;
    let id = receiver.wait(1).await[0].json()["sandbox_id"].as_str().unwrap().to_owned();
    let slept = traced(Method::POST, &format!("/v1/sandboxes/{id}/hibernate")).await;
    receiver.wait(2).await;
    // No request caused this event.
    told.rig
        .host
        .events
        .send(HostEvent::Denied { id: id.parse().unwrap(), target: "evil.example:443".into() })
        .unwrap();
    receiver.wait(3).await;
    let deleted = traced(Method::DELETE, &format!("/v1/sandboxes/{id}")).await;
    let cause = |kind: &str| {
        let mut of_kind = receiver.seen().into_iter().filter(|one| one.kind() == kind);
        of_kind.next_back().unwrap().headers.get("traceparent").cloned()
    };
    receiver.wait(4).await;
    assert_eq!(cause("sandbox.running"), Some(created));
    assert_eq!(cause("sandbox.hibernated"), Some(slept));
    assert_eq!(cause("sandbox.deleted"), Some(deleted.clone()));
    assert_eq!(cause("egress.denied"), None);

    let list = async || told.rig.get(&format!("/v1/webhooks/{hook}/deliveries?status=delivered")).await.1;
    wait_for("what came of them is known", || async { list().await.as_array().unwrap().len() == 4 }).await;
    let last = list().await[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(told.rig.post(&format!("/v1/webhooks/deliveries/{last}/replay")).await.0, 202);
    receiver.wait(5).await;
    assert_eq!(cause("sandbox.deleted"), Some(deleted), "the trace of what happened, not of the replay");
    let pinged = traced(Method::POST, &format!("/v1/webhooks/{hook}/ping")).await;
    assert_eq!(cause("webhook.ping"), Some(pinged));
}
