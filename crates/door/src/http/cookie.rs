//! The session cookie of browsers. A browser sends it with requests of any page, so it counts only
//! if our own page sent the request. `SameSite` does not prove that: previews of sandboxes are on
//! the same site as the dashboard. See docs/decisions/0044-dashboard.md.

use std::time::Duration;

use axum::http::{
    HeaderMap, HeaderName, HeaderValue, Method, Uri,
    header::{COOKIE, ORIGIN, UPGRADE},
};
use pandastack_model::{Fault, FaultKind};

use super::{base::authority, forwarded_proto};

/// The cookie, by http. Another port or a page of the same domain can set one too.
pub const SESSION_COOKIE: &str = "pandastack_session";
/// The cookie, by https. Only this host can set it.
pub const SESSION_COOKIE_TLS: &str = "__Host-pandastack_session";

/// The header by which our own pages prove themselves. Pages of other origins cannot set it,
/// because no CORS answer allows it.
pub const CSRF: &str = "x-pandastack-csrf";
const CSRF_VALUE: &[u8] = b"1";

/// Prefix of the tokens of sessions. No other credential works as a cookie.
const SESSION_PREFIX: &str = "pss_";

/// What our pages use answers of the API for. None of them runs what a guest wrote.
const DATA_DESTS: [&[u8]; 6] = [b"empty", b"document", b"image", b"audio", b"video", b"websocket"];

/// The session of a request's cookie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CookieSession {
    None,
    Token(String),
    /// There is a cookie, but our own page may not have sent it.
    Refused,
}

/// Reads the session of a request's cookie.
pub fn cookie_session(method: &Method, headers: &HeaderMap, uri: &Uri) -> CookieSession {
    let name = if is_https(headers) { SESSION_COOKIE_TLS } else { SESSION_COOKIE };
    let mut tokens: Vec<&str> = cookie_values(headers, name).collect();
    tokens.retain(|token| token.starts_with(SESSION_PREFIX));
    tokens.dedup();
    match tokens[..] {
        [] => CookieSession::None,
        [token] if is_own_page(method, headers, uri) => CookieSession::Token(token.to_owned()),
        // Of several, all but one were set by somebody else. Nothing tells which.
        _ => CookieSession::Refused,
    }
}

/// Checks that our own page sent a request whose answer sets a cookie. Otherwise another page could
/// log somebody in as somebody else.
pub fn check_own_page(method: &Method, headers: &HeaderMap, uri: &Uri) -> Result<(), Fault> {
    if is_own_page(method, headers, uri) { Ok(()) } else { Err(not_our_page()) }
}

/// The fault of a request that another site may have sent.
pub fn not_our_page() -> Fault {
    let text = "another site may have sent this request with this browser's session cookie: send it from a page of \
                this server with the header x-pandastack-csrf: 1, or use an Authorization header; behind a proxy, \
                pass Host and X-Forwarded-Proto through";
    Fault::new(FaultKind::Forbidden, "auth.csrf", text)
}

/// Returns the header that stores a session in a browser.
pub fn store_session(headers: &HeaderMap, token: &str, age: Duration) -> Result<HeaderValue, Fault> {
    set_cookie(headers, token, age.as_secs())
}

/// Returns the header that removes the session from a browser.
pub fn clear_session(headers: &HeaderMap) -> Result<HeaderValue, Fault> {
    set_cookie(headers, "", 0)
}

fn set_cookie(headers: &HeaderMap, value: &str, seconds: u64) -> Result<HeaderValue, Fault> {
    let scope = format!("Path=/; HttpOnly; SameSite=Lax; Max-Age={seconds}");
    let cookie = match is_https(headers) {
        true => format!("{SESSION_COOKIE_TLS}={value}; Secure; {scope}"),
        false => format!("{SESSION_COOKIE}={value}; {scope}"),
    };
    HeaderValue::try_from(cookie).map_err(Fault::bug)
}

fn is_https(headers: &HeaderMap) -> bool {
    forwarded_proto(headers) == "https"
}

/// Returns the values of the cookies with a name. Cookies of other programs are in the same header,
/// and need not be text.
pub fn cookie_values<'a>(headers: &'a HeaderMap, name: &'a str) -> impl Iterator<Item = &'a str> {
    let pairs = headers.get_all(COOKIE).iter().flat_map(|value| value.as_bytes().split(|byte| *byte == b';'));
    let pairs = pairs.filter_map(|pair| str::from_utf8(pair).ok()?.trim().split_once('='));
    pairs.filter_map(move |(found, value)| (found == name).then_some(value))
}

