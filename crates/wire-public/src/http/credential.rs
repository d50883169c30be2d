//! Finds the credential of a request. Whether it is any good is for control to say.

use axum::http::{HeaderMap, Uri, header};

use super::query_value;

/// Gives the bearer token, or the `access_token` of the query for clients that cannot send headers.
pub fn bearer(headers: &HeaderMap, uri: &Uri) -> Option<String> {
    from_header(headers).or_else(|| query_value(uri, "access_token").filter(|token| !token.is_empty()))
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
}
