//! Accounts with passwords: set-up, logins, sessions, changes and resets.

use std::time::Duration;

use pandastack_control::Accounts;
use reqwest::Method;
use serde_json::json;

use crate::{
    backend,
    people::{PASSWORD, Somebody, invited, known, log_in, operator, send},
    rig::{OTHER_KEY, PATIENCE, Rig, answer, wait_for},
};

#[tokio::test]
async fn the_first_account_is_made_with_the_operators_key_and_only_once() {
    let rig = Rig::start().await;
    let url = format!("{}/v1/auth", rig.url);
    let (_, methods) = answer(rig.http.get(&url)).await;
    let expected =
        json!({"setup_required": true, "password": true, "oidc": false, "reset_by_email": false, "stub": false});
    assert_eq!(methods, expected);
    let ask = json!({"email": "root@example.com", "password": PASSWORD});
    assert_eq!(send(&rig, "/v1/auth/setup", ask.clone()).await.0, 401, "not without a key");
    let other = rig.http.post(format!("{url}/setup")).bearer_auth(OTHER_KEY).json(&ask);
    assert_eq!(answer(other).await.0, 403, "not with the key of a tenant");
    for (body, code) in [
        (json!({"email": "nobody", "password": PASSWORD}), "auth.bad_email"),
        (json!({"email": "root@example.com", "password": "short"}), "auth.bad_password"),
        (json!({"email": "root@example.com", "password": PASSWORD, "name": "a\nb"}), "auth.bad_name"),
    ] {
        let (status, refused) = rig.send(Method::POST, "/v1/auth/setup", body).await;
        assert_eq!((status, &refused["code"]), (400, &json!(code)), "{refused}");
    }
    let id = rig.created().await;
    let root = operator(&rig).await;
    assert_eq!(root.email, "root@example.com", "addresses have no case");
    let (_, me) = root.get(&rig, "/v1/me").await;
    assert_eq!(
        (&me["operator"], &me["workspace"], &me["auth_method"]),
        (&json!(true), &json!("default"), &json!("session"))
    );
    assert_eq!((&me["current_org"]["role"], me["orgs"].as_array().unwrap().len()), (&json!("owner"), 1), "{me}");
    assert_eq!(root.get(&rig, &format!("/v1/sandboxes/{id}")).await.0, 200, "what was there is the operator's");
    let (status, refused) = rig.send(Method::POST, "/v1/auth/setup", ask).await;
    assert_eq!((status, &refused["code"]), (409, &json!("auth.set_up")), "{refused}");
    assert_eq!(answer(rig.http.get(&url)).await.1["setup_required"], json!(false));
}

#[tokio::test]
async fn several_set_ups_at_once_make_one_account() {
    let rig = Rig::start().await;
    let set_up = |number: u8| {
        let ask = json!({"email": format!("root{number}@example.com"), "password": PASSWORD});
        answer(rig.call(Method::POST, "/v1/auth/setup").json(&ask))
    };
    let done = tokio::join!(set_up(1), set_up(2), set_up(3), set_up(4));
    let mut statuses = [done.0.0, done.1.0, done.2.0, done.3.0];
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 409, 409, 409]);
}

#[tokio::test]
async fn a_login_gives_a_session_that_ends_at_once() {
    let rig = Rig::start().await;
    let root = operator(&rig).await;
    let (status, begun) = log_in(&rig, " ROOT@example.com ", PASSWORD).await;
    assert_eq!(status, 200, "{begun}");
    let again = known(&rig, begun).await;
    assert!(again.token.starts_with("pss_") && again.token != root.token);
    let (_, listed) = again.get(&rig, "/v1/auth/sessions").await;
    let sessions = listed.as_array().unwrap();
    assert_eq!((sessions.len(), &sessions[0]["current"], &sessions[1]["current"]), (2, &json!(true), &json!(false)));
    assert!(!rig.stored().await.windows(again.token.len()).any(|bytes| bytes == again.token.as_bytes()));
    // One session ends another one, and then itself.
    let other = sessions[1]["id"].as_str().unwrap();
    assert_eq!(again.delete(&rig, &format!("/v1/auth/sessions/{other}")).await.0, 204);
    assert_eq!(again.delete(&rig, &format!("/v1/auth/sessions/{other}")).await.0, 404, "once");
    for bad in ["", "%25", "x", "0000000000000000"] {
        assert_eq!(again.delete(&rig, &format!("/v1/auth/sessions/{bad}")).await.0, 404, "{bad:?}");
    }
    let (status, refused) = root.get(&rig, "/v1/me").await;
    assert_eq!((status, &refused["error"]), (401, &json!("unauthorized")), "{refused}");
    assert_eq!(again.post(&rig, "/v1/auth/logout").await.0, 204);
    assert_eq!(again.get(&rig, "/v1/me").await.0, 401);
    assert_eq!(rig.post("/v1/auth/logout").await.0, 401, "a key is not a login");
}

