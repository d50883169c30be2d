//! The address of this server as its clients see it.

use axum::http::{HeaderMap, Uri, header, uri::Authority};

/// Returns `scheme://host[:port]` as the client sees it. A proxy in front tells whether it used
/// TLS. Empty if the client gave no host.
pub fn public_base(headers: &HeaderMap, uri: &Uri) -> String {
    authority(headers, uri).map(|host| format!("{}://{host}", forwarded_proto(headers))).unwrap_or_default()
}

/// Returns `scheme://name[:port]` for another host name of this server, with the scheme and port
/// that the client used.
pub fn base_of(name: &str, headers: &HeaderMap, uri: &Uri) -> String {
    let port = authority(headers, uri).and_then(|host| host.port_u16());
    let port = port.map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{name}{port}", forwarded_proto(headers))
}

pub(super) fn authority(headers: &HeaderMap, uri: &Uri) -> Option<Authority> {
    let named = headers.get(header::HOST).and_then(|host| host.to_str().ok()?.parse::<Authority>().ok());
    uri.authority().cloned().or(named).filter(|host| !host.as_str().contains('@'))
}

/// Returns the scheme that the client used.
pub fn forwarded_proto(headers: &HeaderMap) -> &'static str {
    // Each proxy on the way appends its own; the first value is the client's.
    let told = headers.get("x-forwarded-proto").and_then(|value| value.to_str().ok()?.split(',').next());
    if told.is_some_and(|proto| proto.trim().eq_ignore_ascii_case("https")) { "https" } else { "http" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(host: &str, proto: Option<&str>, expected: &str) {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        if let Some(proto) = proto {
            headers.insert("x-forwarded-proto", proto.parse().unwrap());
        }
        assert_eq!(public_base(&headers, &Uri::from_static("/v1")), expected, "{host} {proto:?}");
    }

    #[test]
    fn the_client_is_told_the_address_it_used() {
        check("api.example.com:8080", None, "http://api.example.com:8080");
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, "127.0.0.1:8080".parse().unwrap());
        assert_eq!(base_of("x.localhost", &headers, &Uri::from_static("/v1")), "http://x.localhost:8080");
        check("api.example.com", Some("HTTPS"), "https://api.example.com");
        check("api.example.com", Some("https, http"), "https://api.example.com");
        check("[::1]:80", Some("gopher"), "http://[::1]:80");
        check("user@evil", None, "");
        check("a b/c", None, "");
        assert_eq!(public_base(&HeaderMap::new(), &Uri::from_static("/")), "");
    }
}
