//! What a caller asked for, already checked.

use std::collections::BTreeMap;

use crate::{Egress, LayerId, Owner, TemplateName, VolumeMount};

/// Idle limit of a sandbox whose caller named none.
pub const TTL_SECONDS_DEFAULT: u64 = 300;

/// A sandbox as wanted: every limit, name and default is settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxSpec {
    /// Whose share of the host it takes; `None` takes nobody's.
    pub owner: Option<Owner>,
    /// Where it, or its first ancestor, came from.
    pub template: TemplateName,
    pub origin: Origin,
    /// Idle limit; 0 is none.
    pub ttl_seconds: u64,
    /// Sleeps when idle instead of ending.
    pub persistent: bool,
    pub metadata: BTreeMap<String, String>,
    /// Environment of every process started in the sandbox.
    pub env: BTreeMap<String, String>,
    pub egress: Egress,
    /// Most megabits a second in each direction; `None` is no limit.
    pub bandwidth_mbps: Option<u32>,
    pub volumes: Vec<VolumeMount>,
}

/// Which layer a sandbox starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Whatever its template's name stands for at that moment.
    Template,
    /// A sealed layer: a snapshot, or the parent of a fork.
    Layer(LayerId),
}

impl SandboxSpec {
    /// The plainest sandbox of a template.
    pub fn of(template: TemplateName) -> Self {
        Self {
            owner: None,
            template,
            origin: Origin::Template,
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