#[tokio::test]
async fn a_failed_login_tells_nothing_about_accounts_and_is_delayed() {
    let rig = Rig::start().await;
    operator(&rig).await;
    let (known, unknown) =
        (log_in(&rig, "root@example.com", "wrong").await, log_in(&rig, "x@example.com", "wrong").await);
    assert_eq!((known.0, &known.1["detail"]), (401, &unknown.1["detail"]));
    assert_eq!(log_in(&rig, "no address", "wrong").await.1["detail"], unknown.1["detail"]);
    let mut statuses = Vec::new();
    for _ in 0..8 {
        statuses.push(log_in(&rig, "root@example.com", "wrong").await.0);
    }
    assert_eq!((statuses[0], statuses[7]), (401, 429), "{statuses:?}");
    let request = rig.http.post(format!("{}/v1/auth/login", rig.url));
    let refused = request.json(&json!({"email": "root@example.com", "password": PASSWORD})).send().await.unwrap();
    assert_eq!(refused.status(), 429, "the right password waits too");
    let wait: u64 = refused.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=900).contains(&wait), "{wait}");
}

#[tokio::test]
async fn a_changed_password_ends_every_session_and_a_wrong_one_changes_nothing() {
    let rig = Rig::start().await;
    let root = operator(&rig).await;
    let change = |current: &str, new: &str| json!({"current_password": current, "new_password": new});
    let new = "another long password";
    let (status, refused) = root.send(&rig, Method::POST, "/v1/auth/password", change("wrong", new)).await;
    assert_eq!((status, &refused["code"]), (403, &json!("auth.wrong_password")));
    let (status, refused) = root.send(&rig, Method::POST, "/v1/auth/password", change(PASSWORD, "x")).await;
    assert_eq!((status, &refused["code"]), (400, &json!("auth.bad_password")));
    assert_eq!(root.get(&rig, "/v1/me").await.0, 200);
    let other = known(&rig, log_in(&rig, "root@example.com", PASSWORD).await.1).await;
    let (status, begun) = root.send(&rig, Method::POST, "/v1/auth/password", change(PASSWORD, new)).await;
    assert_eq!(status, 200, "{begun}");
    assert_eq!((root.get(&rig, "/v1/me").await.0, other.get(&rig, "/v1/me").await.0), (401, 401));
    known(&rig, begun).await;
    assert_eq!(log_in(&rig, "root@example.com", PASSWORD).await.0, 401);
    assert_eq!(log_in(&rig, "root@example.com", new).await.0, 200);
}

#[tokio::test]
async fn the_operator_makes_accounts_resets_passwords_and_disables_people() {
    let rig = Rig::start().await;
    let root = operator(&rig).await;
    let place = backend::place(rig.folder.path()).await;
    let now_ns = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
    let accounts = Accounts::open(&place.database, now_ns).await.unwrap();
    let (made, link) = accounts.create("Ada@example.com", "Ada", false).await.unwrap();
    assert!(accounts.create("ada@example.com", "", false).await.is_err(), "taken");
    let reset = |token: &str, password: &str| json!({"token": token, "password": password});
    let (status, refused) = send(&rig, "/v1/auth/reset", reset(link.reveal(), "x")).await;
    assert_eq!((status, &refused["code"]), (400, &json!("auth.bad_password")), "the link stays good");
    assert_eq!(send(&rig, "/v1/auth/reset", reset(link.reveal(), PASSWORD)).await.0, 204);
    let (status, refused) = send(&rig, "/v1/auth/reset", reset(link.reveal(), "second password")).await;
    assert_eq!((status, &refused["code"]), (410, &json!("auth.reset_over")));
    assert_eq!(send(&rig, "/v1/auth/reset", reset("prs_", PASSWORD)).await.0, 410);
    let ada = known(&rig, log_in(&rig, "ada@example.com", PASSWORD).await.1).await;
    assert_eq!(ada.id, made.id);
    let (_, me) = ada.get(&rig, "/v1/me").await;
    let slug = me["current_org"]["slug"].as_str().unwrap().to_owned();
    assert_eq!(slug, format!("ada-{}", &ada.id[..8]), "a personal organisation");
    assert_eq!((&me["current_org"]["name"], &me["operator"]), (&json!("ada"), &serde_json::Value::Null));
    // Disabled, and noticed by the running server.
    accounts.set_disabled("ada@example.com", true).await.unwrap();
    wait_for("the server notices", async || ada.get(&rig, "/v1/me").await.0 == 401).await;
    assert_eq!(log_in(&rig, "ada@example.com", PASSWORD).await.0, 401);
    accounts.set_disabled("ada@example.com", false).await.unwrap();
    assert_eq!(ada.get(&rig, "/v1/me").await.0, 200);
    // A reset ends sessions.
    let (_, link) = accounts.reset("ada@example.com").await.unwrap();
    assert_eq!(send(&rig, "/v1/auth/reset", reset(link.reveal(), "third password")).await.0, 204);
    assert_eq!(ada.get(&rig, "/v1/me").await.0, 401);
    assert_eq!(root.get(&rig, "/v1/me").await.0, 200);
    assert_eq!(send(&rig, "/v1/auth/reset-request", json!({"email": "ada@example.com"})).await.0, 202);
    assert_eq!(send(&rig, "/v1/auth/reset-request", json!({"email": "nobody@example.com"})).await.0, 202);
    let listed = accounts.list().await.unwrap();
    assert_eq!(
        listed.iter().map(|one| one.email.as_str()).collect::<Vec<_>>(),
        ["ada@example.com", "root@example.com"]
    );
    accounts.close().await;
}

