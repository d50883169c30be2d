//! What a caller asked for, already checked.

use std::collections::BTreeMap;

use crate::TemplateName;

/// Idle limit of a sandbox whose caller named none.
pub const TTL_SECONDS_DEFAULT: u64 = 300;

/// A sandbox as wanted: every limit, name and default is settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxSpec {
    pub template: TemplateName,
    pub ttl_seconds: u64,
    pub persistent: bool,
    pub metadata: BTreeMap<String, String>,
    /// Environment of every process started in the sandbox.
    pub env: BTreeMap<String, String>,
}
