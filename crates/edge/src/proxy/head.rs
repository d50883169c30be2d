//! Filters headers between clients and guests. Hop-by-hop headers are removed, our own credentials
//! never reach a guest, and only the edge sets the forwarding headers that a guest sees.

use axum::http::{
    HeaderMap, HeaderName, HeaderValue, Method, Uri, Version,
    header::{self, AUTHORIZATION, CONNECTION, HOST, SEC_WEBSOCKET_PROTOCOL, UPGRADE},
    request, response,
};
use pandastack_door::http::{forwarded_proto, query_value};
use pandastack_model::{Fault, FaultKind};

use super::{
    ProxyTarget,
    answer::{confine, take_link_tokens},
};
use crate::limits::PORT_HEAD_BYTES_MAX;

/// Prefixes of our credentials: API keys and sessions.
const PLATFORM_PREFIXES: [&str; 2] = ["pds_", "pss_"];

/// Another header for our credentials.
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// Hop-by-hop headers.
static HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    HeaderName::from_static("proxy-connection"),
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    UPGRADE,
];

/// Headers that a `Connection` header must not remove, so that client and guest cannot disagree
/// about the message.
static KEPT: [HeaderName; 2] = [HOST, header::CONTENT_LENGTH];

/// The owner of a request's `Authorization` header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthorizationOwner {
    /// The platform: the header was used to authenticate the caller.
    Platform,
    /// Possibly the program in the guest. It is removed only if it looks like one of our keys.
    Anybody,
}

/// Tells whether a message requests or accepts a protocol upgrade.
pub fn upgrades(headers: &HeaderMap) -> Option<HeaderValue> {
    let asks = names(headers).any(|name| name.eq_ignore_ascii_case("upgrade"));
    headers.get(UPGRADE).filter(|_| asks).cloned()
}

/// Turns the head of a client's request into the head that the guest receives.
pub fn outgoing(head: request::Parts, target: &ProxyTarget) -> Result<request::Parts, Fault> {
    let request::Parts { method, uri, mut headers, .. } = head;
    let refused = |text: &str| Fault::new(FaultKind::Caller, "proxy.bad_request", text);
    if method == Method::CONNECT {
        return Err(refused("CONNECT is not supported"));
    }
    let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if bytes + target.path.len() > PORT_HEAD_BYTES_MAX {
        let text = format!("the request headers are larger than {PORT_HEAD_BYTES_MAX} bytes");
        return Err(Fault::new(FaultKind::TooLarge, "proxy.head_too_large", text));
    }
    let upgrade = upgrades(&headers);
    strip_connection(&mut headers);
    // The edge has answered it, or does so when it reads the body.
    headers.remove(header::EXPECT);
    strip_platform(&mut headers, target.credential);
    describe(&mut headers, &uri, target);
    if let Some(upgrade) = upgrade {
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, upgrade);
    }
    let (mut parts, ()) = request::Request::new(()).into_parts();
    parts.uri = target.path.parse::<Uri>().map_err(|_| refused("the path cannot be forwarded"))?;
    (parts.method, parts.version, parts.headers) = (method, Version::HTTP_11, headers);
    Ok(parts)
}

/// Turns the head of a guest's response into the head that the client receives.
pub fn incoming(head: &mut response::Parts, target: &ProxyTarget) {
    let upgrade = upgrades(&head.headers).filter(|_| head.status == hyper::StatusCode::SWITCHING_PROTOCOLS);
    strip_connection(&mut head.headers);
    confine(&mut head.headers, target);
    if let Some(upgrade) = upgrade {
        head.headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        head.headers.insert(UPGRADE, upgrade);
    }
    head.version = Version::HTTP_11;
}

/// Returns the query without our credentials, with the `?`; empty if nothing is left.
pub fn clean_query(uri: &Uri) -> String {
    query_without(uri, is_ours)
}

