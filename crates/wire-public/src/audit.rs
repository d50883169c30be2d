//! What an audit of the host found, as the API shows it.

use serde::{Deserialize, Serialize};

/// Counts of what is accounted for, and everything that is not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Audit {
    pub machines: usize,
    pub slots: usize,
    pub disks: usize,
    pub layers: usize,
    pub volumes: usize,
    /// Each thing that nobody owns, or that is recorded and missing, in words.
    pub leaks: Vec<String>,
    /// Which of them were removed by this audit.
    #[serde(default)]
    pub repaired: Vec<String>,
}
