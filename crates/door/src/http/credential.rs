//! Finds the credential of a request. Control decides whether it is valid.

use std::net::IpAddr;

use axum::http::{HeaderMap, Method, Uri, header, request::Parts};

use pandastack_wire_fleet::Credential;

use super::{CookieSession, cookie::cookie_session, query_value};

/// Prefix of a token among the WebSocket protocols. Browsers cannot set other headers of a socket
/// request.
const PROTOCOL_PREFIX: &str = "bearer.";

/// The header in which a person chooses an organisation.
const ORG: &str = "x-pandastack-org";

/// Prefix of the organisation among the WebSocket protocols, for the same reason.
const ORG_PROTOCOL_PREFIX: &str = "pds-org.";

/// Another header for the credential.
const API_KEY: &str = "x-api-key";

/// The header that names a user in development, when nothing is authenticated.
const STUB_USER: &str = "x-stub-user";

/// The credential of a request, copied out of it.
#[derive(Clone, Default)]
pub struct RequestCredential {
    token: Option<String>,
    org: Option<String>,
    stub_user: Option<String>,
    foreign: bool,
    forged: bool,
}

impl RequestCredential {
    /// Reads the credential of a request.
    pub fn read(method: &Method, headers: &HeaderMap, uri: &Uri) -> Self {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
        let owned = |name| text(name).filter(|value| !value.is_empty()).map(str::to_owned);
        let (token, forged) = match bearer(headers, uri) {
            Some(token) => (Some(token), false),
            None => match cookie_session(method, headers, uri) {
                CookieSession::Token(token) => (Some(token), false),
                CookieSession::None => (None, false),
                CookieSession::Refused => (None, true),
            },
        };
        Self {
            token,
            org: owned(ORG).or_else(|| protocols(headers).find_map(org).map(str::to_owned)),
            stub_user: owned(STUB_USER),
            foreign: is_foreign(headers, uri),
            forged,
        }
    }

    /// Reads the credential of a request's head.
    pub fn of(parts: &Parts) -> Self {
        Self::read(&parts.method, &parts.headers, &parts.uri)
    }

    pub fn get(&self) -> Credential<'_> {
        Credential {
            token: self.token.as_deref(),
            org: self.org.as_deref(),
            stub_user: self.stub_user.as_deref(),
            foreign: self.foreign,
            forged: self.forged,
        }
    }
}

/// Whether a web page of another machine may have sent a request. A name that leads to this
/// machine does not prove otherwise: its owner may have pointed it here.
fn is_foreign(headers: &HeaderMap, uri: &Uri) -> bool {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let host = uri.authority().map(|authority| authority.as_str()).or_else(|| text(header::HOST));
    let origin = text(header::ORIGIN).map(|origin| origin.split_once("://").map_or("", |(_, place)| place));
    !host.is_none_or(is_this_machine) || !origin.is_none_or(is_this_machine)
}

/// Whether `HOST:PORT` is localhost or a loopback address. Names below localhost are not: previews
/// of sandboxes have them.
fn is_this_machine(place: &str) -> bool {
    let host = match place.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => place,
    };
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Returns the bearer token of a request. Some clients have a header of their own for it. Clients
/// that cannot send headers use `access_token` in the query, or a protocol of the socket.
pub fn bearer(headers: &HeaderMap, uri: &Uri) -> Option<String> {
    let key = || headers.get(API_KEY)?.to_str().ok().map(str::trim).filter(|key| !key.is_empty());
    from_header(headers)
        .or_else(|| key().map(str::to_owned))
        .or_else(|| query_value(uri, "access_token").filter(|token| !token.is_empty()))
        .or_else(|| protocols(headers).find_map(token).map(str::to_owned))
}

/// Returns the protocol for a socket's answer: the first one that is no token and no organisation.
pub fn socket_protocol(headers: &HeaderMap) -> Option<&str> {
    protocols(headers).find(|protocol| !protocol.is_empty() && token(protocol).is_none() && org(protocol).is_none())
}

fn protocols(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
    values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).map(str::trim)
}

fn token(protocol: &str) -> Option<&str> {
    protocol.strip_prefix(PROTOCOL_PREFIX).filter(|token| !token.is_empty())
}

fn org(protocol: &str) -> Option<&str> {
    protocol.strip_prefix(ORG_PROTOCOL_PREFIX).filter(|org| !org.is_empty())
}