/// Like `clean_query`, for a request whose caller was authenticated. Without a bearer header, the
/// query may be where the credential was, whatever its form.
pub fn clean_used_query(uri: &Uri, headers: &HeaderMap) -> String {
    if has_bearer(headers) { clean_query(uri) } else { query_without(uri, |_| true) }
}

fn query_without(uri: &Uri, is_ours: impl Fn(&str) -> bool) -> String {
    let ours = |pair: &&str| {
        let alone = format!("/?{pair}").parse::<Uri>().ok();
        alone.and_then(|uri| query_value(&uri, "access_token")).is_some_and(|token| is_ours(&token))
    };
    let Some(query) = uri.query() else { return String::new() };
    let kept: Vec<&str> = query.split('&').filter(|pair| !ours(pair)).collect();
    if kept.is_empty() { String::new() } else { format!("?{}", kept.join("&")) }
}

/// Returns the host of a request: from the request target, or else from a single `Host` header.
pub fn host_of<'a>(headers: &'a HeaderMap, uri: &'a Uri) -> Option<&'a str> {
    let mut hosts = headers.get_all(HOST).iter();
    let named = match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().ok(),
        _ => None,
    };
    uri.authority().map(|authority| authority.as_str()).or(named)
}

fn names(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',').map(str::trim))
}

fn strip_connection(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = names(headers).filter_map(|name| name.parse().ok()).collect();
    for name in named.iter().filter(|name| !KEPT.contains(name)).chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
}

fn is_ours(token: &str) -> bool {
    PLATFORM_PREFIXES.iter().any(|prefix| token.starts_with(prefix))
}

fn is_bearer(value: &HeaderValue) -> bool {
    value
        .to_str()
        .ok()
        .and_then(|text| text.trim().split_once(' '))
        .is_some_and(|(scheme, token)| scheme.eq_ignore_ascii_case("bearer") && !token.trim().is_empty())
}

fn has_bearer(headers: &HeaderMap) -> bool {
    headers.get(AUTHORIZATION).is_some_and(is_bearer)
}

fn strip_platform(headers: &mut HeaderMap, credential: AuthorizationOwner) {
    let platform = credential == AuthorizationOwner::Platform;
    // Without a bearer header, the credential was in one of the other places.
    let elsewhere = platform && !has_bearer(headers);
    let ours = |value: &HeaderValue| {
        let text = value.to_str().unwrap_or_default().trim();
        let token = text.split_once(' ').map_or(text, |(_, token)| token.trim());
        is_ours(token) || (platform && is_bearer(value))
    };
    keep(headers, &AUTHORIZATION, |value| (!ours(&value)).then_some(value));
    keep(headers, &API_KEY, |value| (!elsewhere && !value.to_str().is_ok_and(is_ours)).then_some(value));
    keep(headers, &SEC_WEBSOCKET_PROTOCOL, |value| {
        let Ok(text) = value.to_str() else { return Some(value) };
        let foreign = |name: &&str| !name.strip_prefix("bearer.").is_some_and(|key| elsewhere || is_ours(key));
        let left: Vec<&str> = text.split(',').map(str::trim).filter(foreign).collect();
        if left.is_empty() { None } else { HeaderValue::from_str(&left.join(", ")).ok() }
    });
    // The token of a signed link is one of our credentials too.
    take_link_tokens(headers);
    // Our own servers use these headers to identify the caller. A client must not set them.
    let identity = |name: &&HeaderName| {
        let name = name.as_str();
        name.starts_with("x-fcs-") || name.starts_with("x-pandastack-") || name == "x-stub-user"
    };
    let named: Vec<HeaderName> = headers.keys().filter(identity).cloned().collect();
    for name in named {
        headers.remove(name);
    }
}

/// Replaces every value of a header by the result of a function, which may drop it.
pub(super) fn keep(headers: &mut HeaderMap, name: &HeaderName, pass: impl Fn(HeaderValue) -> Option<HeaderValue>) {
    let values: Vec<HeaderValue> = headers.get_all(name).iter().cloned().collect();
    headers.remove(name);
    for value in values.into_iter().filter_map(pass) {
        headers.append(name.clone(), value);
    }
}

