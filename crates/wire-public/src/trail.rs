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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AuditEntry {
    /// The same as `number`. 0 for entries of old servers.
    pub id: u64,
    /// The id in exports.
    pub entry: String,
    /// The place in the workspace's hash chain. Entries of old servers have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    #[serde(flatten)]
    pub request: AuditedRequest,
}

/// A request as the audit trail shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AuditedRequest {
    /// When the request arrived.
    pub ts: String,
    pub workspace: String,
    pub request_id: String,
    pub method: String,
    /// The route's pattern, such as `/v1/sandboxes/{id}`.
    pub route: String,
    /// The path without its query.
    pub path: String,
    /// The answer. 499 if the client hung up before it.
    pub status: u16,
    pub duration_ms: u64,
    /// Who sent the request: `user:` and an id, or `key:` and the start of a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// The e-mail address of a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor_email: Option<String>,
    /// The network address of the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The start of the key that was used. Empty for a person.
    pub key_prefix: String,
}

/// One line of an export: an audit entry with what is needed to check the hash chain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExportedAuditEntry {
    pub id: String,
    /// The place in the workspace's hash chain. Entries of old servers have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    #[serde(flatten)]
    pub request: AuditedRequest,
    /// When the request arrived, in nanoseconds since 1970. Text, because it exceeds the exact
    /// numbers of many programs.
    pub at_ns: String,
    /// The hash of the entry before. Empty for the first one.
    pub previous_hash: String,
    pub hash: String,
}
