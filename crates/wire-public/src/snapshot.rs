//! Snapshots as the API shows them.

use serde::{Deserialize, Serialize};

/// Memory and disk of a sandbox at one moment. Outlives the sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Snapshot {
    pub id: String,
    pub sandbox_id: String,
    pub template: String,
    /// What it takes for itself alone, beyond what it shares with its template.
    pub size_bytes: u64,
    pub created_at: String,
    #[serde(default)]
    pub workspace: String,
}

/// The answer to a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SnapshotList {
    pub snapshots: Vec<Snapshot>,
}
