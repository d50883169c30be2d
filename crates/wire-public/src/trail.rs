//! The audit trail as the API shows it.

use serde::{Deserialize, Serialize};

/// A list of audit entries, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AuditTrail {
    pub entries: Vec<AuditEntry>,
    /// Start of the listed period.
    pub since: String,
}

/// One changing request of the caller's workspace. The request body is not recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AuditEntry {
    pub time: String,
    pub request_id: String,
    pub method: String,
    /// The route's pattern, such as `/v1/sandboxes/{id}`.
    pub route: String,
    /// The path without its query.
    pub path: String,
    pub status: u16,
    pub duration_ms: u64,
    /// The start of the key that was used.
    pub key_prefix: String,
}
