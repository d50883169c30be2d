//! Events of a sandbox, as the API shows them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A list of events, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventList {
    pub events: Vec<Event>,
}

/// One event. `time` and `ts` are the same, and so are `payload` and `metadata`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Event {
    pub time: String,
    pub ts: String,
    pub sandbox_id: String,
    /// The kind, such as `sandbox.paused` or `egress.denied`.
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default)]
    pub payload: Map<String, Value>,
    #[serde(default)]
    pub metadata: Map<String, Value>,
}
