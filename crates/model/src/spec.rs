//! The validated specification of a sandbox.

use std::collections::BTreeMap;

use crate::{Egress, LayerId, Owner, TemplateName, VolumeMount};

/// Idle limit of a sandbox when the caller gives none.
pub const TTL_SECONDS_DEFAULT: u64 = 300;

/// A requested sandbox with every limit, name and default resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxSpec {
    /// Workspace whose share it counts against; `None` counts against none.
    pub owner: Option<Owner>,
    /// Template of the sandbox or of its first ancestor.
    pub template: TemplateName,
    pub origin: SandboxOrigin,
    /// Idle limit; 0 means none.
    pub ttl_seconds: u64,
    /// Sleeps when idle instead of being removed.
    pub persistent: bool,
    pub metadata: BTreeMap<String, String>,
    /// Environment of every process started in the sandbox.
    pub env: BTreeMap<String, String>,
    pub egress: Egress,
    /// Most megabits per second in each direction; `None` means no limit.
    pub bandwidth_mbps: Option<u32>,
    pub volumes: Vec<VolumeMount>,
}

/// Which layer a sandbox starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxOrigin {
    /// The layer that the template's name refers to at creation.
    Template,
    /// A sealed layer: a snapshot, or the parent of a fork.
    Layer(LayerId),
}

impl SandboxSpec {
    /// Makes a sandbox of a template with default settings.
    pub fn of(template: TemplateName) -> Self {
        Self {
            owner: None,
            template,
            origin: SandboxOrigin::Template,
            ttl_seconds: TTL_SECONDS_DEFAULT,
            persistent: false,
            metadata: BTreeMap::new(),
            env: BTreeMap::new(),
            egress: Egress::Open,
            bandwidth_mbps: None,
            volumes: Vec::new(),
        }
    }
}
