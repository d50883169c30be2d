//! The idle limit of a sandbox and what happens when it is reached, and the answers of hibernate
//! and wake.

use pandastack_model::Fault;
use serde::{Deserialize, Serialize};

use crate::sandbox::checked_ttl;

/// A sandbox's idle limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Lifecycle {
    /// Idle limit in seconds; 0 means no limit.
    pub ttl_seconds: u64,
    /// Whether the sandbox sleeps at the idle limit instead of being deleted.
    pub persistent: bool,
    /// How long the sandbox has not been used.
    #[serde(default)]
    pub idle_seconds: u64,
}

/// Changes the idle limit. Missing fields keep their value.
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

/// The state after the request.
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
