//! Sessions in browsers: cookies that only our own pages can use, and links that log in once.

use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value, json};

use crate::{
    people::{PASSWORD, invited, operator},
    rig::{KEY, OTHER_KEY, Rig, answer},
};

/// A browser: its pages are those of the server, and it keeps one cookie.
struct Browser<'a> {
    rig: &'a Rig,
    cookie: String,
}

impl<'a> Browser<'a> {
    fn new(rig: &'a Rig) -> Self {
        Self { rig, cookie: String::new() }
    }

    /// A request of our own page.
    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.bare(method.clone(), path).header("sec-fetch-site", "same-origin");
        match method {
            Method::GET => request,
            _ => request.header("origin", &self.rig.url).header("x-pandastack-csrf", "1"),
        }
    }

    /// A request with nothing but the cookie.
    fn bare(&self, method: Method, path: &str) -> RequestBuilder {
        self.rig.http.request(method, format!("{}{path}", self.rig.url)).header("cookie", &self.cookie)
    }

    /// Sends a request and keeps the cookie of its answer.
    async fn submit(&mut self, path: &str, body: Value) -> (u16, Value) {
        let response = self.request(Method::POST, path).json(&body).send().await.unwrap();
        if let Some(set) = set_cookie(&response) {
            self.cookie = set.split(';').next().unwrap().to_owned();
        }
        let (status, body) = (response.status().as_u16(), response.bytes().await.unwrap());
        (status, if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).unwrap() })
    }

    async fn sees(&self, path: &str) -> (u16, Value) {
        answer(self.request(Method::GET, path)).await
    }
}

fn set_cookie(response: &Response) -> Option<String> {
    response.headers().get("set-cookie").map(|value| value.to_str().unwrap().to_owned())
}

fn login() -> Value {
    json!({"email": "root@example.com", "password": PASSWORD, "cookie": true})
}

#[tokio::test]
async fn a_browser_gets_its_session_as_a_cookie_and_never_sees_the_token() {
    let rig = Rig::start().await;
    operator(&rig).await;
    let mut browser = Browser::new(&rig);
    let (status, begun) = browser.submit("/v1/auth/login", login()).await;
    assert_eq!((status, &begun["email"], begun.get("token")), (200, &json!("root@example.com"), None), "{begun}");
    assert!(browser.cookie.starts_with("pandastack_session=pss_"), "{}", browser.cookie);
    assert_eq!(browser.sees("/v1/me").await.1["auth_method"], "session");
    let made = browser.submit("/v1/volumes", json!({"name": "data", "size_mb": 16})).await;
    assert_eq!(made.0, 201, "{}", made.1);
    let before = browser.cookie.clone();
    let password = "another long password";
    let change = json!({"current_password": PASSWORD, "new_password": password, "cookie": true});
    assert_eq!(browser.submit("/v1/auth/password", change).await.0, 200);
    assert!(browser.cookie != before && browser.sees("/v1/me").await.0 == 200, "a new session");
    let old = Browser { rig: &rig, cookie: before };
    assert_eq!(old.sees("/v1/me").await.0, 401);
    let kept = browser.cookie.clone();
    let theirs = json!({"email": "root@example.com", "password": password});
    let (_, theirs) = answer(rig.http.post(format!("{}/v1/auth/login", rig.url)).json(&theirs)).await;
    let foreign = format!("{}/v1/auth/logout?access_token={}", rig.url, theirs["token"].as_str().unwrap());
    let foreign = rig.http.post(foreign).send().await.unwrap();
    assert_eq!((foreign.status().as_u16(), foreign.headers().get("set-cookie")), (204, None), "a foreign page");
    assert_eq!(browser.submit("/v1/auth/logout", json!({})).await.0, 204);
    assert_eq!(browser.cookie, "pandastack_session=", "the cookie is cleared");
    assert_eq!(Browser { rig: &rig, cookie: kept }.sees("/v1/me").await.0, 401);
}

