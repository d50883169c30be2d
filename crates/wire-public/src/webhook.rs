//! Webhooks as the API shows them, the data that receivers get, and event patterns.

use std::{fmt, str::FromStr};

use pandastack_model::{EventKind, Fault};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    Event,
    failure::{bad, short},
    limits::{WEBHOOK_DESCRIPTION_BYTES_MAX, WEBHOOK_EVENTS_MAX, WEBHOOK_GRACE_SECONDS_MAX},
};

/// The kind of a ping's event. A ping is sent whatever events the webhook has.
pub const PING_KIND: &str = "webhook.ping";

/// How long the old secret stays valid after a rotation by default: a day.
const GRACE_SECONDS_DEFAULT: u64 = 24 * 3600;

/// A webhook.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Webhook {
    pub id: String,
    pub url: String,
    pub events: Vec<String>,
    #[serde(default)]
    pub description: String,
    pub enabled: bool,
    /// Why the server disabled the webhook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled_reason: Option<String>,
    pub created_at: String,
    #[serde(default)]
    pub updated_at: String,
    /// Since when every delivery has failed. Absent if deliveries succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing_since: Option<String>,
    /// Events that were dropped because the queue was full.
    #[serde(default)]
    pub dropped: u64,
    /// Until when deliveries are also signed with the previous secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_secret_expires_at: Option<String>,
    /// The secret that signs deliveries. Only present in the responses that create one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// Creates a webhook.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CreateWebhook {
    #[serde(default)]
    pub url: String,
    #[serde(default)]
    pub events: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// Changes a webhook. Missing fields keep their value.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChangeWebhook {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// Creates a new secret.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RotateSecret {
    /// How long deliveries are also signed with the old secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_seconds: Option<i64>,
}

/// The body of a delivery: an event as the API lists it, with an id and a sequence number in the
/// workspace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WebhookEvent {
    pub id: String,
    /// Increases with every event of the workspace that a webhook receives. Deliveries may arrive
    /// out of order.
    pub sequence: u64,
    pub workspace: String,
    #[serde(flatten)]
    pub event: Event,
}

/// One attempt to deliver an event.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeliveryAttempt {
    pub at: String,
    pub latency_ms: u64,
    /// The status of the receiver's response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Why the attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The start of the receiver's response body.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub answer: String,
}

/// The delivery of one event to one webhook.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Delivery {
    pub id: String,
    pub webhook_id: String,
    pub event_id: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub sequence: u64,
    /// `pending`, `failed` (to be retried), `delivered` or `dead`.
    pub status: String,
    pub created_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<String>,
    /// The last attempts, oldest first.
    #[serde(default)]
    pub attempts: Vec<DeliveryAttempt>,
    /// The body that is sent.
    #[serde(default)]
    pub event: Map<String, Value>,
}

/// The result of a ping.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ping {
    pub delivered: bool,
    pub event_id: String,
    #[serde(flatten)]
    pub attempt: DeliveryAttempt,
}

/// The events that a webhook wants: one kind, a prefix (`sandbox.*`), or all (`*`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventPattern(String);

impl EventPattern {
    /// Tells whether the pattern matches this kind.
    pub fn matches(&self, kind: &str) -> bool {
        match self.0.strip_suffix('*') {
            Some(beginning) => kind.starts_with(beginning),
            None => kind == self.0,
        }
    }
}

impl fmt::Display for EventPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for EventPattern {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        let shape = text == "*" || text.ends_with(".*") || !text.contains('*');
        let pattern = Self(text.to_owned());
        // A pattern that matches no kind is a typing error. It is refused.
        if shape && EventKind::delivered().any(|kind| pattern.matches(kind.as_str())) {
            return Ok(pattern);
        }
        let kinds: Vec<_> = EventKind::delivered().map(EventKind::as_str).collect();
        let text = format!("unknown event {:?}: use *, sandbox.* or one of {}", short(text), kinds.join(", "));
        Err(bad("webhook.bad_events", text))
    }
}

/// Checks a list of patterns and drops duplicates.
pub fn checked_events(asked: Vec<String>) -> Result<Vec<EventPattern>, Fault> {
    if asked.is_empty() || asked.len() > WEBHOOK_EVENTS_MAX {
        let text = format!("events must name 1 to {WEBHOOK_EVENTS_MAX} kinds, such as [\"sandbox.*\"]");
        return Err(bad("webhook.bad_events", text));
    }
    let mut patterns: Vec<EventPattern> = Vec::new();
    for text in asked {
        let pattern = text.parse()?;
        if !patterns.contains(&pattern) {
            patterns.push(pattern);
        }
    }
    Ok(patterns)
}

/// Checks a description.
pub fn checked_description(text: String) -> Result<String, Fault> {
    if text.len() <= WEBHOOK_DESCRIPTION_BYTES_MAX {
        return Ok(text);
    }
    let text = format!("description must have at most {WEBHOOK_DESCRIPTION_BYTES_MAX} bytes");
    Err(bad("webhook.bad_description", text))
}

impl RotateSecret {
    /// Returns how many seconds the old secret stays valid.
    pub fn grace_seconds(&self) -> Result<u64, Fault> {
        let Some(asked) = self.grace_seconds else { return Ok(GRACE_SECONDS_DEFAULT) };
        let fits = u64::try_from(asked).ok().filter(|seconds| *seconds <= WEBHOOK_GRACE_SECONDS_MAX);
        fits.ok_or_else(|| {
            bad("webhook.bad_grace", format!("grace_seconds must be 0 to {WEBHOOK_GRACE_SECONDS_MAX}, not {asked}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_about_webhooks_names_every_kind() {
        let page = include_str!("../../../docs/webhooks.md");
        for kind in EventKind::ALL {
            assert!(page.contains(&format!("`{kind}`")), "docs/webhooks.md says nothing of {kind}");
        }
    }

    #[test]
    fn patterns_match_what_they_say() {
        let check = |pattern: &str, kind: &str, expected: bool| {
            assert_eq!(pattern.parse::<EventPattern>().unwrap().matches(kind), expected, "{pattern} {kind}");
        };
        check("*", "vm.died", true);
        check("sandbox.*", "sandbox.paused", true);
        check("sandbox.*", "sandboxes.paused", false);
        check("sandbox.*", "fork_tree.promoted", false);
        check("sandbox.paused", "sandbox.paused", true);
        check("sandbox.paused", "sandbox.paused.x", false);
        for bad in ["", "sandbox", "sandbox.", "sandbox*", "*.paused", "sandbox.**", "sandbox.Paused", "**", "other.*"]
        {
            assert_eq!(bad.parse::<EventPattern>().unwrap_err().code, "webhook.bad_events", "{bad}");
        }
    }

    #[test]
    fn lists_are_bounded_and_have_no_repeats() {
        let of = |list: &[&str]| checked_events(list.iter().map(|text| (*text).to_owned()).collect());
        assert_eq!(of(&["*", "vm.died", "*"]).unwrap().len(), 2);
        assert!(of(&[]).is_err() && of(&["*"; WEBHOOK_EVENTS_MAX + 1]).is_err());
        let grace = |seconds| RotateSecret { grace_seconds: seconds }.grace_seconds();
        assert_eq!((grace(None).unwrap(), grace(Some(0)).unwrap()), (86_400, 0));
        assert!(grace(Some(-1)).is_err() && grace(Some(i64::MAX)).is_err());
    }
}
