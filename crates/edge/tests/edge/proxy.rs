//! The proxy for callers with a key.

use pandastack_model::{Fault, FaultKind, SandboxId};
use pandastack_wire_public::PORT_CLOSED;
use reqwest::Method;
use serde_json::json;

use crate::{
    guest::{begin, head, say},
    rig::{Rig, answer, within},
};

/// Sends a request, answers it, and returns the head that the guest received.
async fn seen(rig: &mut Rig, request: reqwest::RequestBuilder) -> String {
    let request = begin(&rig.scope, request.send());
    let mut connected = rig.connected().await;
    assert_eq!((connected.id, connected.port.get()), (rig.id, 3000));
    let seen = head(&mut connected.stream).await;
    say(&mut connected.stream, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
    assert_eq!(within("an answer", request).await.unwrap().unwrap().status(), 200);
    seen
}

#[tokio::test]
async fn the_prefix_is_stripped_and_the_rest_kept_as_it_was_written() {
    let mut rig = Rig::start().await;
    for (path, expected) in [
        ("/proxy/3000", "/"),
        ("/proxy/3000/", "/"),
        ("/proxy/3000?q", "/?q"),
        ("/proxy/3000/a%20b/%2F//c;d?x=%20&y=a/b&&x=2", "/a%20b/%2F//c;d?x=%20&y=a/b&&x=2"),
        ("/proxy/3000/proxy/3000/", "/proxy/3000/"),
    ] {
        let request = rig.call(Method::GET, path);
        let seen = seen(&mut rig, request).await;
        assert!(seen.starts_with(&format!("GET {expected} HTTP/1.1\r\n")), "{path}: {seen}");
    }
}

#[tokio::test]
async fn any_method_passes_and_platform_headers_do_not() {
    let mut rig = Rig::start().await;
    for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "PROPFIND", "TRACE"] {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let request = rig.call(method.clone(), "/proxy/3000/x").header("x-mine", "1").header("x-fcs-workspace", "root");
        let request = request.header("connection", "x-secret").header("x-secret", "1").header("te", "trailers");
        let seen = seen(&mut rig, request).await.to_ascii_lowercase();
        assert!(seen.starts_with(&format!("{} /x http/1.1\r\n", method.as_str().to_ascii_lowercase())), "{seen}");
        let host = rig.url.strip_prefix("http://").unwrap();
        for line in [
            "x-mine: 1".to_owned(),
            format!("x-forwarded-host: {host}"),
            "x-forwarded-proto: http".to_owned(),
            format!("x-fcs-sandbox: {}", rig.id),
        ] {
            assert!(seen.contains(&format!("\r\n{line}\r\n")), "{line} is not in {seen}");
        }
        for name in ["authorization", "x-fcs-workspace", "x-secret", "te:", "connection: x-secret"] {
            assert!(!seen.contains(name), "{name} is in {seen}");
        }
    }
}

#[tokio::test]
async fn a_key_in_the_query_lets_in_and_stays_here() {
    let mut rig = Rig::start().await;
    let url = format!("{}/v1/sandboxes/{}/proxy/3000/x?a=1&access_token=mine&b=2", rig.url, rig.id);
    let request = rig.http.get(&url).basic_auth("user", Some("of the program"));
    let seen_plain = seen(&mut rig, request).await.to_ascii_lowercase();
    assert!(seen_plain.contains("authorization: basic "), "{seen_plain}");
    // It was the credential, whatever its form: a session or a token of a provider, too.
    assert!(seen_plain.starts_with("get /x?a=1&b=2 "), "{seen_plain}");
    for (token, left) in [("pds_0123", ""), ("pss_0123", ""), ("theirs", "access_token=theirs&")] {
        let request = rig.call(Method::GET, &format!("/proxy/3000/x?a=1&access_token={token}&b=2"));
        let head = seen(&mut rig, request).await;
        assert!(head.starts_with(&format!("GET /x?a=1&{left}b=2 ")), "{head}");
    }
}

#[tokio::test]
async fn the_session_of_a_browser_stays_here() {
    let mut rig = Rig::start().await;
    let cookie = "a=1; pandastack_session=pss_0123; __Host-pandastack_session=pss_0123";
    let request = rig.call(Method::GET, "/proxy/3000/").header("cookie", cookie).header("x-pandastack-csrf", "1");
    let seen = seen(&mut rig, request).await.to_ascii_lowercase();
    assert!(seen.contains("cookie: a=1\r\n") && !seen.contains("pss_") && !seen.contains("csrf"), "{seen}");
}

