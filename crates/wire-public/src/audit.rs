//! The result of a host audit, as the API shows it.

use serde::{Deserialize, Serialize};

/// The result of a host audit: counts of everything that is accounted for, and every leak.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Audit {
    pub machines: usize,
    pub slots: usize,
    pub disks: usize,
    pub layers: usize,
    pub volumes: usize,
    /// One text for each resource that has no owner, or that is recorded but missing.
    pub leaks: Vec<String>,
    /// Leaks that this audit removed.
    #[serde(default)]
    pub repaired: Vec<String>,
}
