//! Events of a sandbox, as the API shows them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A list of events, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventList {
    pub events: Vec<Event>,
}

/// Recent events of a workspace, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkspaceEvents {
    pub events: Vec<WorkspaceEvent>,
    /// The place after the last event, for `since`.
    pub cursor: String,
}

/// One event of a workspace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkspaceEvent {
    /// The place after this event, for `since` and `Last-Event-ID`.
    pub id: String,
    pub ts: String,
    /// The kind, such as `sandbox.paused` or `volume.changed`.
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_id: Option<String>,
    /// The managed database that the sandbox is the machine of. Absent for plain sandboxes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database_id: Option<String>,
    /// Details. An event that changes a sandbox's state has the new `status`.
    #[serde(default)]
    pub payload: Map<String, Value>,
}

/// A place in a stream of events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventPlace {
    pub cursor: String,
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
