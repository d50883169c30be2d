//! Section 2: users, tokens and organisations.

use std::{sync::Arc, time::Duration};

use pandastack_control::ControlSettings;
use pandastack_identity::provider::ProviderUser;
use pandastack_kit::Clock;
use pandastack_wire_fleet::stub::StubHost;
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    people::{Somebody, invited, operator, owner},
    receiver::Traveller,
    rig::{Rig, answer},
    sso::{CALLBACK, Sso},
};

const DAY: Duration = Duration::from_secs(24 * 3600);

async fn with_clock() -> (Rig, Arc<Traveller>) {
    let (clock, host) = (Arc::new(Traveller::default()), Arc::new(StubHost::default()));
    let folder = tempfile::tempdir().unwrap();
    (Rig::start_with(folder, host, ControlSettings::default(), clock.clone() as Arc<dyn Clock>).await, clock)
}

fn has(value: &Value, keys: &[&str]) {
    for key in keys {
        assert!(value.get(key).is_some(), "no {key} in {value}");
    }
}

fn failed((status, body): &(u16, Value), expected: u16, text: &str) {
    assert_eq!(*status, expected, "{body}");
    assert!(body["error"].as_str().unwrap().contains(text), "{body}");
}

async fn invite(rig: &Rig, host: &Somebody, body: Value) -> (u16, Value) {
    host.send(rig, Method::POST, &format!("/v1/orgs/{}/members", host.org), body).await
}

#[tokio::test]
async fn s2_get_me_shows_a_person_with_its_orgs() {
    let rig = Rig::start().await;
    let root = operator(&rig).await;
    let (status, me) = root.get(&rig, "/v1/me").await;
    assert_eq!(status, 200);
    has(&me, &["user_id", "email", "current_org", "orgs", "auth_method", "current_org_id", "workspace"]);
    has(&me["current_org"], &["id", "slug", "name", "owner_user_id", "role", "created_at"]);
    assert_eq!(answer(rig.http.get(format!("{}/v1/me", rig.url))).await.0, 401);
}

#[tokio::test]
async fn s2_get_me_with_an_api_key_is_200_and_stands_for_its_workspace() {
    let rig = Rig::start().await;
    let (status, me) = rig.get("/v1/me").await;
    assert_eq!((status, &me["user_id"], &me["email"]), (200, &json!("default"), &json!("")));
    assert_eq!((me.get("current_org"), &me["orgs"]), (Some(&Value::Null), &json!([])));
    assert_eq!(me["auth_method"], json!("token"));
}

