//! Templates as the API shows them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What a sandbox can start from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Template {
    pub name: String,
    /// A name for the root file system; typed as required by one published client, never a path on a host.
    pub rootfs_path: String,
    pub size_bytes: u64,
    pub cpu: u32,
    pub memory_mb: u64,
    pub is_global: bool,
    #[serde(default)]
    pub meta: BTreeMap<String, String>,
}
