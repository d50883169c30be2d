//! The audit trail as the API shows it.

use serde::{Deserialize, Serialize};

/// The answer to a listing, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AuditTrail {
    pub entries: Vec<AuditEntry>,
    /// From when on entries are listed.
    pub since: String,
}

/// One changing request of the caller's workspace. What it carried is not among it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AuditEntry {
    pub time: String,
    pub request_id: String,
    pub method: String,
    /// The route's template, such as `/v1/sandboxes/{id}`.
    pub route: String,
    /// The path without its query.
    pub path: String,
    pub status: u16,
    pub duration_ms: u64,
    /// The beginning of the key that was used.
    pub key_prefix: String,
}
