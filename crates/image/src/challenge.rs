//! The challenge of a registry to a request without valid credentials.

/// The way to authenticate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthChallenge {
    /// A name and a password.
    Basic,
    /// A token from a token server.
    Bearer { realm: String, service: Option<String> },
}

/// Parses a `WWW-Authenticate` header. Returns `None` for an unknown scheme.
pub fn parse(header: &str) -> Option<AuthChallenge> {
    let (scheme, rest) = header.trim().split_once(' ').unwrap_or((header.trim(), ""));
    if scheme.eq_ignore_ascii_case("basic") {
        return Some(AuthChallenge::Basic);
    }
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let (mut realm, mut service, mut rest) = (None, None, rest.trim_start());
    while let Some((name, after)) = rest.split_once('=') {
        let (value, after) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => after.split_at(after.find(',').unwrap_or(after.len())),
        };
        match name.trim().to_ascii_lowercase().as_str() {
            "realm" => realm = Some(value.to_owned()),
            "service" => service = Some(value.to_owned()),
            _ => {}
        }
        rest = after.trim_start_matches([',', ' ']);
    }
    Some(AuthChallenge::Bearer { realm: realm?, service })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_are_read() {
        assert_eq!(parse("Basic realm=\"here\""), Some(AuthChallenge::Basic));
        let whole =
            "Bearer realm=\"https://a.example/token?x=1,2\",service=\"r.example\", scope=\"repository:a:pull,push\"";
        let realm = "https://a.example/token?x=1,2".to_owned();
        assert_eq!(parse(whole), Some(AuthChallenge::Bearer { realm, service: Some("r.example".to_owned()) }));
        let realm = "https://a.example/".to_owned();
        assert_eq!(parse("bearer Realm=https://a.example/"), Some(AuthChallenge::Bearer { realm, service: None }));
    }

    #[test]
    fn what_cannot_be_read_is_no_challenge() {
        for text in
            ["", "Digest realm=\"a\"", "Bearer", "Bearer service=\"a\"", "Bearer realm=\"never ends", "Bearer =,=,"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
