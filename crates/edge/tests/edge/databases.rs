//! SQL over HTTP: what strangers and the callers of one database can take from others. The broker
//! itself is tested in its own room.

use pandastack_model::{Fault, FaultKind, SandboxId, SandboxState};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt, sync::mpsc};

use crate::{
    guest::{begin, say},
    rig::{Rig, answer, within},
};

/// What a server says that asks for no password.
const WELCOME: &[u8] = b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I";
/// The places of one database: for calls with its token, and for health checks.
const CALLS: usize = 32;
const HEALTH_CALLS: usize = 16;

fn health(rig: &Rig) -> RequestBuilder {
    rig.http.get(format!("{}/v1/databases/{}/proxy/v1/health", rig.url, rig.id))
}

/// A call that is answered with 400 before it reaches the database.
fn query(rig: &Rig, database: SandboxId, token: &str) -> RequestBuilder {
    let url = format!("{}/v1/databases/{database}/proxy/v1/query", rig.url);
    rig.http.request(Method::POST, url).bearer_auth(token).json(&json!({}))
}

/// Sends the same call until the answer has the status.
async fn until(status: u16, call: impl Fn() -> RequestBuilder) -> Value {
    let asked = async {
        loop {
            let (answered, body) = answer(call()).await;
            if answered == status {
                return body;
            }
        }
    };
    within("the status", asked).await
}

#[tokio::test]
async fn strangers_who_ask_for_health_share_one_look_and_take_no_place_of_a_query() {
    let mut rig = Rig::start().await;
    let (answered, mut answers) = mpsc::unbounded_channel();
    for _ in 0..HEALTH_CALLS + 4 {
        let (call, answered) = (health(&rig), answered.clone());
        rig.scope.start("a stranger", async move { answered.send(answer(call).await).unwrap() });
    }
    let mut looked_at = rig.connected().await;
    for _ in 0..4 {
        let (status, refused) = within("a refusal", answers.recv()).await.unwrap();
        assert_eq!((status, &refused["code"]), (429, &json!("quota.connections")), "{refused}");
    }
    assert_eq!(answer(query(&rig, rig.id, "pds_pg_right")).await.0, 400);
    looked_at.stream.write_all(WELCOME).await.unwrap();
    for _ in 0..HEALTH_CALLS {
        let (status, health) = within("an answer", answers.recv()).await.unwrap();
        assert_eq!((status, &health["status"]), (200, &json!("ok")), "{health}");
    }
    assert!(rig.ports.try_recv().is_err(), "there was a second look");
}

#[tokio::test]
async fn a_health_check_does_not_wake_a_database_and_starts_no_server() {
    let mut rig = Rig::start().await;
    rig.host.change(rig.id, |view| view.state = SandboxState::Asleep);
    let (status, asleep) = answer(health(&rig)).await;
    assert_eq!((status, &asleep["status"], &asleep["postgres"]), (503, &json!("degraded"), &json!("unavailable")));
    assert_eq!(rig.host.state(&rig.id.to_string()), SandboxState::Asleep);
    assert!(rig.ports.try_recv().is_err());

    let mut rig = Rig::start().await;
    // Only the first time: if the server was started, the next connection is accepted.
    rig.host.fail_next("connect", Fault::new(FaultKind::Conflict, "port.not_listening", "nobody listens"));
    assert_eq!(answer(health(&rig)).await.0, 503);
    assert!(rig.ports.try_recv().is_err());
    let other = rig.http.get(rig.url.clone() + &format!("/v1/databases/{}/proxy/v1/health", SandboxId::random()));
    assert_eq!(answer(other).await.0, 404);
}

#[tokio::test]
async fn calls_of_one_database_leave_room_for_another() {
    let rig = Rig::start().await;
    let other = SandboxId::random();
    let other_token = format!("pds_pg_{other}");
    let mut slow = Vec::new();
    for _ in 0..CALLS {
        let mut client = rig.raw().await;
        let head = format!(
            "POST /v1/databases/{}/proxy/v1/query HTTP/1.1\r\nhost: x\r\nauthorization: Bearer pds_pg_right\r\n\
             content-length: 9\r\n\r\n",
            rig.id
        );
        say(&mut client, &head).await;
        slow.push(client);
    }
    let refused = until(429, || query(&rig, rig.id, "pds_pg_right")).await;
    assert_eq!(refused["code"], "quota.connections");
    assert!(refused["error"].as_str().unwrap().starts_with(&format!("database {}: 32 requests", rig.id)), "{refused}");
    assert_eq!(answer(query(&rig, other, &other_token)).await.0, 400);
    assert_eq!(answer(query(&rig, rig.id, "pds_pg_wrong")).await.0, 401);
    drop(slow);
    until(400, || query(&rig, rig.id, "pds_pg_right")).await;
}

#[tokio::test]
async fn wrong_tokens_are_refused_unseen_but_the_right_one_is_not() {
    let rig = Rig::start().await;
    assert_eq!(answer(query(&rig, rig.id, "pds_pg_right")).await.0, 400);
    assert_eq!(answer(query(&rig, rig.id, "pds_pg_wrong")).await.1["code"], "database.bad_token");
    // Many at once, because a few are allowed again in every second.
    let attacker = begin(&rig.scope, {
        let call = query(&rig, rig.id, "pds_pg_wrong");
        async move {
            loop {
                answer(call.try_clone().unwrap()).await;
            }
        }
    });
    assert_eq!(until(429, || query(&rig, rig.id, "pds_pg_wrong")).await["code"], "rate.limited");
    for _ in 0..20 {
        assert_eq!(answer(query(&rig, rig.id, "pds_pg_right")).await.0, 400);
    }
    let other = SandboxId::random();
    assert_eq!(answer(query(&rig, other, &format!("pds_pg_{other}"))).await.0, 400);
    drop(attacker);
}

#[tokio::test]
async fn many_databases_of_a_workspace_leave_room_for_another_one() {
    let rig = Rig::start().await;
    let mut slow = Vec::new();
    // All of them belong to one workspace. Each may have 32 calls.
    let databases: Vec<_> = (0..8).map(|_| SandboxId::random()).collect();
    for at in 0..192 {
        let (mut client, database) = (rig.raw().await, databases[at % databases.len()]);
        let head = format!(
            "POST /v1/databases/{database}/proxy/v1/query HTTP/1.1\r\nhost: x\r\n\
             authorization: Bearer pds_pg_{database}\r\ncontent-length: 9\r\n\r\n"
        );
        say(&mut client, &head).await;
        slow.push(client);
    }
    let next = SandboxId::random();
    let refused = until(429, || query(&rig, next, &format!("pds_pg_{next}"))).await;
    assert_eq!(refused["code"], "quota.queries");
    assert!(refused["error"].as_str().unwrap().contains("running queries"), "{refused}");
    assert_eq!(answer(query(&rig, rig.id, "pds_pg_right")).await.0, 400);
    drop(slow);
    until(400, || query(&rig, next, &format!("pds_pg_{next}"))).await;
}
