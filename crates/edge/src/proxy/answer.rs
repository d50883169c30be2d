//! Filters the response headers of programs in guests. The code there is untrusted, so a response
//! must not affect anything outside its own origin. See "Headers of answers" in docs/previews.md.

use axum::http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{
        ACCESS_CONTROL_ALLOW_CREDENTIALS, ALT_SVC, CONTENT_SECURITY_POLICY, SET_COOKIE, STRICT_TRANSPORT_SECURITY,
    },
};

use pandastack_door::http::is_session_cookie;

use super::{ProxyTarget, head::AuthorizationOwner, head::keep};

/// Headers that a browser stores for an origin, a host or a domain, beyond the one response.
static REMOVED: [HeaderName; 16] = [
    ALT_SVC,
    HeaderName::from_static("accept-ch"),
    HeaderName::from_static("clear-site-data"),
    HeaderName::from_static("critical-ch"),
    HeaderName::from_static("expect-ct"),
    HeaderName::from_static("nel"),
    HeaderName::from_static("public-key-pins"),
    HeaderName::from_static("public-key-pins-report-only"),
    HeaderName::from_static("report-to"),
    HeaderName::from_static("reporting-endpoints"),
    HeaderName::from_static("sec-session-registration"),
    HeaderName::from_static("secure-session-registration"),
    HeaderName::from_static("service-worker-allowed"),
    HeaderName::from_static("set-login"),
    STRICT_TRANSPORT_SECURITY,
    HeaderName::from_static("use-as-dictionary"),
];

/// Cookie with the token of a signed link. With TLS it has the `__Host-` prefix, which only the
/// host itself can set.
pub const LINK_COOKIE: &str = "pandastack_preview";
pub const LINK_COOKIE_TLS: &str = "__Host-pandastack_preview";

/// Gives a page from the proxy its own origin, instead of the API's.
const SANDBOXED: HeaderValue =
    HeaderValue::from_static("sandbox allow-scripts allow-forms allow-popups allow-downloads allow-modals");

/// Removes everything from a response that has an effect outside its own origin.
pub fn confine(headers: &mut HeaderMap, target: &ProxyTarget) {
    for name in &REMOVED {
        headers.remove(name);
    }
    match target.credential {
        AuthorizationOwner::Anybody => keep(headers, &SET_COOKIE, |value| confine_cookie(&value, None)),
        // The proxy with a key is on the API's own origin.
        AuthorizationOwner::Platform => {
            let below = format!("/v1/sandboxes/{}/proxy/{}", target.sandbox, target.port);
            keep(headers, &SET_COOKIE, |value| confine_cookie(&value, Some(&below)));
            headers.remove(ACCESS_CONTROL_ALLOW_CREDENTIALS);
            headers.append(CONTENT_SECURITY_POLICY, SANDBOXED);
        }
    }
}

/// Restricts a cookie to its host by removing `Domain`, and to the paths below a prefix if there is
/// one. `None` for a cookie of ours, also if it is hidden in a cookie without a name.
fn confine_cookie(value: &HeaderValue, below: Option<&str>) -> Option<HeaderValue> {
    let mut parts = value.as_bytes().split(|byte| *byte == b';');
    let pair = parts.next().unwrap_or_default();
    if is_link_cookie(pair) || is_login_cookie(pair) {
        return None;
    }
    let mut kept: Vec<Vec<u8>> = vec![pair.to_vec()];
    let mut path: &[u8] = b"/";
    for part in parts {
        let (name, value) = split_pair(part);
        if name.eq_ignore_ascii_case(b"domain") {
            continue;
        }
        if below.is_some() && name.eq_ignore_ascii_case(b"path") {
            path = if value.starts_with(b"/") { value } else { b"/" };
            continue;
        }
        kept.push(part.to_vec());
    }
    kept.extend(below.map(|below| [b" Path=", below.as_bytes(), path].concat()));
    HeaderValue::from_bytes(&kept.join(&b';')).ok()
}

/// Tells whether `name=value` is the cookie of a signed link, in any spelling.
fn is_link_cookie(pair: &[u8]) -> bool {
    is_named(pair, |text| [LINK_COOKIE, LINK_COOKIE_TLS].iter().any(|name| text.eq_ignore_ascii_case(name.as_bytes())))
}

