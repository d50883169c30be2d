//! Finds the credential of a request. Control decides whether it is valid.

use axum::http::{HeaderMap, Uri, header};

use pandastack_wire_fleet::Credential;

use super::query_value;

/// Prefix of a token among the WebSocket protocols. Browsers cannot set other headers of a socket
/// request.
const PROTOCOL_PREFIX: &str = "bearer.";

/// The header in which a person chooses an organisation.
const ORG: &str = "x-pandastack-org";

/// The credential of a request, copied out of it.
#[derive(Clone, Default)]
pub struct RequestCredential {
    token: Option<String>,
    org: Option<String>,
}

impl RequestCredential {
    /// Reads the credential of a request.
    pub fn read(headers: &HeaderMap, uri: &Uri) -> Self {
        let org = headers.get(ORG).and_then(|value| value.to_str().ok()).map(str::trim);
        Self { token: bearer(headers, uri), org: org.filter(|org| !org.is_empty()).map(str::to_owned) }
    }

    pub fn get(&self) -> Credential<'_> {
        Credential { token: self.token.as_deref(), org: self.org.as_deref() }
    }
}

/// Returns the bearer token of a request. Clients that cannot send headers use `access_token` in
/// the query, or a protocol of the socket.
pub fn bearer(headers: &HeaderMap, uri: &Uri) -> Option<String> {
    from_header(headers)
        .or_else(|| query_value(uri, "access_token").filter(|token| !token.is_empty()))
        .or_else(|| protocols(headers).find_map(token).map(str::to_owned))
}

/// Returns the protocol for a socket's answer: the first one that is not a token.
pub fn socket_protocol(headers: &HeaderMap) -> Option<&str> {
    protocols(headers).find(|protocol| !protocol.is_empty() && token(protocol).is_none())
}

fn protocols(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
    values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).map(str::trim)
}

fn token(protocol: &str) -> Option<&str> {
    protocol.strip_prefix(PROTOCOL_PREFIX).filter(|token| !token.is_empty())
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
}
