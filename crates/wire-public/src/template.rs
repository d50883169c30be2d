//! Templates as the API shows them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a sandbox can start from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Template {
    pub name: String,
    /// A name for the root file system; typed as required by one published client, never a path on
    /// a host.
    pub rootfs_path: String,
    pub size_bytes: u64,
    pub cpu: u32,
    pub memory_mb: u64,
    /// Whether it is the server's own, which nobody deletes.
    pub is_global: bool,
    /// Whose it is otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// What it was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// What it says about sandboxes made from it, and where it lies.
    #[serde(default)]
    pub meta: BTreeMap<String, Value>,
}
