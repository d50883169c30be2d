//! Health, build and caller, as the API shows them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Whether the server can work. `status` is `ok` or `unhealthy`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Health {
    pub status: String,
    /// Each part that was looked at, and what it said.
    #[serde(default)]
    pub checks: BTreeMap<String, String>,
}

/// Which build this is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Version {
    pub service: String,
    pub semver: String,
    pub commit: String,
    pub os: String,
    pub arch: String,
    /// How strongly sandboxes are separated from the host: `kvm` or `emulated`; absent if the host
    /// does not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<String>,
    /// What to know before running untrusted code at this isolation; absent if there is nothing to
    /// warn of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation_warning: Option<String>,
}

/// Whose credential came with the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Me {
    /// The workspace, for an API key.
    pub user_id: String,
    pub email: String,
    /// Null for an API key, which is what published clients expect.
    pub current_org: Option<BTreeMap<String, String>>,
    pub orgs: Vec<BTreeMap<String, String>>,
    pub auth_method: String,
}
