//! Templates as the API shows them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A template that sandboxes can start from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Template {
    pub name: String,
    /// A name for the root file system, never a path on a host. One published client requires the
    /// field.
    pub rootfs_path: String,
    pub size_bytes: u64,
    pub cpu: u32,
    pub memory_mb: u64,
    /// Whether the template belongs to the server. Such a template cannot be deleted.
    pub is_global: bool,
    /// The workspace that owns the template. Absent for templates of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// The source of the template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// Why sandboxes cannot start from the template now: `waiting` or `baking` while the server
    /// makes it, `failed` if it could not. Absent for a template that can be used.
    /// `meta.description` says more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Further information about the template and its sandboxes.
    #[serde(default)]
    pub meta: BTreeMap<String, Value>,
    /// Whether databases can start from it at once. Only of templates of databases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub databases: Option<DatabasePreparation>,
}

/// How far the server is with the machine that databases of a template start from. It makes that
/// machine once for each bake, in the background.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DatabasePreparation {
    pub status: PreparationStatus,
    /// When the attempt that runs began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Why the last attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// When the server tries again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_try_at: Option<String>,
}

/// The state of such a preparation. `waiting`: it begins soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "lowercase")]
pub enum PreparationStatus {
    Waiting,
    Preparing,
    Ready,
    Failed,
}