/// Tells the guest through which host and protocol it was reached.
fn describe(headers: &mut HeaderMap, uri: &Uri, target: &ProxyTarget) {
    let host = host_of(headers, uri).and_then(|host| HeaderValue::from_str(host).ok());
    let host = host.unwrap_or_else(|| HeaderValue::from_static("sandbox"));
    let proto = HeaderValue::from_static(forwarded_proto(headers));
    headers.insert(HOST, host.clone());
    headers.insert("x-forwarded-host", host);
    headers.insert("x-forwarded-proto", proto);
    if let Ok(id) = HeaderValue::from_str(&target.sandbox.to_string()) {
        headers.insert("x-fcs-sandbox", id);
    }
}

#[cfg(test)]
mod tests {
    use axum::http::Request;
    use pandastack_model::{GuestPort, SandboxId};
    use pandastack_wire_fleet::CallerKey;

    use super::*;

    fn target(credential: AuthorizationOwner) -> ProxyTarget {
        let port = GuestPort::try_from(3000).unwrap();
        ProxyTarget {
            sandbox: SandboxId::random(),
            port,
            path: "/x?y=1".to_owned(),
            credential,
            key: CallerKey::default(),
        }
    }

    fn sent(credential: AuthorizationOwner, headers: &[(&str, &str)]) -> Vec<(String, String)> {
        let mut request = Request::builder().uri("/anything").header("host", "api.example:8080");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let parts = outgoing(request.body(()).unwrap().into_parts().0, &target(credential)).unwrap();
        assert_eq!(parts.uri, "/x?y=1");
        let pair = |(name, value): (&HeaderName, &HeaderValue)| (name.to_string(), value.to_str().unwrap().to_owned());
        let ours = ["host", "x-forwarded-host", "x-forwarded-proto", "x-fcs-sandbox"];
        parts.headers.iter().map(pair).filter(|(name, _)| !ours.contains(&name.as_str())).collect()
    }

    fn check(credential: AuthorizationOwner, headers: &[(&str, &str)], expected: &[(&str, &str)]) {
        let expected: Vec<_> = expected.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        assert_eq!(sent(credential, headers), expected, "{headers:?}");
    }

    #[test]
    fn headers_of_one_connection_end_here() {
        check(
            AuthorizationOwner::Anybody,
            &[
                ("connection", "close, X-Mine, host, content-length"),
                ("x-mine", "1"),
                ("keep-alive", "9"),
                ("te", "trailers"),
                ("transfer-encoding", "chunked"),
                ("proxy-authorization", "Basic x"),
                ("upgrade", "h2c"),
                ("expect", "100-continue"),
                ("content-length", "3"),
                ("accept", "a"),
                ("accept", "b"),
            ],
            &[("content-length", "3"), ("accept", "a"), ("accept", "b")],
        );
        check(
            AuthorizationOwner::Anybody,
            &[("connection", "keep-alive, Upgrade"), ("upgrade", "websocket"), ("sec-websocket-key", "k")],
            &[("sec-websocket-key", "k"), ("connection", "upgrade"), ("upgrade", "websocket")],
        );
    }