#[tokio::test]
async fn an_invite_makes_an_account_once() {
    let rig = Rig::start().await;
    let root = operator(&rig).await;
    let ask = json!({"email": "Bob@Example.com"});
    let (_, invite) = root.send(&rig, Method::POST, &format!("/v1/orgs/{}/members", root.org), ask).await;
    let token = invite["token"].as_str().unwrap();
    let shown = rig.http.get(format!("{}/v1/orgs/invites/{token}", rig.url));
    let (status, info) = answer(shown).await;
    assert_eq!((status, &info["email"], &info["org_name"]), (200, &json!("bob@example.com"), &json!("Default")));
    let register = json!({"invite": token, "password": PASSWORD});
    let (status, begun) = send(&rig, "/v1/auth/register", register.clone()).await;
    assert_eq!(status, 201, "{begun}");
    let bob = known(&rig, begun).await;
    assert_eq!((bob.email.as_str(), &bob.org), ("bob@example.com", &root.org));
    let (status, refused) = send(&rig, "/v1/auth/register", register).await;
    assert_eq!((status, &refused["code"]), (410, &json!("org.invite_over")));
    assert_eq!(send(&rig, "/v1/auth/register", json!({"invite": "00", "password": PASSWORD})).await.0, 404);
    // Somebody with an account logs in instead.
    let (_, invite) = root
        .send(&rig, Method::POST, &format!("/v1/orgs/{}/members", root.org), json!({"email": "bob@example.com"}))
        .await;
    let (status, refused) =
        send(&rig, "/v1/auth/register", json!({"invite": invite["token"], "password": PASSWORD})).await;
    assert_eq!((status, &refused["code"]), (409, &json!("auth.account_exists")));
}

#[tokio::test]
async fn another_server_sees_the_end_of_a_session_a_key_and_a_membership() {
    let rig = Rig::start().await;
    let root = operator(&rig).await;
    let bob = invited(&rig, &root, "bob@example.com", "member").await;
    let (_, key) = root.post(&rig, "/v1/me/tokens").await;
    let key = key["token"].as_str().unwrap().to_owned();
    let beside = rig.start_beside().await;
    let there = |token: &str| {
        let request = rig.http.get(format!("{}/v1/me", beside.url)).bearer_auth(token);
        async { answer(request).await }
    };
    for token in [&root.token, &bob.token, &key] {
        assert_eq!(there(token).await.0, 200, "cached on the second server");
    }
    let (_, me) = there(&bob.token).await;
    assert_eq!(me["current_org_id"], json!(root.org));
    assert_eq!(root.delete(&rig, &format!("/v1/orgs/{}/members/{}", root.org, bob.id)).await.0, 204);
    assert_eq!(root.delete(&rig, &format!("/v1/me/tokens/{}", &key[..12])).await.0, 204);
    assert_eq!(root.post(&rig, "/v1/auth/logout").await.0, 204);
    // A second later, or when a busy machine gets round to it.
    for token in [&root.token, &key] {
        wait_for("the end of a session and of a key", || async { there(token).await.0 == 401 }).await;
    }
    let is_out = || async { there(&bob.token).await.1["current_org_id"] != json!(root.org) };
    wait_for("the end of a membership", is_out).await;
    beside.stop().await;
}

#[tokio::test]
async fn a_stream_of_somebody_who_leaves_ends() {
    let rig = Rig::start().await;
    let root = operator(&rig).await;
    let bob = invited(&rig, &root, "bob@example.com", "member").await;
    let id = rig.created().await;
    let follow = |who: &Somebody| who.request(&rig, Method::GET, &format!("/v1/sandboxes/{id}/events?follow=1")).send();
    let (mut theirs, mut ours) = (follow(&bob).await.unwrap(), follow(&root).await.unwrap());
    assert_eq!((theirs.status().as_u16(), ours.status().as_u16()), (200, 200));
    assert_eq!(root.delete(&rig, &format!("/v1/orgs/{}/members/{}", root.org, bob.id)).await.0, 204);
    let end = async { while let Ok(Some(_)) = theirs.chunk().await {} };
    tokio::time::timeout(PATIENCE, end).await.expect("the stream ends");
    let more = async { while let Ok(Some(_)) = ours.chunk().await {} };
    assert!(tokio::time::timeout(Duration::from_millis(200), more).await.is_err(), "only theirs");
    assert_eq!(bob.get(&rig, &format!("/v1/sandboxes/{id}")).await.0, 404, "and what they used is not theirs");
}