/// Tells whether `name=value` is the cookie of a person's session, in any spelling.
fn is_login_cookie(pair: &[u8]) -> bool {
    is_named(pair, is_session_cookie)
}

fn is_named(pair: &[u8], ours: impl Fn(&[u8]) -> bool) -> bool {
    let (name, value) = split_pair(pair);
    // A browser sends a cookie without a name as its value alone, and that value may be
    // `pandastack_preview=…`.
    ours(name) || (name.is_empty() && ours(split_pair(value).0))
}

/// Removes our own cookies from a request and returns the tokens of signed links among them.
pub fn take_link_tokens(headers: &mut HeaderMap) -> Vec<String> {
    let mut tokens = Vec::new();
    let values: Vec<HeaderValue> = headers.get_all(axum::http::header::COOKIE).iter().cloned().collect();
    headers.remove(axum::http::header::COOKIE);
    for value in values {
        let pairs = value.as_bytes().split(|byte| *byte == b';').filter(|pair| !is_login_cookie(pair));
        let (ours, others): (Vec<&[u8]>, Vec<&[u8]>) = pairs.partition(|pair| is_link_cookie(pair));
        tokens.extend(ours.iter().filter_map(|pair| String::from_utf8(split_pair(pair).1.to_vec()).ok()));
        let left = others.join(&b';');
        if let Some(left) = HeaderValue::from_bytes(left.trim_ascii()).ok().filter(|left| !left.is_empty()) {
            headers.append(axum::http::header::COOKIE, left);
        }
    }
    tokens
}

fn split_pair(text: &[u8]) -> (&[u8], &[u8]) {
    match text.iter().position(|byte| *byte == b'=') {
        Some(at) => (text[..at].trim_ascii(), text[at + 1..].trim_ascii()),
        None => (text.trim_ascii(), b""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(cookie: &str, below: Option<&str>, expected: Option<&str>) {
        let found = confine_cookie(&HeaderValue::from_str(cookie).unwrap(), below);
        assert_eq!(found.as_ref().map(|value| value.to_str().unwrap()), expected, "{cookie}");
    }

    #[test]
    fn cookies_belong_to_their_host_alone() {
        check("a=1; Path=/; HttpOnly", None, Some("a=1; Path=/; HttpOnly"));
        check("a=1; Domain=localhost; Path=/", None, Some("a=1; Path=/"));
        check("a=domain=x;DOMAIN = .box.example ; Secure;domain", None, Some("a=domain=x; Secure"));
        check("a", None, Some("a"));
        check("", None, Some(""));
    }

    #[test]
    fn cookies_of_the_proxy_stay_below_it() {
        check("a=1", Some("/p"), Some("a=1; Path=/p/"));
        check("a=1; Path=/app; path=/x; Secure", Some("/p"), Some("a=1; Secure; Path=/p/x"));
        check("a=1; Path=evil; Domain=x", Some("/p"), Some("a=1; Path=/p/"));
    }

    #[test]
    fn programs_cannot_set_our_cookies() {
        for cookie in [
            "pandastack_preview=x",
            " Pandastack_Preview =x; Path=/",
            "__Host-pandastack_preview=x",
            "=pandastack_preview=x",
            "pandastack_session=x",
            "__HOST-pandastack_Session=x; Path=/",
            "=pandastack_session=x",
        ] {
            check(cookie, None, None);
        }
        check("pandastack_preview2=x", None, Some("pandastack_preview2=x"));
    }

    #[test]
    fn tokens_are_taken_out_of_requests() {
        let mut headers = HeaderMap::new();
        headers.append("cookie", "a=1; pandastack_preview=t.1; b=2".parse().unwrap());
        headers.append("cookie", "pandastack_preview=t.2".parse().unwrap());
        assert_eq!(take_link_tokens(&mut headers), ["t.1", "t.2"]);
        let left: Vec<_> = headers.get_all("cookie").iter().collect();
        assert_eq!(left, ["a=1; b=2"]);
    }
}
