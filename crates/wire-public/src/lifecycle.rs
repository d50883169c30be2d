//! How long a sandbox may be idle and what becomes of it then, and the answers of hibernate and
//! wake.

use pandastack_model::Fault;
use serde::{Deserialize, Serialize};

use crate::sandbox::checked_ttl;

/// A sandbox's idle limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Lifecycle {
    /// 0 is no limit.
    pub ttl_seconds: u64,
    /// Sleeps when idle instead of ending.
    pub persistent: bool,
    /// How long nobody has used it.
    #[serde(default)]
    pub idle_seconds: u64,
}

/// Asks for another limit; what is not given stays.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct SetLifecycle {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent: Option<bool>,
}

/// A checked change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LifecycleChange {
    pub ttl_seconds: Option<u64>,
    pub persistent: Option<bool>,
}

/// The state that a request led to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Status {
    pub status: String,
}

impl TryFrom<SetLifecycle> for LifecycleChange {
    type Error = Fault;

    fn try_from(ask: SetLifecycle) -> Result<Self, Fault> {
        let SetLifecycle { ttl_seconds, persistent } = ask;
        Ok(Self { ttl_seconds: ttl_seconds.map(checked_ttl).transpose()?, persistent })
    }
}