fn is_own_page(method: &Method, headers: &HeaderMap, uri: &Uri) -> bool {
    let upgrades = headers.contains_key(UPGRADE);
    let reads = matches!(*method, Method::GET | Method::HEAD) && !upgrades;
    // `none`: the person typed the address, or opened a bookmark.
    let site = headers.get(HeaderName::from_static("sec-fetch-site"));
    let is_near = site.is_none_or(|site| matches!(site.as_bytes(), b"same-origin" | b"none"));
    let mut origins = headers.get_all(ORIGIN).iter();
    let is_ours = match (origins.next(), origins.next()) {
        (None, _) => reads,
        (Some(origin), None) => is_own_origin(origin, headers, uri),
        (Some(_), Some(_)) => false,
    };
    // A page cannot set headers of a socket; its origin is the proof.
    let is_proven = reads || upgrades || is_marked(headers);
    is_near && is_data(headers) && is_ours && is_proven
}

/// Whether a page wants the answer as data, and runs nothing of it.
pub fn is_data(headers: &HeaderMap) -> bool {
    let dest = headers.get(HeaderName::from_static("sec-fetch-dest"));
    dest.is_none_or(|dest| DATA_DESTS.contains(&dest.as_bytes()))
}

/// Checks that our own page made a request itself, and no link or picture did. A socket has no such
/// mark; its origin was checked.
pub fn check_marked(headers: &HeaderMap) -> Result<(), Fault> {
    if is_marked(headers) || headers.contains_key(UPGRADE) { Ok(()) } else { Err(not_our_page()) }
}

fn is_marked(headers: &HeaderMap) -> bool {
    headers.get(CSRF).is_some_and(|value| value.as_bytes() == CSRF_VALUE)
}

/// Whether an `Origin` is this server as the browser sees it.
fn is_own_origin(origin: &HeaderValue, headers: &HeaderMap, uri: &Uri) -> bool {
    let Some((scheme, place)) = origin.to_str().ok().and_then(|origin| origin.split_once("://")) else { return false };
    let default_port = match scheme {
        "https" => ":443",
        // A proxy may end TLS without a word, but it does not begin it.
        "http" if !is_https(headers) => ":80",
        _ => return false,
    };
    // A proxy may rename the host. Pages of other origins cannot set this header.
    let forwarded = headers.get("x-forwarded-host").and_then(|value| value.to_str().ok()?.split(',').next());
    let host = authority(headers, uri);
    let named = host.as_ref().map(|host| host.as_str()).into_iter().chain(forwarded.map(str::trim));
    let plain = |place: &str| place.strip_suffix(default_port).unwrap_or(place).to_ascii_lowercase();
    !place.is_empty() && named.into_iter().any(|name| plain(name) == plain(place))
}

