//! Health, version and caller, as the API shows them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Org;

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
    /// When the server was built. `unknown` if the build did not say.
    #[serde(default)]
    pub build_time: String,
    /// Always `none`: published clients expect the field, and this server is not written in Go.
    #[serde(default)]
    pub go: String,
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
    /// The organisation that this request acts in. Null for an API key, as published clients
    /// expect.
    pub current_org: Option<Org>,
    #[serde(default)]
    pub current_org_id: Option<String>,
    /// The caller's organisations, oldest membership first.
    pub orgs: Vec<Org>,
    /// `token` for an API key, `session` after a login, `jwt` for a token of a provider, `stub`
    /// without authentication.
    pub auth_method: String,
    /// The workspace that this request acts in.
    #[serde(default)]
    pub workspace: String,
    /// Whether the caller may administer the server.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub operator: bool,
}
