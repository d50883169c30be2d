//! API keys as the API shows them, and the request for a new one.

use std::time::Duration;

use pandastack_model::Fault;
use serde::{Deserialize, Serialize};

use crate::{
    failure::bad,
    limits::{KEY_DAYS_MAX, KEY_LABEL_BYTES_MAX},
};

const DAY: u64 = 24 * 3600;

/// An API key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ApiKey {
    pub id: String,
    /// The start of the key, which may be shown.
    pub prefix: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    pub created_at: String,
    /// The id of the key that created this one, or `operator` if it was created on the server.
    #[serde(default)]
    pub created_by: String,
    /// When it was last used, accurate to half a minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// Whether it is the key of this request.
    #[serde(default)]
    pub current: bool,
    /// The whole key. Only present in the response that creates it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

/// A list of API keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ApiKeys {
    pub items: Vec<ApiKey>,
}

/// Creates an API key.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct CreateApiKey {
    /// What the key is for.
    #[serde(alias = "name", skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The key expires after this many days. Without it the key never expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_in_days: Option<i64>,
}

/// A checked request for a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeySpec {
    pub label: String,
    pub expires_in: Option<Duration>,
}

impl TryFrom<CreateApiKey> for KeySpec {
    type Error = Fault;

    fn try_from(ask: CreateApiKey) -> Result<Self, Fault> {
        let CreateApiKey { label, expires_in_days } = ask;
        let label = label.unwrap_or_default();
        if label.len() > KEY_LABEL_BYTES_MAX || label.chars().any(char::is_control) {
            let text = format!("label must be at most {KEY_LABEL_BYTES_MAX} bytes without control characters");
            return Err(bad("key.bad_label", text));
        }
        let life = |days: i64| {
            let days = u64::try_from(days).ok().filter(|days| (1..=KEY_DAYS_MAX).contains(days));
            days.map(|days| Duration::from_secs(days * DAY))
        };
        let refused = |days| bad("key.bad_expiry", format!("expires_in_days must be 1 to {KEY_DAYS_MAX}, not {days}"));
        let expires_in = expires_in_days.map(|days| life(days).ok_or_else(|| refused(days))).transpose()?;
        Ok(Self { label, expires_in })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, expected: Result<(&str, Option<u64>), &str>) {
        let ask: CreateApiKey = serde_json::from_str(json).unwrap();
        let found = KeySpec::try_from(ask).map(|ask| (ask.label, ask.expires_in.map(|life| life.as_secs())));
        let expected = expected.map(|(label, life)| (label.to_owned(), life));
        assert_eq!(found.map_err(|fault| fault.code), expected, "{json}");
    }

    #[test]
    fn requests_have_defaults_and_limits() {
        check("{}", Ok(("", None)));
        check(r#"{"label":"ci","expires_in_days":2}"#, Ok(("ci", Some(2 * DAY))));
        check(r#"{"name":"laptop"}"#, Ok(("laptop", None)));
        check(r#"{"expires_in_days":0}"#, Err("key.bad_expiry"));
        check(r#"{"expires_in_days":9223372036854775807}"#, Err("key.bad_expiry"));
        check(r#"{"label":"a\nb"}"#, Err("key.bad_label"));
        check(&format!(r#"{{"label":"{}"}}"#, "x".repeat(101)), Err("key.bad_label"));
    }
}
