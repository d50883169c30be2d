//! Reads small JSON bodies within limits of size and time, and single values of a query.

use axum::{
    body::{Body, Bytes, HttpBody},
    extract::Query,
    http::Uri,
};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use pandastack_model::{Fault, FaultKind};
use pandastack_wire_public::{
    limits::{JSON_ARRIVAL_MAX, JSON_BYTES_MAX},
    parse_rfc3339,
};
use serde::de::DeserializeOwned;

/// Reads a JSON body. The content type is ignored, because published clients do not always set it.
pub async fn json_body<T: DeserializeOwned>(body: Body) -> Result<T, Fault> {
    let bytes = whole_body(body).await?;
    if bytes.is_empty() {
        return Err(caller("body.bad_json", "bad JSON: the body is empty"));
    }
    object(&bytes)
}

/// Reads an optional JSON body.
pub async fn optional_json_body<T: DeserializeOwned + Default>(body: Body) -> Result<T, Fault> {
    let bytes = whole_body(body).await?;
    if bytes.is_empty() { Ok(T::default()) } else { object(&bytes) }
}

/// Reads a whole small body.
pub async fn whole_body(body: Body) -> Result<Bytes, Fault> {
    let too_large = || {
        let text = format!("the body is larger than {JSON_BYTES_MAX} bytes");
        Fault::new(FaultKind::TooLarge, "body.too_large", text)
    };
    // Refuse at once if the announced size is too large.
    if body.size_hint().lower() > JSON_BYTES_MAX as u64 {
        return Err(too_large());
    }
    let collected = tokio::time::timeout(JSON_ARRIVAL_MAX, Limited::new(body, JSON_BYTES_MAX).collect()).await;
    match collected {
        Err(_) => Err(caller("body.slow", format!("the body did not arrive within {}s", JSON_ARRIVAL_MAX.as_secs()))),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(error)) => Err(caller("body.broken", "the body ended early").with_detail(error)),
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
    }
}

fn object<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Fault> {
    // An array would fill the fields by position.
    if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
        return Err(caller("body.bad_json", "bad JSON: the body must be an object"));
    }
    // serde would not check the strings of unknown fields.
    let text = std::str::from_utf8(bytes).map_err(|_| caller("body.bad_json", "bad JSON: the body is not UTF-8"))?;
    serde_json::from_str(text).map_err(|error| caller("body.bad_json", format!("bad JSON: {error}")))
}

/// Returns one decoded value of a query. The first one wins.
pub fn query_value(uri: &Uri, name: &str) -> Option<String> {
    let pairs = Query::<Vec<(String, String)>>::try_from_uri(uri).ok()?.0;
    pairs.into_iter().find_map(|(key, value)| (key == name).then_some(value))
}

/// Tells whether a query value is true, in any spelling that clients use.
pub fn flag(uri: &Uri, name: &str) -> bool {
    query_value(uri, name)
        .is_some_and(|value| matches!(value.to_ascii_lowercase().as_str(), "1" | "true" | "yes" | "on"))
}

/// Returns a time of a query in nanoseconds since the Unix epoch; `None` if it is missing. The
/// query has RFC 3339 or Unix seconds.
pub fn query_time(uri: &Uri, name: &str) -> Result<Option<u64>, Fault> {
    let Some(text) = query_value(uri, name).filter(|text| !text.is_empty()) else { return Ok(None) };
    // An unescaped plus in a query arrives as a space.
    let time = unix_seconds(&text).or_else(|| parse_rfc3339(&text.replace(' ', "+")));
    let bad = || {
        let text = format!("{name} must be a time such as 2024-05-01T12:00:00Z, or seconds since 1970");
        caller("query.bad_time", text)
    };
    time.map(Some).ok_or_else(bad)
}

/// Reads whole seconds since the Unix epoch as nanoseconds.
fn unix_seconds(text: &str) -> Option<u64> {
    let seconds: u64 = text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    Some(seconds.saturating_mul(1_000_000_000))
}

fn caller(code: &'static str, text: impl Into<String>) -> Fault {
    Fault::new(FaultKind::Caller, code, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn refused(body: impl Into<Body>, kind: FaultKind, code: &str) {
        let fault = json_body::<pandastack_wire_public::CreateSandbox>(body.into()).await.unwrap_err();
        assert_eq!((fault.kind, fault.code), (kind, code));
    }

    #[tokio::test]
    async fn bad_bodies_are_named() {
        refused("", FaultKind::Caller, "body.bad_json").await;
        refused("{", FaultKind::Caller, "body.bad_json").await;
        refused("[]", FaultKind::Caller, "body.bad_json").await;
        refused(vec![0xff, 0xfe], FaultKind::Caller, "body.bad_json").await;
        refused("[".repeat(100_000), FaultKind::Caller, "body.bad_json").await;
        refused(vec![b' '; JSON_BYTES_MAX + 1], FaultKind::TooLarge, "body.too_large").await;
    }

    #[tokio::test]
    async fn an_optional_body_may_be_empty_but_not_wrong() {
        assert!(
            optional_json_body::<pandastack_wire_public::CreateSandbox>(Body::empty())
                .await
                .unwrap()
                .template
                .is_none()
        );
        let wrong = optional_json_body::<pandastack_wire_public::CreateSandbox>("[]".into()).await.unwrap_err();
        assert_eq!(wrong.code, "body.bad_json");
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_never_ends_is_given_up() {
        let stuck = futures_util::stream::pending::<Result<Vec<u8>, std::io::Error>>();
        refused(Body::from_stream(stuck), FaultKind::Caller, "body.slow").await;
    }

    #[test]
    fn flags_and_times_are_read_in_every_spelling() {
        let uri: Uri =
            "/x?a=1&b=true&c=0&d=False&e=TRUE&t=1970-01-01T00:00:01Z&u=1970-01-01T01:00:01+01:00&s=1&v=soon&w="
                .parse()
                .unwrap();
        let yes: Vec<_> = ["a", "b", "c", "d", "e", "f"].into_iter().filter(|name| flag(&uri, name)).collect();
        assert_eq!(yes, ["a", "b", "e"]);
        for name in ["t", "u", "s"] {
            assert_eq!(query_time(&uri, name).unwrap(), Some(1_000_000_000), "{name}");
        }
        assert_eq!((query_time(&uri, "w").unwrap(), query_time(&uri, "x").unwrap()), (None, None));
        assert_eq!(query_time(&uri, "v").unwrap_err().code, "query.bad_time");
    }

    #[test]
    fn query_values_are_form_decoded() {
        let uri: Uri = "/fs?path=%2Fa+b%2F%C3%A9&path=/second".parse().unwrap();
        assert_eq!(query_value(&uri, "path").as_deref(), Some("/a b/é"));
        assert_eq!(query_value(&uri, "other"), None);
    }
}