/// Whether text is the name of a session cookie, in any spelling.
pub fn is_session_cookie(name: &[u8]) -> bool {
    [SESSION_COOKIE, SESSION_COOKIE_TLS].iter().any(|ours| name.eq_ignore_ascii_case(ours.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: (&str, &str) = ("host", "box.example:8080");
    const OURS: (&str, &str) = ("cookie", "a=b; pandastack_session=pss_1");
    const OWN: (&str, &str) = ("origin", "http://box.example:8080");
    const MARK: (&str, &str) = (CSRF, "1");

    fn head(fields: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(HeaderName::try_from(*name).unwrap(), value.parse().unwrap());
        }
        headers
    }

    fn session(method: Method, fields: &[(&str, &str)]) -> CookieSession {
        cookie_session(&method, &head(fields), &Uri::from_static("/v1/me"))
    }

    fn works(method: Method, fields: &[(&str, &str)]) {
        assert_eq!(session(method, fields), CookieSession::Token("pss_1".into()), "{fields:?}");
    }

    fn refused(method: Method, fields: &[(&str, &str)]) {
        assert_eq!(session(method, fields), CookieSession::Refused, "{fields:?}");
    }

    #[test]
    fn our_own_page_reads_and_changes() {
        for site in ["same-origin", "none"] {
            works(Method::GET, &[HOST, OURS, ("sec-fetch-site", site)]);
        }
        works(Method::GET, &[HOST, OURS]);
        works(Method::GET, &[HOST, OURS, OWN]);
        works(Method::POST, &[HOST, OURS, OWN, MARK]);
        works(Method::DELETE, &[HOST, OURS, OWN, MARK, ("sec-fetch-site", "same-origin")]);
    }

    #[test]
    fn pages_of_previews_and_of_other_sites_do_neither() {
        for site in ["same-site", "cross-site", "", "same-origin, none"] {
            refused(Method::GET, &[HOST, OURS, ("sec-fetch-site", site)]);
            refused(Method::POST, &[HOST, OURS, OWN, MARK, ("sec-fetch-site", site)]);
        }
        for origin in [
            "null",
            "",
            "http://",
            "http://80-x.box.example:8080",
            "http://box.example",
            "http://box.example:80800",
            "http://evil.example/box.example:8080",
            "ftp://box.example:8080",
        ] {
            refused(Method::GET, &[HOST, OURS, ("origin", origin)]);
            refused(Method::POST, &[HOST, OURS, MARK, ("origin", origin)]);
        }
        refused(Method::GET, &[HOST, OURS, OWN, ("origin", "http://evil.example")]);
    }

    #[test]
    fn our_own_page_runs_nothing_that_a_guest_wrote() {
        for (dest, is_data) in [("empty", true), ("image", true), ("script", false), ("iframe", false), ("", false)] {
            let fields = [HOST, OURS, ("sec-fetch-site", "same-origin"), ("sec-fetch-dest", dest)];
            if is_data { works(Method::GET, &fields) } else { refused(Method::GET, &fields) }
        }
    }

    #[test]
    fn a_change_needs_the_origin_and_the_mark() {
        for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS] {
            refused(method.clone(), &[HOST, OURS, OWN]);
            refused(method.clone(), &[HOST, OURS, MARK]);
            refused(method.clone(), &[HOST, OURS, MARK, ("sec-fetch-site", "same-origin")]);
            refused(method, &[HOST, OURS, OWN, (CSRF, "0")]);
        }
    }

    #[test]
    fn a_socket_needs_the_origin() {
        let upgrade = ("upgrade", "websocket");
        works(Method::GET, &[HOST, OURS, OWN, upgrade]);
        refused(Method::GET, &[HOST, OURS, upgrade]);
        refused(Method::GET, &[HOST, OURS, upgrade, ("sec-fetch-site", "same-origin")]);
        refused(Method::GET, &[HOST, OURS, upgrade, ("origin", "http://80-x.box.example:8080")]);
    }

    #[test]
    fn the_origin_is_that_of_the_proxy_in_front() {
        let tls = ("cookie", "__Host-pandastack_session=pss_1");
        let told = ("x-forwarded-proto", "https");
        works(Method::POST, &[("host", "box.example"), tls, told, MARK, ("origin", "https://BOX.example")]);
        works(Method::POST, &[("host", "box.example:443"), tls, told, MARK, ("origin", "https://box.example")]);
        works(Method::POST, &[("host", "box.example"), OURS, MARK, ("origin", "https://box.example")]);
        refused(Method::POST, &[("host", "box.example"), tls, told, MARK, ("origin", "http://box.example")]);
        let renamed = [("host", "127.0.0.1:8080"), OURS, MARK, ("origin", "http://box.example")];
        refused(Method::POST, &renamed);
        works(Method::POST, &[&renamed[..], &[("x-forwarded-host", "box.example, inner")]].concat());
    }

    #[test]
    fn a_cookie_that_others_could_set_does_not_count() {
        let told = ("x-forwarded-proto", "https");
        assert_eq!(session(Method::GET, &[HOST, OURS, told]), CookieSession::None, "not by https");
        let both = ("cookie", "pandastack_session=pss_1; pandastack_session=pss_2");
        refused(Method::GET, &[HOST, both]);
        refused(Method::GET, &[HOST, OURS, ("cookie", "pandastack_session=pss_2")]);
        works(Method::GET, &[HOST, OURS, ("cookie", "pandastack_session=pss_1")]);
        works(Method::GET, &[HOST, ("cookie", "n=\u{fc}; pandastack_session=pss_1")]);
        for other in
            ["pandastack_session=pds_1", "pandastack_session=", "pandastack_session", "x=pandastack_session=pss_1"]
        {
            assert_eq!(session(Method::GET, &[HOST, ("cookie", other)]), CookieSession::None, "{other}");
        }
    }

    #[test]
    fn the_cookie_is_this_hosts_alone() {
        let age = Duration::from_secs(60);
        let plain = store_session(&HeaderMap::new(), "pss_1", age).unwrap();
        assert_eq!(plain, "pandastack_session=pss_1; Path=/; HttpOnly; SameSite=Lax; Max-Age=60");
        let https = head(&[("x-forwarded-proto", "https")]);
        let secure = store_session(&https, "pss_1", age).unwrap();
        assert_eq!(secure, "__Host-pandastack_session=pss_1; Secure; Path=/; HttpOnly; SameSite=Lax; Max-Age=60");
        assert!(clear_session(&https).unwrap().to_str().unwrap().ends_with("Max-Age=0"));
    }
}
