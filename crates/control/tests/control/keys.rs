//! API keys: made, listed and revoked, separately for each workspace.

use std::time::Duration;

use pandastack_control::{BootstrapKey, Control};
use reqwest::Method;
use serde_json::{Value, json};

use crate::rig::{KEY, OTHER_KEY, PATIENCE, Rig, answer};

const KEYS: &str = "/v1/api-keys";

async fn made(rig: &Rig, body: Value) -> Value {
    let (status, key) = rig.send(Method::POST, KEYS, body).await;
    assert_eq!(status, 201, "{key}");
    key
}

async fn with(rig: &Rig, key: &str, method: Method, path: &str) -> (u16, Value) {
    answer(rig.http.request(method, format!("{}{path}", rig.url)).bearer_auth(key)).await
}

fn text(key: &Value, field: &str) -> String {
    key[field].as_str().unwrap_or_else(|| panic!("no {field} in {key}")).to_owned()
}

#[tokio::test]
async fn a_key_is_shown_once_and_listed_without_its_secret() {
    let rig = Rig::start().await;
    let key = made(&rig, json!({"name": "ci", "expires_in_days": 2})).await;
    let token = text(&key, "token");
    assert!(token.starts_with("pds_") && token.len() == 36 && token.starts_with(&text(&key, "prefix")), "{key}");
    let (status, listed) = with(&rig, &token, Method::GET, KEYS).await;
    assert_eq!(status, 200);
    let items = listed["items"].as_array().unwrap();
    assert_eq!((items.len(), &items[0]["label"], &items[0]["current"]), (2, &json!("ci"), &json!(true)), "{listed}");
    assert_eq!((&items[1]["created_by"], &items[1]["current"]), (&json!("operator"), &json!(false)));
    assert_eq!(items[0]["created_by"], items[1]["id"], "who made it");
    assert!(items[0]["expires_at"].is_string() && !listed.to_string().contains(&token[12..]), "{listed}");
    crate::rig::wait_for("a use is noted", async || {
        let (_, listed) = rig.get(KEYS).await;
        listed["items"][0]["last_used_at"].is_string()
    })
    .await;
    let kept = rig.stored().await;
    assert!(kept.windows(12).any(|bytes| bytes == &token.as_bytes()[..12]), "its prefix is kept");
    assert!(!kept.windows(token.len()).any(|bytes| bytes == token.as_bytes()), "only its hash is kept");
    assert_eq!(rig.get("/v1/me/tokens").await.0, 401, "that route is for people");
    for (body, code) in
        [(json!({"label": "x".repeat(101)}), "key.bad_label"), (json!({"expires_in_days": 0}), "key.bad_expiry")]
    {
        let (status, refused) = rig.send(Method::POST, KEYS, body).await;
        assert_eq!((status, &refused["code"]), (400, &json!(code)));
    }
}

#[tokio::test]
async fn a_revoked_key_is_refused_from_the_next_request_on() {
    let rig = Rig::start().await;
    let key = made(&rig, json!({})).await;
    let (token, id) = (text(&key, "token"), text(&key, "id"));
    // Puts the key into the cache, which keeps valid keys for half a minute.
    assert_eq!(with(&rig, &token, Method::GET, "/v1/me").await.0, 200);
    assert_eq!(rig.delete(&format!("{KEYS}/{id}")).await, 204);
    let (status, refused) = with(&rig, &token, Method::GET, "/v1/me").await;
    assert_eq!((status, &refused["error"]), (401, &json!("unauthorized")), "{refused}");
    assert!(refused["detail"].as_str().unwrap().contains("revoked"), "{refused}");
    assert_eq!(rig.delete(&format!("{KEYS}/{id}")).await, 404, "once is enough");
    // A key that revokes itself still gets its answer.
    let own = made(&rig, json!({})).await;
    let (token, prefix) = (text(&own, "token"), text(&own, "prefix"));
    assert_eq!(with(&rig, &token, Method::DELETE, &format!("{KEYS}/{prefix}")).await.0, 204);
    assert_eq!(with(&rig, &token, Method::GET, "/v1/me").await.0, 401);
    // The audit trail records all of it.
    crate::rig::wait_for("the trail", async || {
        let (_, trail) = rig.get("/v1/audit").await;
        let trail = trail.to_string();
        trail.contains("/v1/api-keys/{key}") && trail.contains("\"/v1/api-keys\"")
    })
    .await;
    // It stays revoked after a restart.
    let rig = rig.restart().await;
    assert_eq!(with(&rig, &token, Method::GET, "/v1/me").await.0, 401);
}

