//! Previews without a key: by host name, and by signed link.

use pandastack_model::{Fault, FaultKind, SandboxId};
use pandastack_wire_public::{PORT_CLOSED, WAKE_FAILED};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::{
    guest::{begin, head, say},
    rig::{Rig, answer, within},
};

fn named(rig: &Rig, method: Method, host: &str, path: &str) -> RequestBuilder {
    rig.http.request(method, format!("{}{path}", rig.url)).header("host", host)
}

/// A request to the host name of a signed link.
fn signed(rig: &Rig, method: Method, path: &str) -> RequestBuilder {
    named(rig, method, &rig.link(path), &format!("/v1/p/{path}"))
}

/// Answers one request and returns the head that the guest received.
async fn seen(rig: &mut Rig, request: RequestBuilder, port: u16) -> String {
    let request = begin(&rig.scope, request.send());
    let mut connected = rig.connected().await;
    assert_eq!((connected.id, connected.port.get()), (rig.id, port));
    let seen = head(&mut connected.stream).await;
    say(&mut connected.stream, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi").await;
    let response = within("an answer", request).await.unwrap().unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.text().await.unwrap(), "hi");
    seen
}

#[tokio::test]
async fn a_name_leads_to_its_port_whatever_the_path_and_method() {
    let mut rig = Rig::start().await;
    for (method, path) in [
        ("GET", "/"),
        ("POST", "/v1/sandboxes?x=1"),
        ("OPTIONS", "/healthz"),
        ("DELETE", "/a//b/../c%2F"),
        ("GET", "/v1/p/x/"),
    ] {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let host = rig.preview(8080);
        // Raw text, because the client library would normalize the path.
        let mut client = rig.raw().await;
        say(&mut client, &format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n\r\n")).await;
        let mut connected = rig.connected().await;
        assert_eq!((connected.id, connected.port.get()), (rig.id, 8080));
        let seen = head(&mut connected.stream).await.to_ascii_lowercase();
        let expected = format!("{method} {path} http/1.1\r\n").to_ascii_lowercase();
        assert!(seen.starts_with(&expected), "{seen}");
        assert!(
            seen.contains(&format!("\r\nhost: {host}\r\n"))
                && seen.contains(&format!("\r\nx-forwarded-host: {host}\r\n"))
        );
    }
}

#[tokio::test]
async fn names_have_no_case_and_may_carry_a_port() {
    let mut rig = Rig::start().await;
    for host in
        [rig.preview(3000).to_uppercase(), format!("{}:8080", rig.preview(3000)), format!("{}.", rig.preview(3000))]
    {
        let request = named(&rig, Method::GET, &host, "/");
        seen(&mut rig, request, 3000).await;
    }
}

#[tokio::test]
async fn only_platform_credentials_are_taken_off() {
    let mut rig = Rig::start().await;
    for (sent, passes) in [("Bearer pds_0123", false), ("Bearer eyJhbGciOi", true), ("Basic dTpw", true)] {
        let request = named(&rig, Method::GET, &rig.preview(3000), "/").header("authorization", sent);
        let seen = seen(&mut rig, request, 3000).await;
        assert_eq!(seen.contains(&format!("authorization: {sent}")), passes, "{seen}");
        assert_eq!(seen.contains("authorization"), passes, "{seen}");
    }
}

#[tokio::test]
async fn everything_else_is_the_apis() {
    let rig = Rig::start().await;
    for host in [
        "box.example".to_owned(),
        "api.box.example".to_owned(),
        format!("3000-{}.other.example", rig.id),
        format!("x.{}", rig.preview(3000)),
        format!("0-{}.box.example", rig.id),
        format!("70000-{}.box.example", rig.id),
    ] {
        let path = format!("/v1/sandboxes/{}/exec", rig.id);
        assert_eq!(answer(named(&rig, Method::POST, &host, &path)).await.0, 401, "{host}");
    }
}

#[tokio::test]
async fn names_that_lead_nowhere_are_not_found() {
    let rig = Rig::start().await;
    for host in [
        format!("3000-{}.box.example", SandboxId::random()),
        "3000-nobody.box.example".to_owned(),
        format!("1050-{}.box.example", rig.id),
    ] {
        let (status, refused) = answer(named(&rig, Method::GET, &host, "/")).await;
        assert_eq!(status, 404, "{host}");
        assert!(!refused["error"].as_str().unwrap().is_empty(), "{refused}");
    }
}

#[tokio::test]
async fn failures_are_pages_for_people_and_json_for_programs() {
    let rig = Rig::start().await;
    for (fault, status) in [
        (Fault::new(FaultKind::Conflict, PORT_CLOSED, "upstream: connection refused: <nothing> listens"), 502),
        (Fault::new(FaultKind::Conflict, "sandbox.invalid_state", "the sandbox is paused"), 503),
        (Fault::new(FaultKind::Unavailable, WAKE_FAILED, "auto-wake: no memory"), 503),
        (Fault::no_sandbox(), 404),
    ] {
        rig.host.fail_always("connect", fault.clone());
        for link in [false, true] {
            let ask = || match link {
                false => named(&rig, Method::GET, &rig.preview(3000), "/x"),
                true => named(&rig, Method::GET, &rig.link("all"), "/x").header("cookie", "pandastack_preview=all"),
            };
            let (found, refused) = answer(ask().header("accept", "application/json")).await;
            assert_eq!((found, &refused["code"]), (status, &json!(fault.code)));
            let page = ask().header("accept", "text/html,application/xhtml+xml,*/*;q=0.8").send().await.unwrap();
            assert_eq!(page.status(), status);
            assert_eq!(page.headers()["content-type"], "text/html; charset=utf-8");
            assert_eq!(page.headers()["cache-control"], "no-store");
            let text = page.text().await.unwrap();
            assert!(text.contains(&format!("<h1>{status} ")) && !text.contains("<nothing>"), "{text}");
        }
    }
}

#[tokio::test]
async fn a_signed_link_leads_to_its_port_without_a_key() {
    let mut rig = Rig::start().await;
    for (path, expected) in [
        ("all", "/"),
        ("all/", "/"),
        ("all?x=1", "/?x=1"),
        ("all/a%20b//c?x=1", "/a%20b//c?x=1"),
        ("docs/docs/page?x=/secret", "/docs/page?x=/secret"),
    ] {
        let request = signed(&rig, Method::GET, path);
        let seen = seen(&mut rig, request, 3000).await;
        assert!(seen.starts_with(&format!("GET {expected} HTTP/1.1\r\n")), "{path}: {seen}");
    }
    let request = begin(&rig.scope, signed(&rig, Method::GET, "all/").send());
    let mut stream = rig.connected().await.stream;
    head(&mut stream).await;
    say(&mut stream, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
    let response = request.await.unwrap().unwrap();
    assert_eq!(response.headers()["referrer-policy"], "same-origin", "the token is not told to other sites");
    let request = signed(&rig, Method::OPTIONS, "all/x").header("origin", "https://a.example");
    assert!(seen(&mut rig, request, 3000).await.starts_with("OPTIONS /x "));
}

#[tokio::test]
async fn bad_tokens_are_unauthorized_and_old_sandboxes_gone() {
    let rig = Rig::start().await;
    for token in ["forged", "e30.e30", "%20", "all%2f..", "docs%00"] {
        let (status, refused) = answer(signed(&rig, Method::GET, &format!("{token}/x"))).await;
        assert_eq!(
            (status, &refused["error"], &refused["code"]),
            (401, &json!("unauthorized"), &json!("preview.bad_token"))
        );
    }
    assert_eq!(answer(signed(&rig, Method::GET, "gone/x")).await.0, 404);
    let page = signed(&rig, Method::GET, "forged/x").header("accept", "text/html").send().await.unwrap();
    assert_eq!(page.status(), 401);
    assert!(page.text().await.unwrap().contains("this preview link is not valid"));
}

#[tokio::test]
async fn no_spelling_of_a_path_walks_around_a_rule() {
    let rig = Rig::start().await;
    for path in [
        "/",
        "/secret",
        "/docsx",
        "/docs/../secret",
        "/docs/%2e%2e/secret",
        "/docs/%252e%252e/secret",
        "/docs//secret",
        "//docs/../secret",
        "/docs/..%2fsecret",
        "/docs%2f..%2fsecret",
        "/docs/..%5csecret",
        "/docs/..;/secret",
    ] {
        // Raw text, because the client library would normalize the path.
        let mut client = rig.raw().await;
        let host = rig.link("docs");
        say(&mut client, &format!("GET /v1/p/docs{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")).await;
        let mut text = String::new();
        within("an answer", tokio::io::AsyncReadExt::read_to_string(&mut client, &mut text)).await.unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 403 "), "{path}: {text}");
        let body: Value = serde_json::from_str(body).unwrap();
        assert_eq!((&body["requested"], &body["allowed_paths"]), (&json!(path), &json!(["/docs"])));
        assert_eq!(body["code"], "preview.path_not_allowed");
    }
    let backslash = rig.raw().await;
    let mut client = backslash;
    say(&mut client, "GET /v1/p/docs/docs/..\\secret HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
    let mut text = String::new();
    within("an answer", tokio::io::AsyncReadExt::read_to_string(&mut client, &mut text)).await.unwrap();
    assert!(text.starts_with("HTTP/1.1 40"), "a backslash is refused, here or before: {text}");
}

/// Sends a request, lets the program reply with this text, and returns the response.
async fn answered(rig: &mut Rig, request: RequestBuilder, said: &str) -> reqwest::Response {
    let request = begin(&rig.scope, request.send());
    let mut stream = rig.connected().await.stream;
    head(&mut stream).await;
    say(&mut stream, said).await;
    within("an answer", request).await.unwrap().unwrap()
}

/// Response headers that must not reach a browser.
const HOSTILE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Mine: 1\r\nService-Worker-Allowed: \
    /\r\nClear-Site-Data: \"*\"\r\n\
    NEL: {\"include_subdomains\":true}\r\nReport-To: {}\r\nReporting-Endpoints: a=\"https://evil.example\"\r\n\
    Public-Key-Pins: pin\r\nStrict-Transport-Security: max-age=9; includeSubDomains\r\nAlt-Svc: h3=\":1\"\r\n\
    Origin-Agent-Cluster: ?1\r\nAccess-Control-Allow-Credentials: true\r\nSet-Cookie: a=1; Domain=box.example; \
    Path=/\r\n\
    Set-Cookie: b=2; domain=.example\r\nSet-Cookie: c=3; HttpOnly\r\nSet-Cookie: pandastack_preview=theirs\r\n\r\n";

#[tokio::test]
async fn an_answer_changes_nothing_outside_of_its_own_origin() {
    let mut rig = Rig::start().await;
    let own = ["a=1; Path=/", "b=2", "c=3; HttpOnly"].map(str::to_owned);
    let below = format!("Path=/v1/sandboxes/{}/proxy/3000/", rig.id);
    let proxied = [format!("a=1; {below}"), format!("b=2; {below}"), format!("c=3; HttpOnly; {below}")];
    let requests = [
        (named(&rig, Method::GET, &rig.preview(3000), "/"), &own, true),
        (signed(&rig, Method::GET, "all/"), &own, true),
        (rig.call(Method::GET, "/proxy/3000/"), &proxied, false),
    ];
    for (request, cookies, own_origin) in requests {
        let response = answered(&mut rig, request, HOSTILE).await;
        let headers = response.headers();
        for name in [
            "service-worker-allowed",
            "clear-site-data",
            "nel",
            "report-to",
            "reporting-endpoints",
            "public-key-pins",
            "strict-transport-security",
            "alt-svc",
        ] {
            assert!(!headers.contains_key(name), "{name} in {headers:?}");
        }
        let set: Vec<_> = headers.get_all("set-cookie").iter().map(|value| value.to_str().unwrap()).collect();
        assert_eq!(set, *cookies);
        assert!(headers.contains_key("x-mine") && headers.contains_key("origin-agent-cluster"));
        assert_eq!(headers.contains_key("access-control-allow-credentials"), own_origin);
        // A page on the API's own host name is put into its own origin.
        let policy = headers.get("content-security-policy").map(|value| value.to_str().unwrap());
        assert_eq!(
            policy.is_some_and(|policy| policy.starts_with("sandbox") && !policy.contains("same-origin")),
            !own_origin
        );
    }
}

#[tokio::test]
async fn nothing_of_a_sandbox_is_served_on_the_apis_own_name_without_a_key() {
    let rig = Rig::start().await;
    let http = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    for (path, expected) in [
        ("all", "/v1/p/all/"),
        ("docs/docs/a?x=1", "/v1/p/docs/docs/a?x=1"),
        ("all//evil.example", "/v1/p/all//evil.example"),
    ] {
        for host in ["api.box.example:8080", "127.0.0.1:8080"] {
            let request = http.post(format!("{}/v1/p/{path}", rig.url)).header("host", host).body("kept");
            let moved = within("an answer", request.send()).await.unwrap();
            assert_eq!(moved.status(), 307, "{path}");
            assert_eq!(moved.headers()["location"], format!("http://{}:8080{expected}", rig.link(path)));
            assert_eq!(moved.headers()["cache-control"], "no-store");
        }
    }
    let ask = |path: &str| rig.http.get(format!("{}/v1/p/{path}", rig.url));
    assert_eq!(answer(ask("forged/x")).await.0, 401);
    assert_eq!(answer(ask("gone/x")).await.0, 404);
    assert_eq!(answer(ask("docs/secret")).await.0, 403);
}

#[tokio::test]
async fn a_browser_gets_a_cookie_for_the_host_of_its_link_alone() {
    let mut rig = Rig::start().await;
    let http = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let visit = |path: &str| {
        http.get(format!("{}/v1/p/{path}", rig.url)).header("host", rig.link(path)).header("accept", "text/html")
    };
    let entered = within("an answer", visit("all//evil.example/a?x=1").send()).await.unwrap();
    assert_eq!(entered.status(), 303);
    assert_eq!(entered.headers()["location"], format!("http://{}//evil.example/a?x=1", rig.link("all")));
    assert_eq!(entered.headers()["set-cookie"], "pandastack_preview=all; Path=/; HttpOnly; SameSite=Lax");
    let entered = within("an answer", visit("all/").header("x-forwarded-proto", "https").send()).await.unwrap();
    let cookie = entered.headers()["set-cookie"].to_str().unwrap();
    assert!(
        cookie.starts_with("__Host-pandastack_preview=all; Path=/; Secure;") && !cookie.contains("Domain"),
        "{cookie}"
    );

    let framed = visit("all/").header("sec-fetch-dest", "iframe");
    // The cookie opens the whole origin, and the program never receives it.
    let request = named(&rig, Method::GET, &rig.link("all"), "/app.js?x=1");
    let request = request.header("cookie", "a=1; pandastack_preview=other; pandastack_preview=all");
    let seen = seen(&mut rig, request, 3000).await;
    assert!(seen.starts_with("GET /app.js?x=1 ") && seen.contains("cookie: a=1\r\n"), "{seen}");
    // The token's rules apply to it, and another link's token does not open this host.
    let ask = |host: String, cookie: &str| {
        named(&rig, Method::GET, &host, "/secret").header("cookie", format!("pandastack_preview={cookie}"))
    };
    assert_eq!(answer(ask(rig.link("docs"), "docs")).await.0, 403);
    assert_eq!(answer(ask(rig.link("docs"), "all")).await.0, 401);
    assert_eq!(answer(named(&rig, Method::GET, &rig.link("all"), "/")).await.0, 401);
    assert_eq!(answer(named(&rig, Method::GET, &rig.link("docs"), "/v1/p/all/")).await.0, 401);
    // In a frame of another site the browser would not send the cookie, so there is no redirect.
    assert_eq!(answered(&mut rig, framed, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await.status(), 200);
}
