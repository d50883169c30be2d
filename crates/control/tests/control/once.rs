//! Idempotency keys: the work is done once and the answer repeated, even after a crash.

use std::sync::Arc;

use pandastack_database::{query, query_as, query_scalar};
use pandastack_model::{Fault, FaultKind};
use pandastack_wire_fleet::stub::StubHost;
use reqwest::{Method, Response};
use serde_json::{Value, json};

use crate::rig::{OTHER_KEY, PATIENCE, Rig, answer, hang_up_at_the_gate, wait_for};

async fn keyed(rig: &Rig, path: &str, key: &str, body: Value) -> Response {
    rig.call(Method::POST, path).header("Idempotency-Key", key).json(&body).send().await.unwrap()
}

async fn read(response: Response) -> (u16, bool, Value) {
    let (status, replayed) = (response.status().as_u16(), response.headers().get("idempotent-replayed").is_some());
    let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
    assert_eq!(kind, "application/json");
    (status, replayed, response.json().await.unwrap())
}

#[tokio::test]
async fn the_same_request_creates_once() {
    let rig = Rig::start().await;
    let body = json!({"template": "mini", "metadata": {"secret.k": "hidden"}});
    let (status, replayed, first) = read(keyed(&rig, "/v1/sandboxes", "k1", body.clone()).await).await;
    assert_eq!((status, replayed), (201, false));
    for _ in 0..3 {
        assert_eq!(read(keyed(&rig, "/v1/sandboxes", "k1", body.clone()).await).await, (201, true, first.clone()));
    }
    assert_eq!(rig.host.count(), 1);
    let (status, _, refused) = read(keyed(&rig, "/v1/sandboxes", "k1", json!({"template": "base"})).await).await;
    assert_eq!((status, &refused["code"]), (422, &json!("idempotency.other_request")));
    assert_eq!(read(keyed(&rig, "/v1/sandboxes", "k2", body.clone()).await).await.0, 201);
    let theirs =
        rig.http.post(format!("{}/v1/sandboxes", rig.url)).bearer_auth(OTHER_KEY).header("idempotency-key", "k1");
    let (status, other) = answer(theirs.json(&body)).await;
    assert_eq!((status, other["metadata"]["workspace"].as_str()), (201, Some("other")), "keys are a workspace's own");
    assert_eq!(rig.host.count(), 3);
    assert!(first.to_string().find("hidden").is_none());
}

#[tokio::test]
async fn every_creating_route_takes_a_key() {
    let rig = Rig::start().await;
    let id = rig.created().await;
    for (path, body) in [
        (format!("/v1/sandboxes/{id}/fork"), json!({"count": 2})),
        (format!("/v1/sandboxes/{id}/fork-tree"), json!({"count": 2})),
        (format!("/v1/sandboxes/{id}/snapshots"), json!({})),
        (format!("/v1/sandboxes/{id}/preview-token"), json!({"port": 3000})),
        ("/v1/volumes".to_owned(), json!({"name": "data"})),
        ("/v1/webhooks".to_owned(), json!({"url": "https://receiver.example/", "events": ["*"]})),
    ] {
        let (status, replayed, first) = read(keyed(&rig, &path, &path, body.clone()).await).await;
        assert!((200..300).contains(&status) && !replayed, "{path}: {status} {first}");
        assert_eq!(read(keyed(&rig, &path, &path, body).await).await, (status, true, first), "{path}");
    }
    assert_eq!(rig.host.count(), 5);
    assert_eq!(rig.get("/v1/webhooks").await.1.as_array().unwrap().len(), 1);
    // Routes that create nothing ignore the header.
    for _ in 0..2 {
        let path = format!("/v1/sandboxes/{id}/pause");
        assert_eq!(rig.call(Method::POST, &path).header("idempotency-key", "p").send().await.unwrap().status(), 204);
    }
}