fn from_header(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then(|| token.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(header: Option<&str>, uri: &str, expected: Option<&str>) {
        let mut headers = HeaderMap::new();
        if let Some(header) = header {
            headers.insert(header::AUTHORIZATION, header.parse().unwrap());
        }
        assert_eq!(bearer(&headers, &uri.parse().unwrap()).as_deref(), expected, "{header:?} {uri}");
    }

    #[test]
    fn the_header_wins_and_the_scheme_has_no_case() {
        check(Some("Bearer pds_a"), "/", Some("pds_a"));
        check(Some("bEARER   pds_a "), "/?access_token=pds_b", Some("pds_a"));
        check(Some("Basic xyz"), "/?access_token=pds_b", Some("pds_b"));
        check(None, "/?x=1&access_token=pds%5Fb", Some("pds_b"));
        for nothing in [None, Some("Bearer"), Some("Bearer "), Some("pds_a")] {
            check(nothing, "/?access_token=", None);
        }
    }

    #[test]
    fn pages_of_other_machines_are_foreign() {
        let mut headers = HeaderMap::new();
        let mut check = |host: &str, origin: Option<&str>, foreign: bool| {
            headers.insert(header::HOST, host.parse().unwrap());
            headers.remove(header::ORIGIN);
            if let Some(origin) = origin {
                headers.insert(header::ORIGIN, origin.parse().unwrap());
            }
            assert_eq!(is_foreign(&headers, &"/v1/me".parse().unwrap()), foreign, "{host} {origin:?}");
        };
        check("localhost:8080", None, false);
        check("127.0.0.1", Some("http://localhost:3000"), false);
        check("[::1]:8080", Some("http://[::1]"), false);
        check("localhost", Some("https://example.com"), true);
        check("localhost", Some("null"), true);
        check("localhost", Some("http://8080-abc.localhost:8080"), true);
        check("rebound.example.com:8080", None, true);
        check("10.0.0.1:8080", None, true);
        check("", None, true);
    }

    #[test]
    fn a_socket_may_name_its_token_among_its_protocols() {
        let mut headers = HeaderMap::new();
        let mut check = |value: &str, token: Option<&str>, protocol: Option<&str>| {
            headers.insert(header::SEC_WEBSOCKET_PROTOCOL, value.parse().unwrap());
            let found = bearer(&headers, &"/".parse().unwrap());
            assert_eq!((found.as_deref(), socket_protocol(&headers)), (token, protocol), "{value}");
        };
        check("pds-pty, bearer.pds_a", Some("pds_a"), Some("pds-pty"));
        check("bearer.pds_a,pds-pty , lsp", Some("pds_a"), Some("pds-pty"));
        check("bearer.pds_a", Some("pds_a"), None);
        check("lsp", None, Some("lsp"));
        check(" ,,", None, None);
    }

    #[test]
    fn a_socket_may_name_its_organisation_among_its_protocols() {
        let mut headers = HeaderMap::new();
        headers.insert(header::SEC_WEBSOCKET_PROTOCOL, "pds-org.a, bearer.pds_a, pds".parse().unwrap());
        let org = |headers: &HeaderMap| RequestCredential::read(&Method::GET, headers, &"/".parse().unwrap()).org;
        assert_eq!((org(&headers).as_deref(), socket_protocol(&headers)), (Some("a"), Some("pds")));
        headers.insert(ORG, "b".parse().unwrap());
        assert_eq!(org(&headers).as_deref(), Some("b"), "the header wins");
    }

    #[test]
    fn a_cookie_counts_only_without_another_credential() {
        let mut headers = HeaderMap::new();
        headers.insert(header::COOKIE, "pandastack_session=pss_a".parse().unwrap());
        let read = |headers: &HeaderMap, method: Method| {
            let found = RequestCredential::read(&method, headers, &"/".parse().unwrap());
            (found.get().token.map(str::to_owned), found.get().forged)
        };
        assert_eq!(read(&headers, Method::GET), (Some("pss_a".into()), false));
        assert_eq!(read(&headers, Method::POST), (None, true));
        headers.insert(API_KEY, "pds_a".parse().unwrap());
        assert_eq!(read(&headers, Method::POST), (Some("pds_a".into()), false));
    }
}
