//! Section 1: authentication, tenancy, bodies, errors and retries on the wire.

use std::{sync::Arc, time::Duration};

use pandastack_control::ControlSettings;
use pandastack_identity::provider::JwtAlgorithm;
use pandastack_model::{Fault, FaultKind};
use pandastack_wire_fleet::stub::StubHost;
use reqwest::{Method, RequestBuilder, redirect::Policy};
use serde_json::{Value, json};

use crate::{
    people::{operator, owner},
    receiver::Traveller,
    rig::{KEY, OTHER_KEY, Rig, answer, wait_for},
    sso::{CALLBACK, Sso},
};

fn nobody(rig: &Rig, method: Method, path: &str) -> RequestBuilder {
    rig.http.request(method, format!("{}{path}", rig.url))
}

/// Checks a 401 and returns its reason.
fn reason((status, body): (u16, Value)) -> String {
    assert_eq!((status, &body["error"]), (401, &json!("unauthorized")), "{body}");
    body["detail"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn s1_2_the_bearer_scheme_has_no_case_and_a_query_token_counts_without_a_header() {
    let rig = Rig::start().await;
    for scheme in ["Bearer", "bearer", "BEARER"] {
        let request = nobody(&rig, Method::GET, "/v1/me").header("authorization", format!("{scheme} {KEY}"));
        assert_eq!(answer(request).await.0, 200, "{scheme}");
    }
    let by_query = nobody(&rig, Method::GET, &format!("/v1/me?access_token={OTHER_KEY}"));
    assert_eq!(answer(by_query).await.1["workspace"], json!("other"));
    let both = rig.call(Method::GET, &format!("/v1/me?access_token={OTHER_KEY}"));
    assert_eq!(answer(both).await.1["workspace"], json!("default"), "the header wins");
    let request = rig.call(Method::POST, &format!("/v1/sandboxes?access_token={OTHER_KEY}"));
    assert_eq!(answer(request.json(&json!({"template": "mini"}))).await.0, 201);
    wait_for("the audit entry", async || rig.get("/v1/audit").await.1.to_string().contains("/v1/sandboxes")).await;
    assert!(!rig.get("/v1/audit").await.1.to_string().contains(OTHER_KEY), "a token is not logged");
}

#[tokio::test]
async fn s1_2_an_unknown_key_is_401_and_is_never_tried_as_a_jwt() {
    let sso = Sso::start(CALLBACK).await;
    for key in ["pds_ffffffffffffffffffffffffffffffff", "pds_a.b.c", "pds_"] {
        let request = nobody(&sso.rig, Method::GET, "/v1/me").bearer_auth(key);
        assert!(reason(answer(request).await).starts_with("invalid api token"), "{key}");
    }
    assert_eq!(sso.provider.requests("/keys"), 0, "the provider was not asked");
    sso.scope.close(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn s1_2_a_jwt_is_es256_or_rs256_with_its_claims_and_the_key_set_is_refreshed_hourly() {
    let sso = Sso::start(CALLBACK).await;
    let me = |token: String| answer(nobody(&sso.rig, Method::GET, "/v1/me").bearer_auth(token));
    for algorithm in [JwtAlgorithm::Es256, JwtAlgorithm::Rs256] {
        sso.provider.set_algorithm(algorithm);
        let (status, shown) = me(sso.provider.issue(None)).await;
        assert_eq!((status, &shown["auth_method"]), (200, &json!("jwt")), "{shown}");
        assert!(shown["email"].as_str().unwrap().contains('@') && shown["user_id"].is_string(), "{shown}");
    }
    let (now_s, issuer) = (pandastack_kit::Clock::now_ns(&*sso.clock) / 1_000_000_000, sso.provider.issuer());
    let claims = json!({"iss": issuer, "aud": "pandastack", "sub": "x", "iat": now_s, "exp": now_s + 600});
    for missing in ["exp", "iat", "sub"] {
        let mut claims = claims.clone();
        claims.as_object_mut().unwrap().remove(missing);
        reason(me(sso.provider.sign(&claims)).await);
    }
    let fetched = sso.provider.requests("/keys");
    assert_eq!(me(sso.provider.issue(Some("again"))).await.0, 200);
    assert_eq!(sso.provider.requests("/keys"), fetched, "the key set is cached");
    sso.clock.travel(Duration::from_secs(3601));
    assert_eq!(me(sso.provider.issue(Some("later"))).await.0, 200);
    wait_for("the key set is fetched again", async || sso.provider.requests("/keys") > fetched).await;
    sso.scope.close(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn s1_2_a_key_is_pds_and_32_hex_and_only_its_hash_and_prefix_are_stored() {
    let rig = Rig::start().await;
    let (status, key) = rig.send(Method::POST, "/v1/api-keys", json!({"label": "ci"})).await;
    assert_eq!(status, 201, "{key}");
    let (token, prefix) = (key["token"].as_str().unwrap(), key["prefix"].as_str().unwrap());
    let hex = token.strip_prefix("pds_").unwrap();
    assert!(hex.len() == 32 && hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')), "{token}");
    assert_eq!(prefix, &token[..12]);
    assert_eq!(answer(nobody(&rig, Method::GET, "/v1/me").bearer_auth(token)).await.0, 200);
    wait_for("its use is noted", async || {
        let (_, listed) = rig.get("/v1/api-keys").await;
        listed["items"].as_array().unwrap().iter().any(|one| one["prefix"] == prefix && one["last_used_at"].is_string())
    })
    .await;
    let stored = rig.stored().await;
    assert!(!stored.windows(token.len()).any(|bytes| bytes == token.as_bytes()));
}

#[tokio::test]
async fn s1_2_a_401_is_unauthorized_with_a_known_reason() {
    let rig = Rig::start().await;
    let me = |credential: &str| answer(nobody(&rig, Method::GET, "/v1/me").bearer_auth(credential));
    let missing = answer(nobody(&rig, Method::GET, "/v1/me")).await;
    assert!(reason(missing).starts_with("missing bearer token"));
    assert!(reason(me("pds_ffffffffffffffffffffffffffffffff").await).starts_with("invalid api token"));
    assert!(reason(me("eyJ.x.y").await).starts_with("jwt auth disabled"));
    assert_eq!(reason(rig.get("/v1/orgs").await), "jwt required");
}

#[tokio::test]
async fn s1_2_public_paths_need_no_credential() {
    let rig = Rig::start().await;
    for path in ["/healthz", "/version", "/metrics", "/v1/pricing"] {
        assert_eq!(nobody(&rig, Method::GET, path).send().await.unwrap().status(), 200, "{path}");
    }
    // Stripe proves itself by a signature. Without billing there is nothing to prove it to.
    let (status, body) = answer(nobody(&rig, Method::POST, "/v1/webhooks/stripe").body("{}")).await;
    assert!(status != 401 && (400..500).contains(&status), "{status} {body}");
    for path in ["/v1/me", "/v1/webhooks", "/v1/sandboxes", "/v1/audit", "/v1/quotas", "/v1/billing"] {
        assert_eq!(answer(nobody(&rig, Method::GET, path)).await.0, 401, "{path}");
    }
}

#[tokio::test]
async fn s1_2_x_api_key_is_another_header_for_the_key() {
    let rig = Rig::start().await;
    let keyed = nobody(&rig, Method::GET, "/v1/me").header("x-api-key", OTHER_KEY);
    assert_eq!(answer(keyed).await.1["workspace"], json!("other"));
    let both = rig.call(Method::GET, "/v1/me").header("x-api-key", OTHER_KEY);
    assert_eq!(answer(both).await.1["workspace"], json!("default"));
}

#[tokio::test]
async fn s1_3_x_pandastack_org_chooses_for_people_and_is_ignored_for_keys() {
    let rig = Rig::start().await;
    let root = operator(&rig).await;
    let other = owner(&rig, &root, "other-org").await;
    let within = |org: &str| answer(root.request(&rig, Method::GET, "/v1/me").header("x-pandastack-org", org));
    assert_eq!(within(&root.org).await.0, 200);
    let (status, body) = within(&other.org).await;
    assert_eq!((status, &body["error"]), (403, &json!("not a member of requested org")));
    let keyed = rig.call(Method::GET, "/v1/me").header("x-pandastack-org", &other.org);
    assert_eq!(answer(keyed).await.1["workspace"], json!("default"));
}

#[tokio::test]
async fn s1_3_x_fcs_workspace_is_overwritten_and_identity_headers_are_dropped() {
    let rig = Rig::start().await;
    let root = operator(&rig).await;
    let forged = |request: RequestBuilder| {
        request
            .header("x-fcs-workspace", "other")
            .header("x-pandastack-user-id", "somebody")
            .header("x-pandastack-user-email", "somebody@example.com")
            .header("x-pandastack-auth-method", "jwt")
            .header("x-pandastack-org-id", "x")
    };
    assert_eq!(answer(forged(rig.call(Method::GET, "/v1/me"))).await.1["workspace"], json!("default"));
    let (_, me) = answer(forged(root.request(&rig, Method::GET, "/v1/me"))).await;
    assert_eq!((&me["user_id"], &me["workspace"]), (&json!(root.id), &json!("default")));
    assert_eq!(answer(forged(nobody(&rig, Method::GET, "/v1/me"))).await.0, 401);
}

#[tokio::test]
async fn s1_3_a_person_acts_in_the_current_org_else_in_the_oldest_one() {
    let rig = Rig::start().await;
    let root = operator(&rig).await;
    let (_, second) = root.send(&rig, Method::POST, "/v1/orgs", json!({"name": "Second"})).await;
    assert_eq!(root.get(&rig, "/v1/me").await.1["workspace"], json!("second"), "a new one becomes the current one");
    let id = second["id"].as_str().unwrap();
    assert_eq!(root.delete(&rig, &format!("/v1/orgs/{id}?confirm=second")).await.0, 202);
    assert_eq!(root.get(&rig, "/v1/me").await.1["workspace"], json!("default"), "the oldest membership");
}

#[tokio::test]
async fn s1_3_a_request_id_of_1_to_64_characters_is_echoed_else_16_hex_are_made() {
    let rig = Rig::start().await;
    let id = async |sent: Option<&str>| {
        let request = rig.call(Method::GET, "/v1/me");
        let request = sent.iter().fold(request, |request, sent| request.header("x-request-id", *sent));
        request.send().await.unwrap().headers()["x-request-id"].to_str().unwrap().to_owned()
    };
    let longest = "x".repeat(64);
    for kept in ["a", longest.as_str()] {
        assert_eq!(id(Some(kept)).await, kept);
    }
    let long = "x".repeat(65);
    for made in [id(None).await, id(Some(&long)).await] {
        assert!(made.len() == 16 && made.bytes().all(|byte| byte.is_ascii_hexdigit()), "{made}");
    }
}

#[tokio::test]
async fn s1_3_rows_of_another_workspace_are_404_never_403() {
    let rig = Rig::start().await;
    let id = rig.created().await;
    for (method, path) in [
        (Method::GET, format!("/v1/sandboxes/{id}")),
        (Method::DELETE, format!("/v1/sandboxes/{id}")),
        (Method::POST, format!("/v1/sandboxes/{id}/fork")),
    ] {
        assert_eq!(rig.stranger(method.clone(), &path).await.0, 404, "{method} {path}");
    }
    assert_eq!(rig.get(&format!("/v1/sandboxes/{id}")).await.0, 200);
}

#[tokio::test]
async fn s1_3_the_workspaces_of_operators_are_not_handed_to_tenants() {
    let rig = Rig::start().await;
    let root = operator(&rig).await;
    let mine = owner(&rig, &root, "mine").await;
    for slug in ["admin", "default"] {
        let ask = json!({"name": "x", "slug": slug});
        let (status, body) = mine.send(&rig, Method::POST, "/v1/orgs", ask).await;
        assert_eq!((status, &body["code"]), (400, &json!("org.bad_slug")), "{slug}");
        let (status, body) = mine.send(&rig, Method::POST, "/v1/orgs", json!({"name": slug})).await;
        assert!(status != 201 || body["slug"] != slug, "{body}");
    }
}

#[tokio::test]
async fn s1_4_an_empty_body_of_any_type_is_no_body() {
    let rig = Rig::start().await;
    let root = operator(&rig).await;
    let asks = [
        root.request(&rig, Method::POST, "/v1/me/tokens"),
        root.request(&rig, Method::POST, "/v1/me/tokens").header("content-length", "0"),
        root.request(&rig, Method::POST, "/v1/me/tokens").header("content-type", "text/plain;charset=UTF-8").body(""),
        root.request(&rig, Method::POST, "/v1/me/tokens").json(&json!({})),
        root.request(&rig, Method::POST, "/v1/me/tokens").json(&json!({"label": "x", "later": [1]})),
    ];
    for ask in asks {
        assert_eq!(answer(ask).await.0, 200);
    }
    let id = rig.created().await;
    for path in ["hibernate", "wake", "fork"] {
        let (status, body) = rig.post(&format!("/v1/sandboxes/{id}/{path}")).await;
        assert!((200..300).contains(&status), "{path}: {status} {body}");
    }
}

#[tokio::test]
async fn s1_4_a_delete_with_or_without_a_content_length_is_the_same() {
    let rig = Rig::start().await;
    for bare in [true, false] {
        let id = rig.created().await;
        let request = rig.call(Method::DELETE, &format!("/v1/sandboxes/{id}"));
        let request = if bare { request } else { request.header("content-length", "0") };
        assert_eq!(request.send().await.unwrap().status(), 204);
    }
}

#[tokio::test]
async fn s1_4_unknown_fields_are_ignored_and_malformed_json_is_400() {
    let rig = Rig::start().await;
    let (status, sandbox) = rig.create(json!({"template": "mini", "later": {"a": [1, null]}})).await;
    assert_eq!(status, 201, "{sandbox}");
    let root = operator(&rig).await;
    let routes = [
        (rig.call(Method::POST, "/v1/sandboxes"), "bad json"),
        (root.request(&rig, Method::POST, "/v1/orgs"), "bad json"),
    ];
    for (request, text) in routes {
        let (status, body) = answer(request.header("content-type", "application/json").body("{\"a\":")).await;
        assert_eq!(status, 400);
        assert!(body["error"].as_str().unwrap().to_lowercase().starts_with(text), "{body}");
    }
}

#[tokio::test]
async fn s1_5_an_error_is_a_flat_object_with_a_string_and_no_answer_redirects() {
    let rig = Rig::start().await;
    let http = reqwest::Client::builder().no_proxy().redirect(Policy::none()).build().unwrap();
    for (path, expected) in [("/v1/sandboxes/x", 404), ("/v1/nothing", 404), ("/v1/orgs", 401), ("/v1/me/", 404)] {
        let response = http.get(format!("{}{path}", rig.url)).bearer_auth(KEY).send().await.unwrap();
        assert_eq!(response.status(), expected, "{path}");
        assert_eq!(response.headers()["content-type"], "application/json", "{path}");
        let body: Value = response.json().await.unwrap();
        assert!(body["error"].as_str().is_some_and(|text| !text.is_empty()), "{path}: {body}");
        let flat = body.as_object().unwrap().values().all(|value| !value.is_object() && !value.is_array());
        assert!(flat, "{path}: {body}");
    }
}

#[tokio::test]
async fn s1_5_a_204_has_no_body_and_json_says_so() {
    let rig = Rig::start().await;
    let id = rig.created().await;
    let gone = rig.call(Method::DELETE, &format!("/v1/sandboxes/{id}")).send().await.unwrap();
    assert_eq!((gone.status().as_u16(), gone.bytes().await.unwrap().len()), (204, 0));
    let shown = rig.call(Method::GET, "/v1/me").send().await.unwrap();
    assert_eq!(shown.headers()["content-type"], "application/json");
}

#[tokio::test]
async fn s1_6_a_delete_may_be_repeated() {
    let rig = Rig::start().await;
    let id = rig.created().await;
    let path = format!("/v1/sandboxes/{id}");
    assert_eq!(rig.delete(&path).await, 204);
    // Clients repeat a DELETE whose answer was 404 or lost.
    for _ in 0..2 {
        assert!(matches!(rig.delete(&path).await, 204 | 404));
    }
    assert_eq!(rig.host.count(), 0);
}

#[tokio::test]
async fn s1_6_refusals_that_clients_repeat_leave_nothing_and_say_when() {
    let rig = Rig::start().await;
    let parent = rig.created().await;
    let full = || Fault::new(FaultKind::Busy, "host.full", "no compute capacity available");
    let storage = || Fault::new(FaultKind::Storage, "host.storage", "insufficient host storage for sandbox");
    for (verb, path) in [("ensure", "/v1/sandboxes".to_owned()), ("fork", format!("/v1/sandboxes/{parent}/fork"))] {
        for (fault, status, after) in [(full(), 503, Some("5")), (storage(), 507, None)] {
            rig.host.fail_next(verb, fault);
            let response = rig.call(Method::POST, &path).json(&json!({"template": "mini"})).send().await.unwrap();
            let said = response.headers().get("retry-after").map(|value| value.to_str().unwrap().to_owned());
            assert_eq!((response.status().as_u16(), said.as_deref()), (status, after), "{path}");
            assert!(response.json::<Value>().await.unwrap()["error"].is_string());
            assert_eq!(rig.host.count(), 1, "nothing was made");
        }
    }
}

#[tokio::test]
async fn s1_6_a_quota_429_has_no_retry_after() {
    let settings = ControlSettings { sandboxes_max: 1, ..ControlSettings::default() };
    let (folder, host) = (tempfile::tempdir().unwrap(), Arc::new(StubHost::default()));
    let rig = Rig::start_with(folder, host, settings, Arc::new(Traveller::default())).await;
    rig.created().await;
    let refused = rig.call(Method::POST, "/v1/sandboxes").json(&json!({"template": "mini"})).send().await.unwrap();
    assert_eq!((refused.status().as_u16(), refused.headers().get("retry-after")), (429, None));
}

#[tokio::test]
async fn s1_7_times_are_rfc_3339_and_empty_fields_are_absent() {
    let rig = Rig::start().await;
    let root = operator(&rig).await;
    let (_, sandbox) = rig.create(json!({"template": "mini"})).await;
    let (_, key) = root.post(&rig, "/v1/me/tokens").await;
    let (_, orgs) = root.get(&rig, "/v1/orgs").await;
    for time in [&sandbox["created_at"], &key["created_at"], &orgs[0]["created_at"]] {
        let time = time.as_str().unwrap();
        assert!(time.len() >= 20 && time.as_bytes()[10] == b'T' && time.ends_with('Z'), "{time}");
    }
    assert!(key.get("label").is_none(), "absent, neither null nor empty: {key}");
}

#[tokio::test]
async fn s1_7_lists_have_the_shapes_that_clients_read() {
    let rig = Rig::start().await;
    let root = operator(&rig).await;
    assert!(root.get(&rig, "/v1/orgs").await.1.is_array());
    assert!(root.get(&rig, &format!("/v1/orgs/{}/members", root.org)).await.1.is_array());
    let (_, tokens) = root.get(&rig, "/v1/me/tokens").await;
    assert!(tokens["items"].is_array(), "{tokens}");
    assert_eq!(rig.stranger(Method::GET, "/v1/sandboxes").await.1, json!([]), "empty, never null");
}

#[tokio::test]
async fn s1_8_event_streams_name_their_charset_and_are_not_cached() {
    let rig = Rig::start().await;
    let id = rig.created().await;
    let path = format!("/v1/sandboxes/{id}/events?follow=1");
    let mut stream = rig.call(Method::GET, &path).send().await.unwrap();
    assert_eq!(stream.headers()["content-type"], "text/event-stream; charset=utf-8");
    assert!(stream.headers()["cache-control"].to_str().unwrap().contains("no-cache"));
    let first = stream.chunk().await.unwrap().unwrap();
    assert!(!first.contains(&b'\r'), "frames have line feeds only");
}

#[tokio::test]
async fn s1_9_browsers_of_every_origin_may_ask_and_options_need_no_credential() {
    let rig = Rig::start().await;
    for path in ["/v1/sandboxes", "/v1/me", "/anything"] {
        let response = nobody(&rig, Method::OPTIONS, path).send().await.unwrap();
        assert_eq!(response.status(), 204, "{path}");
        let said = |name: &str| response.headers()[name].to_str().unwrap().to_lowercase();
        assert_eq!(
            (said("access-control-allow-origin").as_str(), said("access-control-max-age").as_str()),
            ("*", "600")
        );
        for method in ["get", "post", "put", "patch", "delete", "options"] {
            assert!(said("access-control-allow-methods").contains(method), "{method}");
        }
        for header in [
            "content-type",
            "x-api-key",
            "authorization",
            "x-fcs-workspace",
            "x-stub-user",
            "x-pandastack-org",
            "x-pandastack-user-id",
            "x-pandastack-user-email",
            "x-pandastack-auth-method",
        ] {
            assert!(said("access-control-allow-headers").split(", ").any(|one| one == header), "{header}");
        }
    }
}