#[tokio::test]
async fn a_key_under_way_is_a_conflict_and_outlives_who_hangs_up() {
    let rig = Rig::start().await;
    rig.host.gate.close();
    let request =
        rig.call(Method::POST, "/v1/sandboxes").header("idempotency-key", "k").json(&json!({"template": "mini"}));
    hang_up_at_the_gate(&rig, request).await;
    let (status, _, refused) = read(keyed(&rig, "/v1/sandboxes", "k", json!({"template": "mini"})).await).await;
    assert_eq!((status, &refused["code"]), (409, &json!("idempotency.in_flight")));
    rig.host.gate.let_through(1);
    wait_for("the first request's end", || async {
        keyed(&rig, "/v1/sandboxes", "k", json!({"template": "mini"})).await.status() == 201
    })
    .await;
    assert_eq!(rig.host.count(), 1);
}

#[tokio::test]
async fn a_refusal_frees_the_key_and_what_is_unclear_stays_so() {
    let rig = Rig::start().await;
    let body = json!({"template": "mini"});
    rig.host.fail_next("ensure", Fault::new(FaultKind::Busy, "host.full", "no compute capacity available"));
    assert_eq!(read(keyed(&rig, "/v1/sandboxes", "k", body.clone()).await).await.0, 503);
    assert_eq!(read(keyed(&rig, "/v1/sandboxes", "k", json!({"template": "nope"})).await).await.0, 400);
    let (status, replayed, _) = read(keyed(&rig, "/v1/sandboxes", "k", body.clone()).await).await;
    assert_eq!((status, replayed, rig.host.count()), (201, false, 1));
    rig.host.fail_next("ensure", Fault::bug("on fire"));
    for replayed in [false, true, true] {
        let (status, again, refused) = read(keyed(&rig, "/v1/sandboxes", "bad", body.clone()).await).await;
        assert_eq!((status, again, &refused["code"]), (500, replayed, &json!("internal")));
    }
    assert_eq!(rig.host.count(), 1);
    for bad in ["", " ", &"x".repeat(256)] {
        let (status, _, refused) = read(keyed(&rig, "/v1/sandboxes", bad, body.clone()).await).await;
        assert_eq!((status, &refused["code"]), (400, &json!("idempotency.bad_key")), "{bad:?}");
    }
    let nobody = rig.http.post(format!("{}/v1/sandboxes", rig.url)).header("idempotency-key", "k").json(&body);
    assert_eq!(answer(nobody).await.0, 401);
}

#[tokio::test]
async fn a_build_with_a_key_is_begun_once() {
    let rig = Rig::start().await;
    let build = async |key: &str, form: &'static str| {
        let request = rig.call(Method::POST, "/v1/templates/build").header("idempotency-key", key);
        read(request.header("content-type", "application/x-www-form-urlencoded").body(form).send().await.unwrap()).await
    };
    let (status, replayed, first) = build("k", "name=own&dockerfile=FROM+mini%0ARUN+true").await;
    assert_eq!((status, replayed), (202, false), "{first}");
    for _ in 0..2 {
        assert_eq!(build("k", "name=own&dockerfile=FROM+mini%0ARUN+true").await, (202, true, first.clone()));
    }
    let (status, _, refused) = build("k", "name=own&dockerfile=FROM+mini%0ARUN+false").await;
    assert_eq!((status, &refused["code"]), (422, &json!("idempotency.other_request")));
    // A refusal frees its key.
    assert_eq!(build("r", "name=x%2F&dockerfile=FROM+mini").await.0, 400);
    assert_eq!(build("r", "name=other&dockerfile=FROM+mini").await.0, 202);
    assert_eq!(build("", "name=third&dockerfile=FROM+mini").await.2["code"], "idempotency.bad_key");
    assert_eq!(rig.get("/v1/templates/builds").await.1.as_array().unwrap().len(), 2);
}