#[tokio::test]
async fn a_page_of_this_server_runs_no_program_of_a_guest() {
    let mut rig = Rig::start().await;
    let ask = |rig: &Rig, dest: &str, site: &str| {
        let request = rig.call(Method::GET, "/proxy/3000/x.js");
        request.header("sec-fetch-dest", dest.to_owned()).header("sec-fetch-site", site.to_owned())
    };
    for dest in ["script", "worker", "serviceworker", "style"] {
        let (status, refused) = answer(ask(&rig, dest, "same-origin")).await;
        assert_eq!((status, &refused["code"]), (403, &json!("proxy.script")), "{dest}");
    }
    for (dest, site) in [("script", "cross-site"), ("empty", "same-origin"), ("document", "same-origin")] {
        let request = ask(&rig, dest, site);
        seen(&mut rig, request).await;
    }
}

#[tokio::test]
async fn answers_are_the_guests_own() {
    let mut rig = Rig::start().await;
    let request = begin(&rig.scope, rig.call(Method::GET, "/proxy/3000/").send());
    let mut stream = rig.connected().await.stream;
    head(&mut stream).await;
    let said = "HTTP/1.1 418 Teapot\r\nServer: mine\r\nAccess-Control-Allow-Origin: https://a.example\r\nSet-Cookie: \
        a=1\r\n\
                Set-Cookie: b=2\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nX-Request-Id: \
                theirs\r\n\
                Location: http://elsewhere/\r\nContent-Length: 3\r\n\r\ntea";
    say(&mut stream, said).await;
    let response = request.await.unwrap().unwrap();
    assert_eq!(response.status(), 418);
    let headers = response.headers();
    assert_eq!(headers["access-control-allow-origin"], "https://a.example");
    assert_eq!(headers.get_all("set-cookie").iter().count(), 2);
    assert_eq!((&headers["server"], &headers["x-request-id"]), (&"mine".parse().unwrap(), &"theirs".parse().unwrap()));
    for name in ["x-hop", "keep-alive", "x-content-type-options"] {
        assert!(!headers.contains_key(name), "{name}");
    }
    assert_eq!(response.text().await.unwrap(), "tea");
}

#[tokio::test]
async fn who_may_not_pass_is_told_as_everywhere() {
    let rig = Rig::start().await;
    let base = format!("{}/v1/sandboxes", rig.url);
    let ask = |path: String| rig.http.get(format!("{base}/{path}"));
    let (id, other) = (rig.id, SandboxId::random());
    assert_eq!(answer(ask(format!("{id}/proxy/3000/"))).await.0, 401);
    assert_eq!(answer(ask(format!("{id}/proxy/3000/")).bearer_auth("theirs")).await.0, 404);
    assert_eq!(answer(ask(format!("{other}/proxy/3000/")).bearer_auth("mine")).await.0, 404);
    assert_eq!(answer(ask("nonsense/proxy/3000/".into()).bearer_auth("mine")).await.0, 404);
    for port in ["0", "65536", "1050", "x", "03000", "%33000"] {
        let (status, refused) = answer(ask(format!("{id}/proxy/{port}/a")).bearer_auth("mine")).await;
        assert_eq!((status, &refused["code"]), (400, &json!("port.bad_port")), "{port}");
    }
    let long = ask(format!("{id}/proxy/3000/")).bearer_auth("mine").header("x-long", "y".repeat(70 * 1024));
    assert_eq!(answer(long).await.0, 413);
    let preflight = rig.http.request(Method::OPTIONS, format!("{base}/{id}/proxy/3000/")).send().await.unwrap();
    assert_eq!(
        (preflight.status().as_u16(), &preflight.headers()["access-control-allow-origin"]),
        (204, &"*".parse().unwrap())
    );
}

#[tokio::test]
async fn what_the_host_refuses_is_said() {
    let rig = Rig::start().await;
    for (fault, expected) in [
        (
            Fault::new(FaultKind::Conflict, PORT_CLOSED, "upstream: connection refused: nothing listens on port 3000"),
            502,
        ),
        (Fault::new(FaultKind::Conflict, "sandbox.invalid_state", "the sandbox is paused"), 409),
        (Fault::new(FaultKind::Timeout, "port.silent", "timeout: port 3000"), 504),
        (Fault::new(FaultKind::Quota, "sandbox.too_many_requests", "too many"), 429),
        (Fault::no_sandbox(), 404),
    ] {
        rig.host.fail_always("connect", fault.clone());
        let response = rig.call(Method::GET, "/proxy/3000/").header("accept", "text/html").send().await.unwrap();
        assert_eq!(response.status(), expected);
        assert_eq!(response.headers()["access-control-allow-origin"], "*", "a browser may read our own refusals");
        let refused: serde_json::Value = serde_json::from_slice(&response.bytes().await.unwrap()).unwrap();
        assert_eq!((&refused["code"], &refused["error"]), (&json!(fault.code), &json!(fault.text)));
    }
}
