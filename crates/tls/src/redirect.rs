//! The plain listener beside https. It redirects to https, answers the challenges of an ACME
//! server, and does nothing else.

use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderValue, Method, StatusCode, header, uri::Authority},
    response::{IntoResponse, Response},
};

use crate::{challenge::HttpChallenges, set::CertificateSet};

const CHALLENGES: &str = "/.well-known/acme-challenge/";

#[derive(Clone)]
struct RedirectState {
    set: CertificateSet,
    challenges: HttpChallenges,
    port: u16,
}

/// Makes the app. `port` is where clients reach https.
pub fn redirect_app(set: CertificateSet, challenges: HttpChallenges, port: u16) -> Router {
    Router::new().fallback(answer).with_state(RedirectState { set, challenges, port })
}

async fn answer(State(state): State<RedirectState>, request: Request) -> Response {
    if let Some(token) = request.uri().path().strip_prefix(CHALLENGES) {
        return challenge(&state.challenges, request.method(), token);
    }
    match location(&state, &request) {
        Some(address) => (StatusCode::PERMANENT_REDIRECT, [(header::LOCATION, address)]).into_response(),
        None => (StatusCode::MISDIRECTED_REQUEST, "this server has no such host name; use its https address\n")
            .into_response(),
    }
}

fn challenge(challenges: &HttpChallenges, method: &Method, token: &str) -> Response {
    let found = (method == Method::GET).then(|| challenges.get(token)).flatten();
    match found {
        Some(answer) => ([(header::CONTENT_TYPE, "application/octet-stream")], answer).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// The same address with https. Only host names of our certificates are repeated, so that the
/// answer can lead nowhere else.
fn location(state: &RedirectState, request: &Request) -> Option<HeaderValue> {
    let named = request.headers().get(header::HOST).and_then(|host| host.to_str().ok()?.parse::<Authority>().ok());
    let host = request.uri().authority().cloned().or(named)?;
    if host.as_str().contains('@') || !state.set.knows(host.host()) {
        return None;
    }
    let port = if state.port == 443 { String::new() } else { format!(":{}", state.port) };
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let path = if path.starts_with('/') { path } else { "/" };
    HeaderValue::from_str(&format!("https://{}{port}{path}", host.host())).ok()
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use tower::ServiceExt as _;

    use super::*;

    async fn ask(port: u16, method: &str, host: &str, uri: &str) -> (u16, String) {
        let set = CertificateSet::default();
        set.add(vec!["api.example".to_owned(), "*.box.example".to_owned()]);
        let challenges = HttpChallenges::default();
        challenges.put("token", "token.thumb");
        let app = redirect_app(set, challenges, port);
        let request = Request::builder().method(method).uri(uri).header("host", host).body(Body::empty()).unwrap();
        let response = app.oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let to = response.headers().get("location").map(|to| to.to_str().unwrap().to_owned());
        let body = to_bytes(response.into_body(), 1000).await.unwrap();
        (status, to.unwrap_or_else(|| String::from_utf8(body.to_vec()).unwrap()))
    }

    #[tokio::test]
    async fn our_own_names_lead_to_https_and_no_other_does() {
        let to = |text: &str| (308, text.to_owned());
        assert_eq!(ask(443, "GET", "api.example", "/v1/x?y=%2F").await, to("https://api.example/v1/x?y=%2F"));
        assert_eq!(ask(8443, "POST", "API.example:80", "/").await, to("https://API.example:8443/"));
        assert_eq!(
            ask(443, "GET", "3-x.box.example", "//evil.example/").await,
            to("https://3-x.box.example//evil.example/")
        );
        assert_eq!(ask(443, "GET", "evil.example", "http://api.example/").await, to("https://api.example/"));
        for host in ["evil.example", "api.example@evil.example", "", "a b", "127.0.0.1", "[::1]:80", "box.example"] {
            assert_eq!(ask(443, "GET", host, "/").await.0, 421, "{host}");
        }
        assert_eq!(ask(443, "GET", "api.example", "http://u@api.example/").await.0, 421);
        assert_eq!(ask(443, "GET", "api.example", "http://evil.example/").await.0, 421);
    }

    #[tokio::test]
    async fn a_challenge_is_answered_while_it_is_known() {
        let at = |token: &str| format!("/.well-known/acme-challenge/{token}");
        assert_eq!(ask(443, "GET", "anything", &at("token")).await, (200, "token.thumb".to_owned()));
        for (method, token) in [("POST", "token"), ("GET", "other"), ("GET", ""), ("GET", "token/x")] {
            assert_eq!(ask(443, method, "api.example", &at(token)).await.0, 404, "{method} {token}");
        }
    }
}