/// The server stops between the host's work and the answer, at every place where that can happen.
#[tokio::test]
async fn a_crash_in_the_middle_never_creates_twice() {
    let rig = Rig::start().await;
    let id = rig.created().await;
    let paths = [
        ("/v1/sandboxes".to_owned(), json!({"template": "mini"})),
        (format!("/v1/sandboxes/{id}/fork-tree"), json!({"count": 3})),
        (format!("/v1/sandboxes/{id}/snapshots"), json!({})),
        ("/v1/volumes".to_owned(), json!({"name": "data"})),
    ];
    for (path, body) in &paths {
        assert!(keyed(&rig, path, path, body.clone()).await.status().is_success());
    }
    let (sandboxes, layers, disks) = counts(&rig.host);
    // As after a crash: everything is made, and no answer is recorded.
    rig.scope.close(PATIENCE).await;
    rig.control.close().await;
    let made = forget_answers(&rig).await;
    assert_eq!(made.len(), 4);
    let rig = Rig::start_in(rig.folder, rig.host).await;
    assert_eq!(counts(&rig.host), (1, layers - 1, 0), "what nobody was told of is gone");
    for (path, body) in &paths {
        let (status, replayed, _) = read(keyed(&rig, path, path, body.clone()).await).await;
        assert!((200..300).contains(&status) && !replayed, "{path}");
        assert!(read(keyed(&rig, path, path, body.clone()).await).await.1, "{path}");
    }
    // The host collects the layer between a parent and its children. This stub never does.
    assert_eq!(counts(&rig.host), (sandboxes, layers + 1, disks));
    let rig = rig.restart_control().await;
    for (path, body) in &paths {
        assert!(read(keyed(&rig, path, path, body.clone()).await).await.1, "{path} is remembered through a restart");
    }
}

#[tokio::test]
async fn after_a_crash_a_webhook_is_taken_back_and_what_is_in_a_guest_is_not_made_twice() {
    let body = json!({"url": "https://receiver.example/", "events": ["*"]});
    for (kind, status, code) in [("webhook", 201, Value::Null), ("in_guest", 409, json!("idempotency.answer_lost"))] {
        let rig = Rig::start().await;
        let (_, _, first) = read(keyed(&rig, "/v1/webhooks", "k", body.clone()).await).await;
        rig.scope.close(PATIENCE).await;
        rig.control.close().await;
        let made = [(kind, first["id"].as_str().unwrap().to_owned())];
        unanswer(&rig, "k", &made).await;
        let rig = Rig::start_in(rig.folder, rig.host).await;
        let left = rig.get("/v1/webhooks").await.1.as_array().unwrap().len();
        assert_eq!(left, usize::from(kind == "in_guest"), "{kind}");
        for again in [false, true] {
            let (got, replayed, said) = read(keyed(&rig, "/v1/webhooks", "k", body.clone()).await).await;
            assert_eq!((got, &said["code"]), (status, &code), "{kind}: {said}");
            assert_eq!(replayed, again && kind == "webhook", "{kind}");
        }
        assert_eq!(rig.get("/v1/webhooks").await.1.as_array().unwrap().len(), 1, "{kind}");
    }
}

#[tokio::test]
async fn a_request_that_another_server_has_taken_over_is_not_answered() {
    let rig = Rig::start().await;
    let database = rig.database().await;
    let body = json!({"template": "mini"});
    // Once a request that fails, and once one that succeeds.
    for late in [false, true] {
        rig.host.gate.close();
        let key = if late { "late" } else { "early" };
        let taken = async {
            wait_for("the request is begun", || async {
                let sql = "SELECT COUNT(*) FROM attempt_made WHERE key = ?";
                query_scalar::<i64>(sql).bind(key).fetch_one(&database).await.unwrap() == 1
            })
            .await;
            let done = query("UPDATE attempt SET server = 'another' WHERE key = ?").bind(key).execute(&database).await;
            assert_eq!(done.unwrap(), 1);
            if !late {
                rig.host.fail_next("ensure", Fault::new(FaultKind::Busy, "host.full", "no compute capacity available"));
            }
            rig.host.gate.let_through(1);
        };
        let (answered, ()) = tokio::join!(keyed(&rig, "/v1/sandboxes", key, body.clone()), taken);
        let (status, _, said) = read(answered).await;
        match late {
            true => assert_eq!((status, &said["code"]), (409, &json!("idempotency.answer_lost")), "{said}"),
            false => assert_eq!((status, &said["code"]), (503, &json!("host.full")), "{said}"),
        }
        let (status, _, said) = read(keyed(&rig, "/v1/sandboxes", key, body.clone()).await).await;
        assert_eq!((status, &said["code"]), (409, &json!("idempotency.in_flight")), "it is the other server's: {said}");
    }
    database.close().await;
}