    #[test]
    fn credentials_of_ours_stay_here() {
        for (credential, header, passes) in [
            (AuthorizationOwner::Platform, "Bearer pds_1", false),
            (AuthorizationOwner::Platform, "bearer eyJ.x.y", false),
            (AuthorizationOwner::Platform, "Basic dXNlcg==", true),
            (AuthorizationOwner::Anybody, "Bearer pds_1", false),
            (AuthorizationOwner::Anybody, "Token  pds_1", false),
            (AuthorizationOwner::Anybody, "pds_1", false),
            (AuthorizationOwner::Anybody, "Bearer pss_1", false),
            (AuthorizationOwner::Anybody, "Bearer eyJ.x.y", true),
            (AuthorizationOwner::Anybody, "Basic dXNlcg==", true),
        ] {
            assert_eq!(sent(credential, &[("authorization", header)]).len(), usize::from(passes), "{header}");
        }
        check(
            AuthorizationOwner::Anybody,
            &[
                ("sec-websocket-protocol", "chat, bearer.pds_1"),
                ("x-pandastack-user-id", "root"),
                ("x-fcs-workspace", "a"),
            ],
            &[("sec-websocket-protocol", "chat")],
        );
        for ours in ["bearer.pds_1", "bearer.pss_1"] {
            check(AuthorizationOwner::Anybody, &[("sec-websocket-protocol", ours)], &[]);
        }
        // A token of an identity provider has no form of its own. It is ours where it was used.
        for (name, value, rest) in
            [("sec-websocket-protocol", "chat, bearer.eyJ.x.y", "chat"), ("x-api-key", "eyJ", "")]
        {
            let left = if rest.is_empty() { vec![] } else { vec![(name, rest)] };
            check(AuthorizationOwner::Platform, &[(name, value)], &left);
            check(AuthorizationOwner::Platform, &[("authorization", "Bearer eyJ"), (name, value)], &[(name, value)]);
            check(AuthorizationOwner::Anybody, &[(name, value)], &[(name, value)]);
        }
        check(AuthorizationOwner::Anybody, &[("x-api-key", "pds_1")], &[]);
    }

    #[test]
    fn queries_lose_only_keys_of_ours() {
        for (query, expected) in [
            ("/p", ""),
            ("/p?", "?"),
            ("/p?a=1&b=%20&a=2", "?a=1&b=%20&a=2"),
            ("/p?access_token=pds_1", ""),
            ("/p?a=1&access%5Ftoken=pds%5F1&b", "?a=1&b"),
            ("/p?access_token=pss_1&a=1", "?a=1"),
            ("/p?access_token=theirs&x=pds_1", "?access_token=theirs&x=pds_1"),
        ] {
            assert_eq!(clean_query(&query.parse().unwrap()), expected, "{query}");
        }
        let (uri, mut headers) = ("/p?access_token=eyJ.x.y&a=1".parse().unwrap(), HeaderMap::new());
        assert_eq!(clean_used_query(&uri, &headers), "?a=1");
        headers.insert(AUTHORIZATION, "Bearer eyJ.x.y".parse().unwrap());
        assert_eq!(clean_used_query(&uri, &headers), "?access_token=eyJ.x.y&a=1", "it is the guest's own");
    }

    #[test]
    fn the_guest_learns_how_it_was_reached_from_us_only() {
        let request =
            Request::builder().uri("/").header("host", "a.example").header("x-forwarded-host", "evil.example");
        let request = request.header("x-forwarded-proto", "https").header("connection", "x-forwarded-host");
        let target = target(AuthorizationOwner::Anybody);
        let sent = outgoing(request.body(()).unwrap().into_parts().0, &target).unwrap().headers;
        assert_eq!(
            (&sent["host"], &sent["x-forwarded-host"]),
            (&"a.example".parse().unwrap(), &"a.example".parse().unwrap())
        );
        assert_eq!(sent["x-forwarded-proto"], "https");
        assert_eq!(sent["x-fcs-sandbox"], target.sandbox.to_string());
        assert_eq!(sent.get_all("x-forwarded-host").iter().count(), 1);
    }

    #[test]
    fn heads_have_a_limit() {
        let long = "x".repeat(PORT_HEAD_BYTES_MAX);
        let request = Request::builder().uri("/").header("x", long).body(()).unwrap();
        let fault = outgoing(request.into_parts().0, &target(AuthorizationOwner::Anybody)).unwrap_err();
        assert_eq!(fault.kind, FaultKind::TooLarge);
        let request = Request::builder().method(Method::CONNECT).uri("a:1").body(()).unwrap();
        assert!(outgoing(request.into_parts().0, &target(AuthorizationOwner::Anybody)).is_err());
    }
}
