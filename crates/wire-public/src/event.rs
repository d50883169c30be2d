//! What happened to a sandbox, as the API shows it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The answer to a listing, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventList {
    pub events: Vec<Event>,
}

/// One event. Time and payload come under both names that clients know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Event {
    pub time: String,
    pub ts: String,
    pub sandbox_id: String,
    /// Such as `sandbox.paused` or `egress.denied`.
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default)]
    pub payload: Map<String, Value>,
    #[serde(default)]
    pub metadata: Map<String, Value>,
}
