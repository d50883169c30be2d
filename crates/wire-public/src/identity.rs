//! Health, version and caller, as the API shows them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Whether the server works. `status` is `ok` or `unhealthy`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Health {
    pub status: String,
    /// Every checked part with its result.
    #[serde(default)]
    pub checks: BTreeMap<String, String>,
}

/// The build of the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Version {
    pub service: String,
    pub semver: String,
    pub commit: String,
    pub os: String,
    pub arch: String,
    /// Isolation of sandboxes from the host: `kvm` or `emulated`. Absent if the host does not
    /// answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<String>,
    /// A warning about untrusted code at this isolation. Absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation_warning: Option<String>,
}

/// The owner of the request's credential.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Me {
    /// For an API key, the workspace.
    pub user_id: String,
    pub email: String,
    /// Null for an API key, as published clients expect.
    pub current_org: Option<BTreeMap<String, String>>,
    pub orgs: Vec<BTreeMap<String, String>>,
    pub auth_method: String,
}