#[tokio::test]
async fn s2_the_first_me_with_a_jwt_makes_a_personal_org_once() {
    let sso = Sso::start(CALLBACK).await;
    let user = |subject: &str, email: &str| ProviderUser {
        subject: subject.to_owned(),
        email: email.to_owned(),
        email_verified: true,
        name: "Somebody".to_owned(),
    };
    sso.provider.set_user(user("0123456789abcdef", "Ada.Lovelace@example.com"));
    let me = async |nonce: &str| {
        let token = sso.provider.issue(Some(nonce));
        answer(sso.rig.http.get(format!("{}/v1/me", sso.rig.url)).bearer_auth(token)).await.1
    };
    let (one, two) = tokio::join!(me("a"), me("b"));
    assert_eq!(one["current_org_id"], two["current_org_id"], "one, though two asked at once");
    let org = &one["current_org"];
    assert_eq!((&org["name"], &org["role"]), (&json!("ada.lovelace"), &json!("owner")), "{one}");
    let id = &one["user_id"].as_str().unwrap()[..8];
    assert_eq!(org["slug"], json!(format!("adalovelace-{id}")), "{one}");
    assert_eq!(me("c").await["orgs"].as_array().unwrap().len(), 1);
    sso.scope.close(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn s2_post_current_org_switches_and_refuses_strangers() {
    let rig = Rig::start().await;
    let root = operator(&rig).await;
    let other = owner(&rig, &root, "other-org").await;
    let (_, second) = root.send(&rig, Method::POST, "/v1/orgs", json!({"name": "Second"})).await;
    let choose = async |body: Value| root.send(&rig, Method::POST, "/v1/me/current-org", body).await;
    assert_eq!(choose(json!({"org_id": root.org})).await, (200, json!({"org_id": root.org})));
    assert_eq!(root.get(&rig, "/v1/me").await.1["current_org_id"], json!(root.org), "at once");
    assert_eq!(choose(json!({"org_id": second["id"]})).await.0, 200);
    assert_eq!(root.get(&rig, "/v1/me").await.1["current_org_id"], second["id"]);
    failed(&choose(json!({"org_id": other.org})).await, 403, "not a member of that org");
    let (status, body) = answer(root.request(&rig, Method::POST, "/v1/me/current-org").body("{")).await;
    failed(&(status, body), 400, "bad json");
}

#[tokio::test]
async fn s2_get_tokens_lists_newest_first_and_refuses_an_api_key() {
    let rig = Rig::start().await;
    let root = operator(&rig).await;
    for label in ["old", "new"] {
        assert_eq!(root.send(&rig, Method::POST, "/v1/me/tokens", json!({"label": label})).await.0, 200);
    }
    let (status, listed) = root.get(&rig, "/v1/me/tokens").await;
    let items = listed["items"].as_array().unwrap();
    assert_eq!((status, &items[0]["label"], &items[1]["label"]), (200, &json!("new"), &json!("old")), "{listed}");
    has(&items[0], &["prefix", "label", "created_at"]);
    assert!(items.iter().all(|item| item.get("token").is_none()), "a secret is shown once");
    let (status, refused) = rig.get("/v1/me/tokens").await;
    assert_eq!((status, &refused["detail"]), (401, &json!("jwt required")));
}

#[tokio::test]
async fn s2_post_tokens_takes_label_or_name_and_honours_its_expiry() {
    let (rig, clock) = with_clock().await;
    let root = operator(&rig).await;
    let made = async |body: Value| {
        let (status, key) = root.send(&rig, Method::POST, "/v1/me/tokens", body).await;
        assert_eq!(status, 200, "{key}");
        has(&key, &["token", "prefix", "created_at"]);
        key
    };
    assert_eq!(made(json!({"label": "a", "expires_in_days": null})).await["label"], json!("a"));
    assert_eq!(made(json!({"name": "b"})).await["label"], json!("b"), "the name that another client sends");
    assert_eq!(made(json!({})).await.get("label"), None);
    let short = made(json!({"label": "short", "expires_in_days": 1})).await;
    let me = || answer(rig.http.get(format!("{}/v1/me", rig.url)).bearer_auth(short["token"].as_str().unwrap()));
    assert_eq!(me().await.0, 200);
    clock.travel(DAY);
    assert_eq!(me().await.0, 401);
    assert_eq!(rig.post("/v1/me/tokens").await.0, 401, "keys do not make keys");
}

#[tokio::test]
async fn s2_delete_tokens_revokes_every_key_of_this_workspace_with_the_prefix() {
    let rig = Rig::start().await;
    let root = operator(&rig).await;
    let (_, key) = root.post(&rig, "/v1/me/tokens").await;
    let path = format!("/v1/me/tokens/{}", key["prefix"].as_str().unwrap());
    let stranger = owner(&rig, &root, "stranger").await;
    assert_eq!(stranger.delete(&rig, &path).await.0, 404, "a key of another workspace");
    assert_eq!(root.delete(&rig, &path).await, (204, Value::Null));
    let used = rig.http.get(format!("{}/v1/me", rig.url)).bearer_auth(key["token"].as_str().unwrap());
    assert_eq!(answer(used).await.0, 401);
    assert_eq!(root.delete(&rig, &path).await.0, 404);
}

#[tokio::test]
async fn s2_a_key_belongs_to_the_workspace_that_was_current_when_it_was_made() {
    let rig = Rig::start().await;
    let root = operator(&rig).await;
    assert_eq!(root.send(&rig, Method::POST, "/v1/orgs", json!({"name": "Second"})).await.0, 201);
    let (_, key) = root.post(&rig, "/v1/me/tokens").await;
    let choose = json!({"org_id": root.org});
    assert_eq!(root.send(&rig, Method::POST, "/v1/me/current-org", choose).await.0, 200);
    let me = rig.http.get(format!("{}/v1/me", rig.url)).bearer_auth(key["token"].as_str().unwrap());
    assert_eq!(answer(me).await.1["workspace"], json!("second"));
}

#[tokio::test]
async fn s2_get_orgs_lists_oldest_first() {
    let rig = Rig::start().await;
    let root = operator(&rig).await;
    for name in ["Second", "Third"] {
        assert_eq!(root.send(&rig, Method::POST, "/v1/orgs", json!({"name": name})).await.0, 201);
    }
    let (status, orgs) = root.get(&rig, "/v1/orgs").await;
    let slugs: Vec<_> = orgs.as_array().unwrap().iter().map(|org| org["slug"].as_str().unwrap()).collect();
    assert_eq!((status, slugs), (200, vec!["default", "second", "third"]));
    assert_eq!(rig.get("/v1/orgs").await.0, 401);
}

#[tokio::test]
async fn s2_post_orgs_needs_a_name_and_a_free_slug() {
    let rig = Rig::start().await;
    let root = operator(&rig).await;
    let make = async |body: Value| root.send(&rig, Method::POST, "/v1/orgs", body).await;
    let (status, org) = make(json!({"name": "Panda", "slug": "pandas"})).await;
    assert_eq!((status, &org["slug"], &org["role"]), (201, &json!("pandas"), &json!("owner")));
    failed(&make(json!({"name": " "})).await, 400, "name required");
    failed(&make(json!({})).await, 400, "name required");
    failed(&make(json!({"name": "x", "slug": "pandas"})).await, 409, "slug already taken");
}

#[tokio::test]
async fn s2_a_slug_is_made_of_the_name() {
    let rig = Rig::start().await;
    let root = operator(&rig).await;
    for (name, slug) in
        [("Panda Works", "panda-works"), ("  A__b--c  d ", "a-b-c-d"), ("Ünïcode! & Co.", "ncode-co"), ("-x-", "x")]
    {
        let (status, org) = root.send(&rig, Method::POST, "/v1/orgs", json!({"name": name})).await;
        assert_eq!((status, &org["slug"]), (201, &json!(slug)), "{name}: {org}");
    }
    let (_, org) = root.send(&rig, Method::POST, "/v1/orgs", json!({"name": "熊猫"})).await;
    let made = org["slug"].as_str().unwrap().strip_prefix("org-").unwrap();
    assert!(made.len() == 8 && made.bytes().all(|byte| byte.is_ascii_hexdigit()), "{org}");
}

#[tokio::test]
async fn s2_get_an_org_is_for_its_members() {
    let rig = Rig::start().await;
    let root = operator(&rig).await;
    let mine = owner(&rig, &root, "mine").await;
    let path = format!("/v1/orgs/{}", mine.org);
    assert_eq!(mine.get(&rig, &path).await.0, 200);
    failed(&root.get(&rig, &path).await, 404, "not found or not a member");
}

#[tokio::test]
async fn s2_get_members_lists_them_by_the_time_they_joined() {
    let rig = Rig::start().await;
    let root = operator(&rig).await;
    let mine = owner(&rig, &root, "mine").await;
    let member = invited(&rig, &mine, "a@example.com", "member").await;
    let path = format!("/v1/orgs/{}/members", mine.org);
    let (status, listed) = member.get(&rig, &path).await;
    assert_eq!((status, &listed[0]["user_id"], &listed[1]["user_id"]), (200, &json!(mine.id), &json!(member.id)));
    has(&listed[1], &["user_id", "email", "role", "joined_at"]);
    failed(&root.get(&rig, &path).await, 404, "not a member");
}

#[tokio::test]
async fn s2_post_members_invites_and_is_for_admins() {
    let rig = Rig::start().await;
    let root = operator(&rig).await;
    let mine = owner(&rig, &root, "mine").await;
    let member = invited(&rig, &mine, "member@example.com", "member").await;
    let (status, made) = invite(&rig, &mine, json!({"email": "New@Example.com"})).await;
    assert_eq!((status, &made["role"], &made["email"]), (201, &json!("member"), &json!("new@example.com")));
    has(&made, &["token", "org_id", "email", "role", "invited_by", "expires_at", "invite_url"]);
    for bad in [json!({}), json!({"email": "nonsense"}), json!({"email": "a@example.com", "role": "owner"})] {
        assert_eq!(invite(&rig, &mine, bad.clone()).await.0, 400, "{bad}");
    }
    let in_mine = Somebody { org: mine.org.clone(), ..member };
    failed(&invite(&rig, &in_mine, json!({"email": "a@example.com"})).await, 403, "role");
    let stranger = Somebody { org: mine.org.clone(), ..root };
    assert_eq!(invite(&rig, &stranger, json!({"email": "a@example.com"})).await.0, 404);
}

#[tokio::test]
async fn s2_delete_a_member_keeps_owners_and_admins_from_admins() {
    let rig = Rig::start().await;
    let root = operator(&rig).await;
    let mine = owner(&rig, &root, "mine").await;
    let admin = invited(&rig, &mine, "admin@example.com", "admin").await;
    let other = invited(&rig, &mine, "other@example.com", "admin").await;
    let member = invited(&rig, &mine, "member@example.com", "member").await;
    let path = |who: &Somebody| format!("/v1/orgs/{}/members/{}", mine.org, who.id);
    failed(&mine.delete(&rig, &path(&mine)).await, 400, "owner");
    assert_eq!(admin.delete(&rig, &path(&other)).await.0, 403);
    assert_eq!(admin.delete(&rig, &path(&mine)).await.0, 403);
    assert_eq!(admin.delete(&rig, &path(&member)).await, (204, Value::Null));
    assert_eq!(admin.delete(&rig, &path(&member)).await.0, 404);
    assert_eq!(member.get(&rig, &format!("/v1/orgs/{}", mine.org)).await.0, 404);
}

#[tokio::test]
async fn s2_an_invite_is_48_hex_for_7_days_once_with_a_link() {
    let (rig, clock) = with_clock().await;
    let root = operator(&rig).await;
    let (mine, guest) = (owner(&rig, &root, "mine").await, owner(&rig, &root, "guest").await);
    let (_, made) = invite(&rig, &mine, json!({"email": "GUEST@example.com", "role": "admin"})).await;
    let token = made["token"].as_str().unwrap();
    assert!(token.len() == 48 && token.bytes().all(|byte| byte.is_ascii_hexdigit()), "{made}");
    assert!(made["invite_url"].as_str().unwrap().ends_with(&format!("/invite/{token}")), "{made}");
    let accept = format!("/v1/orgs/invites/{token}/accept");
    clock.travel(DAY * 7 - Duration::from_secs(60));
    assert_eq!(guest.post(&rig, &accept).await, (200, json!({"org_id": mine.org, "role": "admin"})));
    assert_eq!(guest.post(&rig, &accept).await.0, 410, "once");
    let (_, late) = invite(&rig, &mine, json!({"email": "guest@example.com"})).await;
    clock.travel(DAY * 7);
    let path = format!("/v1/orgs/invites/{}/accept", late["token"].as_str().unwrap());
    assert_eq!(guest.post(&rig, &path).await.0, 410, "expired");
}

#[tokio::test]
async fn s2_accepting_an_invite_of_nobody_is_404_and_of_another_email_403() {
    let rig = Rig::start().await;
    let root = operator(&rig).await;
    let (mine, other) = (owner(&rig, &root, "mine").await, owner(&rig, &root, "third").await);
    let (_, made) = invite(&rig, &mine, json!({"email": "guest@example.com"})).await;
    let path = |token: &str| format!("/v1/orgs/invites/{token}/accept");
    assert_eq!(other.post(&rig, &path(&"0".repeat(48))).await.0, 404);
    assert_eq!(other.post(&rig, &path(made["token"].as_str().unwrap())).await.0, 403);
}

#[tokio::test]
async fn s2_a_caller_without_an_email_is_not_compared_with_the_invite() {
    let sso = Sso::start(CALLBACK).await;
    let root = operator(&sso.rig).await;
    let (_, made) = invite(&sso.rig, &root, json!({"email": "guest@example.com"})).await;
    let (now_s, issuer) = (sso.clock.now_ns() / 1_000_000_000, sso.provider.issuer());
    let claims = json!({"iss": issuer, "aud": "pandastack", "sub": "nameless", "iat": now_s, "exp": now_s + 600});
    let path = format!("{}/v1/orgs/invites/{}/accept", sso.rig.url, made["token"].as_str().unwrap());
    let (status, accepted) = answer(sso.rig.http.post(path).bearer_auth(sso.provider.sign(&claims))).await;
    assert_eq!((status, &accepted["org_id"]), (200, &json!(root.org)), "{accepted}");
    sso.scope.close(Duration::from_secs(5)).await;
}
