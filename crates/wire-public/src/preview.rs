//! Signed previews: a URL that gives access to some paths of one port for a limited time.

use std::time::Duration;

use pandastack_model::{Fault, GuestPort, PathRules};
use serde::{Deserialize, Serialize};

use crate::{
    ErrorBody,
    failure::bad,
    limits::{PREVIEW_TTL_DEFAULT, PREVIEW_TTL_MAX},
    port::checked_port,
};

/// Creates a signed preview.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct PreviewRequest {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<i64>,
    /// Validity in seconds, at most one week. A longer time is reduced to a week.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<i64>,
    /// Path prefixes that are allowed. Without any, every path is allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paths: Option<Vec<String>>,
}

/// A checked request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreviewSpec {
    pub port: GuestPort,
    pub ttl: Duration,
    pub paths: PathRules,
}

/// A signed preview.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Preview {
    pub url: String,
    pub token: String,
    pub sandbox_id: String,
    pub port: u16,
    #[serde(default)]
    pub paths: Vec<String>,
    pub expires_at: String,
}

/// The error body for a path that the preview does not allow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RefusedPath {
    #[serde(flatten)]
    pub body: ErrorBody,
    pub requested: String,
    pub allowed_paths: Vec<String>,
}

impl TryFrom<PreviewRequest> for PreviewSpec {
    type Error = Fault;

    fn try_from(ask: PreviewRequest) -> Result<Self, Fault> {
        let PreviewRequest { port, ttl_seconds, paths } = ask;
        let port = checked_port(port)?;
        let ttl = match ttl_seconds {
            None => PREVIEW_TTL_DEFAULT,
            Some(seconds) => {
                let asked = u64::try_from(seconds).ok().filter(|seconds| *seconds > 0);
                let refused = || bad("preview.bad_ttl", format!("ttl_seconds must be 1 or more, not {seconds}"));
                Duration::from_secs(asked.ok_or_else(refused)?).min(PREVIEW_TTL_MAX)
            }
        };
        let paths = PathRules::new(paths.unwrap_or_default());
        let paths = paths.map_err(|error| bad("preview.bad_path", format!("paths: {error}")))?;
        Ok(Self { port, ttl, paths })
    }
}

/// The path of a preview with this token.
pub fn preview_path(token: &str) -> String {
    format!("/v1/p/{token}/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, expected: Result<(u64, &[&str]), &str>) {
        let ask: PreviewRequest = serde_json::from_str(json).unwrap();
        let found = PreviewSpec::try_from(ask).map(|ask| (ask.ttl.as_secs(), ask.paths.as_slice().to_vec()));
        let expected = expected.map(|(ttl, paths)| (ttl, paths.iter().map(|path| (*path).to_owned()).collect()));
        assert_eq!(found.map_err(|fault| fault.code), expected, "{json}");
    }

    #[test]
    fn requests_have_defaults_and_limits() {
        check(r#"{"port":3000}"#, Ok((3600, &[])));
        check(r#"{"port":3000,"ttl_seconds":60,"paths":["docs","/a/"]}"#, Ok((60, &["/docs", "/a/"])));
        check(r#"{"port":3000,"ttl_seconds":99999999}"#, Ok((604_800, &[])));
        check("{}", Err("port.bad_port"));
        check(r#"{"port":1050}"#, Err("port.bad_port"));
        check(r#"{"port":80,"ttl_seconds":0}"#, Err("preview.bad_ttl"));
        check(r#"{"port":80,"ttl_seconds":-5}"#, Err("preview.bad_ttl"));
        check(r#"{"port":80,"paths":["/a|b"]}"#, Err("preview.bad_path"));
        check(r#"{"port":80,"paths":["/a/../b"]}"#, Err("preview.bad_path"));
    }
}
