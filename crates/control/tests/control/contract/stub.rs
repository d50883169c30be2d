//! Section 1.2, stub mode: development without authentication.

use std::sync::Arc;

use pandastack_control::{AuthMode, SignInSettings};
use reqwest::{Method, RequestBuilder};
use serde_json::json;

use crate::{
    people::operator,
    receiver::Traveller,
    rig::{KEY, Rig, answer, sign_in},
};

const USER: &str = "00000000-0000-0000-0000-000000000001";
const ORG: &str = "00000000-0000-0000-0000-000000000002";

async fn stub() -> Rig {
    let settings = SignInSettings { mode: AuthMode::Stub, ..sign_in() };
    Rig::start_signing_in(settings, Arc::new(Traveller::default())).await
}

fn nobody(rig: &Rig, method: Method, path: &str) -> RequestBuilder {
    rig.http.request(method, format!("{}{path}", rig.url))
}

#[tokio::test]
async fn s1_2_stub_mode_takes_no_bearer_or_any_other_one_as_the_fixed_user() {
    let rig = stub().await;
    for request in [nobody(&rig, Method::GET, "/v1/me"), nobody(&rig, Method::GET, "/v1/me").bearer_auth("anything")] {
        let (status, me) = answer(request).await;
        assert_eq!((status, &me["user_id"], &me["auth_method"]), (200, &json!(USER), &json!("stub")), "{me}");
        assert_eq!((&me["email"], &me["workspace"]), (&json!("dev@local.pandastack"), &json!("local-dev")));
        assert_eq!((&me["current_org_id"], &me["current_org"]["role"]), (&json!(ORG), &json!("owner")));
    }
    let (status, sandbox) =
        answer(nobody(&rig, Method::POST, "/v1/sandboxes").json(&json!({"template": "mini"}))).await;
    assert_eq!(status, 201, "{sandbox}");
    assert_eq!(answer(nobody(&rig, Method::POST, "/v1/me/tokens")).await.0, 200, "it is a person");
    let (_, methods) = answer(nobody(&rig, Method::GET, "/v1/auth")).await;
    assert_eq!((&methods["stub"], &methods["setup_required"]), (&json!(true), &json!(true)), "{methods}");
}

#[tokio::test]
async fn s1_2_x_stub_user_overrides_the_email() {
    let rig = stub().await;
    let me = |email: &str| answer(nobody(&rig, Method::GET, "/v1/me").header("x-stub-user", email));
    let (status, shown) = me("Ada@Example.com").await;
    assert_eq!((status, &shown["email"], &shown["user_id"]), (200, &json!("ada@example.com"), &json!(USER)));
    let (status, refused) = me("not an address").await;
    assert_eq!((status, &refused["code"]), (400, &json!("auth.bad_stub_user")), "{refused}");
}

#[tokio::test]
async fn s1_2_stub_mode_still_looks_keys_up() {
    let rig = stub().await;
    let me = |key: &str| answer(nobody(&rig, Method::GET, "/v1/me").bearer_auth(key.to_owned()));
    assert_eq!(me("pds_local_dev_token").await.1["workspace"], json!("local-dev"), "the key that is always there");
    assert_eq!(me(KEY).await.1["workspace"], json!("default"));
    for unknown in ["pds_ffffffffffffffffffffffffffffffff", "pds_other"] {
        assert_eq!(me(unknown).await.0, 401, "{unknown}");
    }
}

#[tokio::test]
async fn s1_2_stub_mode_answers_no_pages_of_other_machines() {
    let rig = stub().await;
    for (name, value, expected) in [
        ("origin", "https://evil.example", 403),
        ("origin", "null", 403),
        ("origin", "http://8080-x.localhost:8080", 403),
        ("host", "rebound.example", 403),
        ("origin", "http://localhost:3000", 200),
    ] {
        let (status, body) = answer(nobody(&rig, Method::GET, "/v1/me").header(name, value)).await;
        assert_eq!(status, expected, "{name}: {value}: {body}");
        let keyed = rig.call(Method::GET, "/v1/me").header(name, value);
        assert_eq!(answer(keyed).await.0, 200, "a key is good from everywhere");
    }
}

#[tokio::test]
async fn s1_2_what_stub_mode_stored_opens_nothing_afterwards() {
    let rig = stub().await;
    assert_eq!(answer(nobody(&rig, Method::GET, "/v1/me")).await.0, 200);
    assert_eq!(answer(nobody(&rig, Method::GET, "/v1/me").bearer_auth("pds_local_dev_token")).await.0, 200);
    let rig = rig.restart_control().await;
    for request in [
        nobody(&rig, Method::GET, "/v1/me"),
        nobody(&rig, Method::GET, "/v1/me").bearer_auth("anything"),
        nobody(&rig, Method::GET, "/v1/me").bearer_auth("pds_local_dev_token"),
        nobody(&rig, Method::GET, "/v1/me").header("x-stub-user", "dev@local.pandastack"),
    ] {
        assert_eq!(answer(request).await.0, 401);
    }
    // The server is not set up yet, so the operator still makes the first account.
    assert_ne!(operator(&rig).await.id, USER);
}