#[tokio::test]
async fn under_https_only_the_host_itself_can_set_the_cookie() {
    let rig = Rig::start().await;
    operator(&rig).await;
    let origin = rig.url.replace("http:", "https:");
    let request = rig.http.post(format!("{}/v1/auth/login", rig.url)).header("x-forwarded-proto", "https");
    let request = request.header("origin", origin).header("x-pandastack-csrf", "1").json(&login());
    let response = request.send().await.unwrap();
    let cookie = set_cookie(&response).unwrap();
    assert!(cookie.starts_with("__Host-pandastack_session=pss_"), "{cookie}");
    for part in ["; Secure", "; HttpOnly", "; SameSite=Lax", "; Path=/"] {
        assert!(cookie.contains(part), "{part} is not in {cookie}");
    }
    assert!(!cookie.contains("Domain"), "{cookie}");
    assert_eq!(response.headers()["cache-control"], "no-store");
    // A page of the same domain can set the other name, which does not count here.
    let token = cookie.split(['=', ';']).nth(1).unwrap().to_owned();
    let tossed = Browser { rig: &rig, cookie: format!("pandastack_session={token}") };
    let request = tossed.request(Method::GET, "/v1/me").header("x-forwarded-proto", "https");
    assert_eq!(answer(request).await.0, 401);
}

#[tokio::test]
async fn no_other_page_acts_as_the_person() {
    let rig = Rig::start().await;
    operator(&rig).await;
    let mut browser = Browser::new(&rig);
    browser.submit("/v1/auth/login", login()).await;
    let own = rig.url.clone();
    let preview = rig.url.replace("127.0.0.1", "8080-abc.localhost");
    let volume = || json!({"name": "stolen", "size_mb": 16});
    let post = || browser.bare(Method::POST, "/v1/volumes").json(&volume());
    let get = || browser.bare(Method::GET, "/v1/me");
    let refused = [
        ("no mark", post().header("origin", &own)),
        ("no origin", post().header("x-pandastack-csrf", "1")),
        ("a preview", post().header("origin", &preview).header("x-pandastack-csrf", "1")),
        ("a sandboxed page", post().header("origin", "null").header("x-pandastack-csrf", "1")),
        (
            "same site",
            post().header("origin", &own).header("x-pandastack-csrf", "1").header("sec-fetch-site", "same-site"),
        ),
        ("another site reads", get().header("sec-fetch-site", "cross-site")),
        ("a preview reads", get().header("origin", &preview)),
        ("a script tag", get().header("sec-fetch-site", "same-origin").header("sec-fetch-dest", "script")),
        ("a socket without origin", get().header("connection", "upgrade").header("upgrade", "websocket")),
    ];
    for (who, request) in refused {
        let (status, body) = answer(request).await;
        assert_eq!((status, &body["code"]), (403, &json!("auth.csrf")), "{who}: {body}");
    }
    assert_eq!(browser.sees("/v1/volumes").await.1, json!([]), "nothing was made");
    // A credential that a page must know itself needs no proof.
    let key = rig.call(Method::GET, "/v1/me").header("cookie", &browser.cookie).header("origin", &preview);
    assert_eq!(answer(key).await.1["auth_method"], "token");
    let two = Browser { rig: &rig, cookie: format!("{}; pandastack_session=pss_tossed", browser.cookie) };
    assert_eq!(two.sees("/v1/me").await.1["code"], "auth.csrf", "nobody knows which one is ours");
    let key = Browser { rig: &rig, cookie: format!("pandastack_session={KEY}") };
    assert_eq!(key.sees("/v1/me").await.0, 401, "a key is no cookie");
}

#[tokio::test]
async fn another_page_logs_nobody_in() {
    let rig = Rig::start().await;
    let root = operator(&rig).await;
    let ask = json!({"email": "new@example.com", "role": "member"});
    let (_, invite) = root.send(&rig, Method::POST, &format!("/v1/orgs/{}/members", root.org), ask).await;
    let register = json!({"invite": invite["token"], "password": PASSWORD, "cookie": true});
    let link = json!({"token": "psl_x", "cookie": true});
    let code = json!({"code": "x", "verifier": "x", "cookie": true});
    let forms = [
        ("/v1/auth/login", login()),
        ("/v1/auth/register", register),
        ("/v1/auth/link", link),
        ("/v1/auth/oidc/token", code),
    ];
    for (path, body) in forms {
        for (name, value) in [("origin", rig.url.as_str()), ("x-pandastack-csrf", "1"), ("origin", "null")] {
            let request = rig.http.post(format!("{}{path}", rig.url)).header(name, value).json(&body);
            let response = request.send().await.unwrap();
            assert_eq!((response.status().as_u16(), set_cookie(&response)), (403, None), "{path} {name}");
        }
    }
}

