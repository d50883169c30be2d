//! The events of a whole workspace, as a list and as a stream.

use reqwest::{Method, Response};
use serde_json::{Value, json};

use crate::{
    people::{Somebody, invited, operator, owner},
    rig::{OTHER_KEY, PATIENCE, Rig, answer, wait_for},
};

/// An open stream.
struct Stream {
    response: Response,
    text: String,
}

impl Stream {
    async fn open(request: reqwest::RequestBuilder) -> Self {
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream; charset=utf-8");
        Self { response, text: String::new() }
    }

    /// Reads until the text contains something. `None` if the stream ends before.
    async fn until(&mut self, text: &str) -> Option<Vec<Value>> {
        while !self.text.contains(text) || !self.text.ends_with("\n\n") {
            let piece = tokio::time::timeout(PATIENCE, self.response.chunk()).await.expect(text);
            self.text.push_str(std::str::from_utf8(&piece.ok().flatten()?).unwrap());
        }
        let said = std::mem::take(&mut self.text);
        let data = said.lines().filter_map(|line| line.strip_prefix("data: "));
        Some(data.map(|data| serde_json::from_str(data).unwrap()).collect())
    }
}

fn kinds(events: &Value) -> Vec<&str> {
    events["events"].as_array().unwrap().iter().map(|event| event["kind"].as_str().unwrap()).collect()
}

async fn seen(rig: &Rig, somebody: &Somebody) -> Vec<String> {
    let (status, list) = somebody.get(rig, "/v1/events").await;
    assert_eq!(status, 200, "{list}");
    kinds(&list).into_iter().map(str::to_owned).collect()
}

#[tokio::test]
async fn a_workspace_hears_of_its_sandboxes_and_of_what_else_changes() {
    let rig = Rig::start().await;
    let mut stream = Stream::open(rig.call(Method::GET, "/v1/events?follow=true")).await;
    let ready = stream.until("event: ready").await.unwrap();
    assert!(ready[0]["cursor"].as_str().unwrap().ends_with("-0"), "{ready:?}");
    let id = rig.created().await;
    let running = stream.until("sandbox.ssh_ready").await.unwrap();
    assert_eq!((&running[0]["kind"], &running[0]["sandbox_id"]), (&json!("sandbox.running"), &json!(id)));
    assert_eq!((&running[0]["payload"]["status"], &running[0]["payload"]["boot_ms"]), (&json!("running"), &json!(12)));
    rig.post(&format!("/v1/sandboxes/{id}/pause")).await;
    assert_eq!(stream.until("sandbox.paused").await.unwrap()[0]["payload"]["status"], "paused");
    let volume = json!({"name": "data", "size_mb": 16});
    let request = rig.call(Method::POST, "/v1/volumes").header("x-request-id", "mine").json(&volume);
    assert_eq!(answer(request).await.0, 201);
    let changed = stream.until("volume.changed").await.unwrap();
    assert_eq!(changed[0]["payload"]["request_id"], "mine");
    let key = rig.send(Method::POST, "/v1/api-keys", json!({"label": "x"})).await;
    assert_eq!(key.0, 201);
    let text = stream.until("key.changed").await.unwrap()[0].to_string();
    assert!(!text.contains(key.1["token"].as_str().unwrap_or("pds_0000")), "{text}");
    rig.delete(&format!("/v1/sandboxes/{id}")).await;
    let gone = stream.until("sandbox.deleted").await.unwrap();
    assert_eq!(gone.last().unwrap()["payload"], json!({"reason": "request", "status": "deleted"}));
    let (_, list) = rig.get("/v1/events?limit=2").await;
    assert_eq!(kinds(&list), ["key.changed", "sandbox.deleted"]);
    assert_eq!(list["cursor"], gone.last().unwrap()["id"]);
    for refused in ["/v1/volumes", "/v1/webhooks"] {
        assert_eq!(rig.send(Method::POST, refused, json!({})).await.0, 400);
    }
    assert_eq!(rig.get("/v1/events?limit=1").await.1["cursor"], list["cursor"], "a refusal changes nothing");
}

#[tokio::test]
async fn nobody_hears_of_another_workspace() {
    let rig = Rig::start().await;
    rig.created().await;
    assert_eq!(rig.stranger(Method::GET, "/v1/events").await.1["events"], json!([]));
    let theirs = rig.http.get(format!("{}/v1/events?follow=1", rig.url)).bearer_auth(OTHER_KEY);
    let mut stream = Stream::open(theirs).await;
    // Not with the place of somebody else either.
    let (_, list) = rig.get("/v1/events").await;
    let place = format!("/v1/events?follow=1&since={}", list["cursor"].as_str().unwrap());
    let mut resumed = Stream::open(rig.http.get(format!("{}{place}", rig.url)).bearer_auth(OTHER_KEY)).await;
    assert!(resumed.until("event: reset").await.unwrap().len() == 2);
    let made = rig.stranger(Method::POST, "/v1/api-keys").await;
    assert_eq!(made.0, 201, "{}", made.1);
    for stream in [&mut stream, &mut resumed] {
        let heard = stream.until("key.changed").await.unwrap();
        assert!(heard.iter().all(|event| event.get("sandbox_id").is_none()), "{heard:?}");
    }
    assert_eq!(rig.http.get(format!("{}/v1/events", rig.url)).send().await.unwrap().status(), 401);
}