#[tokio::test]
async fn a_request_of_an_earlier_version_is_taken_back_at_the_next_start() {
    let rig = Rig::start().await;
    let body = json!({"url": "https://receiver.example/", "events": ["*"]});
    let (_, _, first) = read(keyed(&rig, "/v1/webhooks", "k", body.clone()).await).await;
    unanswer(&rig, "k", &[("webhook", first["id"].as_str().unwrap().to_owned())]).await;
    let database = rig.database().await;
    query("UPDATE attempt SET server = ''").execute(&database).await.unwrap();
    database.close().await;
    for _ in 0..4 {
        rig.control.finish_for_ended().await.unwrap();
    }
    assert_eq!(read(keyed(&rig, "/v1/webhooks", "k", body.clone()).await).await.0, 409, "its server may run");
    let rig = rig.restart_control().await;
    let (status, replayed, again) = read(keyed(&rig, "/v1/webhooks", "k", body).await).await;
    assert_eq!((status, replayed), (201, false), "{again}");
    assert_eq!(rig.get("/v1/webhooks").await.1.as_array().unwrap().len(), 1);
}

/// Deletes the recorded answers and restores the notes that one request had written before.
async fn unanswer(rig: &Rig, key: &str, made: &[(&str, String)]) {
    let database = rig.database().await;
    for (kind, id) in made {
        let sql = "INSERT INTO attempt_made VALUES ('default', ?, ?, ?)";
        query(sql).bind(key).bind(*kind).bind(id).execute(&database).await.unwrap();
    }
    query("UPDATE attempt SET status = NULL, answer = NULL").execute(&database).await.unwrap();
    database.close().await;
}

fn counts(host: &Arc<StubHost>) -> (usize, usize, usize) {
    (host.count(), host.layers.lock().unwrap().len(), host.volumes.lock().unwrap().len())
}

/// Deletes the recorded answers and restores the notes that each request wrote before its work.
async fn forget_answers(rig: &Rig) -> Vec<String> {
    let database = rig.database().await;
    let answers: Vec<(String, Vec<u8>)> =
        query_as("SELECT key, answer FROM attempt").fetch_all(&database).await.unwrap();
    for (key, answer) in &answers {
        let answer: Value = serde_json::from_slice(answer).unwrap();
        let made: Vec<(&str, String)> = if key == "/v1/sandboxes" {
            vec![("sandbox", answer["id"].as_str().unwrap().to_owned())]
        } else if key.ends_with("fork-tree") {
            let ids = answer["children"].as_array().unwrap().iter();
            ids.map(|child| ("sandbox", child["id"].as_str().unwrap().to_owned())).collect()
        } else if key.ends_with("snapshots") {
            vec![("snapshot", format!("lyr_{}", answer["id"].as_str().unwrap()))]
        } else {
            let id: String = query_scalar("SELECT id FROM volume").fetch_one(&database).await.unwrap();
            vec![("volume", id)]
        };
        for (kind, id) in made {
            let sql = "INSERT INTO attempt_made VALUES ('default', ?, ?, ?)";
            query(sql).bind(key).bind(kind).bind(id).execute(&database).await.unwrap();
        }
    }
    query("UPDATE attempt SET status = NULL, answer = NULL").execute(&database).await.unwrap();
    database.close().await;
    answers.into_iter().map(|(key, _)| key).collect()
}
