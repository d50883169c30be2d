//! Snapshots as the API shows them.

use serde::{Deserialize, Serialize};

use crate::VolumeAttachment;

/// Memory, disk and volumes of a sandbox at one moment. It outlives the sandbox.
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
    /// The volumes in it. A sandbox from the snapshot gets copies of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<VolumeAttachment>,
}

/// A list of snapshots.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SnapshotList {
    pub snapshots: Vec<Snapshot>,
}