#[tokio::test]
async fn a_stream_ends_when_its_key_is_revoked() {
    let rig = Rig::start().await;
    let id = rig.created().await;
    let token = text(&made(&rig, json!({})).await, "token");
    let follow = |key: &str| {
        rig.http.get(format!("{}/v1/sandboxes/{id}/events?follow=1", rig.url)).bearer_auth(key.to_owned()).send()
    };
    let (mut theirs, mut ours) = (follow(&token).await.unwrap(), follow(KEY).await.unwrap());
    assert_eq!((theirs.status().as_u16(), ours.status().as_u16()), (200, 200));
    assert_eq!(rig.delete(&format!("{KEYS}/{}", &token[..12])).await, 204);
    let end = async { while let Ok(Some(_)) = theirs.chunk().await {} };
    tokio::time::timeout(PATIENCE, end).await.expect("the stream of a revoked key ends");
    // The stream of another key continues: it may be silent, but it does not end.
    let more = async { while let Ok(Some(_)) = ours.chunk().await {} };
    assert!(tokio::time::timeout(Duration::from_millis(200), more).await.is_err(), "only that key's streams end");
}

#[tokio::test]
async fn the_last_key_goes_by_force_only_and_an_operator_gets_in_again() {
    let rig = Rig::start().await;
    let (_, listed) = rig.get(KEYS).await;
    let id = text(&listed["items"][0], "id");
    let (status, refused) = answer(rig.call(Method::DELETE, &format!("{KEYS}/{id}"))).await;
    assert_eq!((status, &refused["code"]), (409, &json!("key.last")), "{refused}");
    assert_eq!(rig.get("/v1/me").await.0, 200);
    assert_eq!(rig.delete(&format!("{KEYS}/{id}?force=true")).await, 204);
    assert_eq!(rig.get("/v1/me").await.0, 401);
    // The given key stays revoked. Without it a start makes a new one. The operator can also make
    // one while the server runs.
    let again = rig.control.bootstrap(Some(KEY.into())).await.unwrap();
    assert!(matches!(again, BootstrapKey::Revoked { .. }));
    assert_eq!(rig.get("/v1/me").await.0, 401);
    let ask = pandastack_wire_public::KeySpec::default();
    let place = crate::backend::place(rig.folder.path()).await;
    let made = Control::make_key_offline(&place.database, &ask, 1).await.unwrap();
    assert_eq!(with(&rig, made.key.reveal(), Method::GET, "/v1/me").await.0, 200);
    assert_eq!(
        with(&rig, made.key.reveal(), Method::DELETE, &format!("{KEYS}/{}?force=1", made.stored.id)).await.0,
        204
    );
    assert!(matches!(rig.control.bootstrap(None).await.unwrap(), BootstrapKey::Made(_)));
}

#[tokio::test]
async fn keys_of_another_workspace_are_not_there() {
    let rig = Rig::start().await;
    let key = made(&rig, json!({"label": "mine"})).await;
    let (status, listed) = with(&rig, OTHER_KEY, Method::GET, KEYS).await;
    assert_eq!((status, listed["items"].as_array().unwrap().len()), (200, 1));
    assert!(!listed.to_string().contains(&text(&key, "prefix")), "{listed}");
    for name in [text(&key, "id"), text(&key, "prefix"), "key_none".into(), "%00".into()] {
        let (status, refused) = with(&rig, OTHER_KEY, Method::DELETE, &format!("{KEYS}/{name}?force=1")).await;
        assert_eq!((status, &refused["code"]), (404, &json!("key.not_found")), "{name}");
    }
    assert_eq!(with(&rig, &text(&key, "token"), Method::GET, "/v1/me").await.0, 200);
    assert_eq!(answer(rig.http.get(format!("{}{KEYS}", rig.url))).await.0, 401);
}

#[tokio::test]
async fn a_workspace_has_only_so_many_keys() {
    let rig = Rig::start().await;
    for _ in 1..pandastack_control::limits::KEYS_PER_WORKSPACE_MAX {
        made(&rig, json!({})).await;
    }
    let (status, refused) = rig.send(Method::POST, KEYS, json!({})).await;
    assert_eq!((status, &refused["code"]), (429, &json!("quota.keys")), "{refused}");
}
