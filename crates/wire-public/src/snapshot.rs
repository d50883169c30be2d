//! Snapshots as the API shows them.

use serde::{Deserialize, Serialize};

/// Memory and disk of a sandbox at one moment. It outlives the sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Snapshot {
    pub id: String,
    pub sandbox_id: String,
    pub template: String,
    /// Size of the snapshot, without the data that it shares with its template.
    pub size_bytes: u64,
    pub created_at: String,
    #[serde(default)]
    pub workspace: String,
}

/// A list of snapshots.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SnapshotList {
    pub snapshots: Vec<Snapshot>,
}