#[tokio::test]
async fn answers_of_the_api_do_nothing_as_pages_and_allow_no_foreign_mark() {
    let rig = Rig::start().await;
    for path in ["/v1/me", "/v1/nothing", "/healthz"] {
        let response = rig.call(Method::GET, path).send().await.unwrap();
        let policy = response.headers()["content-security-policy"].to_str().unwrap();
        assert!(policy.contains("sandbox") && policy.contains("frame-ancestors 'none'"), "{path}: {policy}");
        assert_eq!(response.headers()["cache-control"], "no-store", "{path}");
        let allowed = response.headers()["access-control-allow-headers"].to_str().unwrap();
        assert!(!allowed.contains("csrf") && !allowed.contains("forwarded"), "{allowed}");
        assert!(!response.headers().contains_key("access-control-allow-credentials"));
    }
}

#[tokio::test]
async fn the_operators_link_makes_the_first_account_and_later_logs_in() {
    let rig = Rig::start().await;
    let link = rig.control.operator_link().unwrap();
    let mut browser = Browser::new(&rig);
    let use_it = |token: &str| json!({"token": token, "cookie": true});
    let (status, refused) = browser.submit("/v1/auth/link", use_it(link.reveal())).await;
    assert_eq!((status, &refused["code"]), (409, &json!("auth.setup_required")), "{refused}");
    let set_up = |password: &str, link: &str| json!({"email": "root@example.com", "password": password, "link": link, "cookie": true});
    for (password, token, expected) in
        [("short", link.reveal().as_str(), 400), (PASSWORD, "psl_x", 410), (PASSWORD, link.reveal().as_str(), 201)]
    {
        let (status, body) = browser.submit("/v1/auth/setup", set_up(password, token)).await;
        assert_eq!(status, expected, "{body}");
    }
    assert_eq!(browser.sees("/v1/me").await.1["operator"], true);
    let again = browser.submit("/v1/auth/link", use_it(link.reveal())).await;
    assert_eq!((again.0, &again.1["code"]), (410, &json!("auth.link_over")), "it is used up");
    let second = rig.control.operator_link().unwrap();
    let mut other = Browser::new(&rig);
    assert_eq!(other.submit("/v1/auth/link", use_it(second.reveal())).await.1["email"], "root@example.com");
    assert_eq!(other.submit("/v1/auth/link", use_it(second.reveal())).await.0, 410, "once");
    let stored = rig.stored().await;
    assert!(!stored.windows(second.reveal().len()).any(|bytes| bytes == second.reveal().as_bytes()));
    let third = rig.control.operator_link().unwrap();
    let (status, _) = browser.submit("/v1/auth/setup", set_up(PASSWORD, third.reveal())).await;
    assert_eq!(status, 409, "there is an account");
}

#[tokio::test]
async fn a_login_makes_links_for_itself_and_a_key_for_nobody() {
    let rig = Rig::start().await;
    let (status, link) = rig.post("/v1/auth/links").await;
    assert_eq!((status, &link["setup"]), (201, &json!(true)), "a key may make the first account: {link}");
    let token = link["token"].as_str().unwrap().to_owned();
    assert_eq!(link["url"], format!("{}/welcome#{token}", rig.url));
    assert_eq!(rig.stranger(Method::POST, "/v1/auth/links").await.0, 403, "not one of a tenant ({OTHER_KEY})");
    let root = operator(&rig).await;
    let mut browser = Browser::new(&rig);
    let use_it = |token: &Value| json!({"token": token, "cookie": true});
    assert_eq!(browser.submit("/v1/auth/link", use_it(&link["token"])).await.0, 410, "it never logs in");
    let (status, refused) = rig.post("/v1/auth/links").await;
    assert_eq!((status, &refused["code"]), (403, &json!("auth.not_a_session")), "{refused}");
    let member = invited(&rig, &root, "bob@example.com", "member").await;
    let (status, link) = member.post(&rig, "/v1/auth/links").await;
    assert_eq!((status, &link["setup"]), (201, &json!(false)));
    assert_eq!(browser.submit("/v1/auth/link", use_it(&link["token"])).await.1["email"], "bob@example.com");
    // The link ends with the login that made it.
    let (_, link) = member.post(&rig, "/v1/auth/links").await;
    assert_eq!(member.post(&rig, "/v1/auth/logout").await.0, 204);
    assert_eq!(browser.submit("/v1/auth/link", use_it(&link["token"])).await.0, 410);
}