#[tokio::test]
async fn a_stream_continues_after_the_last_event_or_tells_that_it_cannot() {
    let rig = Rig::start().await;
    let id = rig.created().await;
    let (_, list) = rig.get("/v1/events").await;
    let first = list["events"][0]["id"].as_str().unwrap().to_owned();
    let cursor = list["cursor"].as_str().unwrap().to_owned();
    rig.post(&format!("/v1/sandboxes/{id}/pause")).await;
    let (_, after) = rig.get(&format!("/v1/events?since={cursor}")).await;
    assert_eq!(kinds(&after), ["sandbox.paused"]);
    let follow = |since: &str| rig.call(Method::GET, &format!("/v1/events?follow=1&since={since}"));
    let mut resumed = Stream::open(follow(&first)).await;
    let heard = resumed.until("sandbox.paused").await.unwrap();
    assert_eq!((&heard[0]["cursor"], &heard[1]["kind"]), (&json!(first), &json!("sandbox.ssh_ready")), "{heard:?}");
    // The header of a browser that connects again counts more than the address.
    let mut resumed = Stream::open(follow(&first).header("last-event-id", &cursor)).await;
    assert_eq!(resumed.until("sandbox.paused").await.unwrap()[1]["kind"], "sandbox.paused");
    for lost in ["x", "000000000000-0", &cursor.replace(|c: char| c.is_ascii_digit(), "9")] {
        let mut stream = Stream::open(follow(lost)).await;
        let heard = stream.until("event: reset").await.unwrap();
        let (_, now) = rig.get("/v1/events").await;
        assert_eq!(heard[1]["cursor"], now["cursor"], "{lost}");
    }
}

#[tokio::test]
async fn members_hear_what_they_may_see() {
    let rig = Rig::start().await;
    let root = operator(&rig).await;
    let bob = invited(&rig, &root, "bob@example.com", "member").await;
    let admin = invited(&rig, &root, "eve@example.com", "admin").await;
    assert!(seen(&rig, &bob).await.contains(&"member.changed".to_owned()));
    assert!(!seen(&rig, &bob).await.contains(&"invite.changed".to_owned()));
    for boss in [&root, &admin] {
        assert!(seen(&rig, boss).await.contains(&"invite.changed".to_owned()));
    }
    let (_, list) = rig.get("/v1/events").await;
    assert!(kinds(&list).is_empty(), "a key is no member: {list}");
    // What happens in another organisation of the same person stays there.
    let other = owner(&rig, &root, "panda").await;
    let before = seen(&rig, &root).await.len();
    let path = format!("/v1/orgs/{}", other.org);
    assert_eq!(other.send(&rig, Method::PATCH, &path, json!({"name": "Panda"})).await.0, 200);
    assert!(seen(&rig, &other).await.contains(&"org.changed".to_owned()));
    assert_eq!(seen(&rig, &root).await.len(), before);
}

#[tokio::test]
async fn a_stream_ends_with_its_credential() {
    let rig = Rig::start().await;
    let root = operator(&rig).await;
    let bob = invited(&rig, &root, "bob@example.com", "member").await;
    let open = |somebody: &Somebody| Stream::open(somebody.request(&rig, Method::GET, "/v1/events?follow=1"));
    let (mut of_root, mut of_bob) = (open(&root).await, open(&bob).await);
    of_root.until("ready").await.unwrap();
    of_bob.until("ready").await.unwrap();
    assert_eq!(root.delete(&rig, &format!("/v1/orgs/{}/members/{}", root.org, bob.id)).await.0, 204);
    assert!(of_bob.until("never").await.is_none(), "a removed member hears nothing more");
    of_root.until("member.changed").await.unwrap();
    assert_eq!(root.post(&rig, "/v1/auth/logout").await.0, 204);
    assert!(of_root.until("never").await.is_none(), "the login has ended");
    let (_, key) = rig.send(Method::POST, "/v1/api-keys", json!({})).await;
    let token = key["token"].as_str().unwrap();
    let request = rig.http.get(format!("{}/v1/events?follow=1", rig.url)).bearer_auth(token);
    let mut of_key = Stream::open(request).await;
    of_key.until("ready").await.unwrap();
    assert_eq!(rig.delete(&format!("/v1/api-keys/{}", key["id"].as_str().unwrap())).await, 204);
    assert!(of_key.until("never").await.is_none(), "the key is revoked");
}

#[tokio::test]
async fn followers_are_counted() {
    let rig = Rig::start_prepared(
        (tempfile::tempdir().unwrap(), std::sync::Arc::default(), std::sync::Arc::new(pandastack_kit::SystemClock)),
        |control| control.with_followers(1),
    )
    .await;
    let first = Stream::open(rig.call(Method::GET, "/v1/events?follow=1")).await;
    let (status, refused) = rig.get("/v1/events?follow=1").await;
    assert!(matches!(status, 429 | 503), "{status} {refused}");
    drop(first);
    let freed = || async { rig.call(Method::GET, "/v1/events?follow=1").send().await.unwrap().status() == 200 };
    wait_for("a free place", freed).await;
}
