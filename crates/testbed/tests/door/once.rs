//! Idempotency keys on resources made in a guest.

use reqwest::Method;
use serde_json::{Value, json};

use crate::rig::{Door, answer, with_door};

async fn keyed(door: &Door<'_>, path: &str, key: &str) -> (u16, bool, Value) {
    // Each route reads only its own field.
    let body = json!({"language": "python", "cmd": "sleep 1000"});
    let request = door.call(Method::POST, path).header("idempotency-key", key).json(&body);
    let response = request.send().await.unwrap();
    let replayed = response.headers().get("idempotent-replayed").is_some();
    assert!(response.headers().get("x-request-id").is_some());
    (response.status().as_u16(), replayed, response.json().await.unwrap())
}

#[tokio::test]
async fn a_code_session_is_opened_once_for_a_key() {
    with_door(async |door| {
        let id = door.sandbox().await;
        let path = format!("/v1/sandboxes/{id}/repl/sessions");
        let (status, replayed, first) = keyed(door, &path, "k").await;
        assert_eq!((status, replayed), (201, false), "{first}");
        assert_eq!(keyed(door, &path, "k").await, (201, true, first.clone()));
        let (status, replayed, second) = keyed(door, &path, "other").await;
        assert!(status == 201 && !replayed && second["id"] != first["id"], "{second}");
    })
    .await;
}

#[tokio::test]
async fn a_process_is_started_once_for_a_key_and_a_refusal_frees_it() {
    with_door(async |door| {
        let id = door.sandbox().await;
        let path = format!("/v1/sandboxes/{id}/processes");
        let (status, replayed, first) = keyed(door, &path, "k").await;
        assert_eq!((status, replayed), (201, false), "{first}");
        assert_eq!(keyed(door, &path, "k").await, (201, true, first));
        let (_, all) = door.get(&path).await;
        assert_eq!(all.as_array().map(Vec::len), Some(1), "{all}");
        for _ in 0..2 {
            let request = door.call(Method::POST, &path).header("idempotency-key", "p").json(&json!({"cmd": "none"}));
            let (status, refused) = answer(request).await;
            assert!(status >= 400 && refused["code"] != "idempotency.in_flight", "{status} {refused}");
        }
    })
    .await;
}
