//! What an operator may choose about the control plane.

use pandastack_model::PreviewSuffix;

use crate::limits::{RATE_BURST, RATE_PER_SECOND, SANDBOXES_PER_WORKSPACE_MAX};

/// Checked settings of the control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlSettings {
    /// Sandboxes of one workspace at the same time.
    pub sandboxes_max: u64,
    pub rate: RateSettings,
    /// Domain below which signed links are made. The edge serves the same one.
    pub preview_suffix: PreviewSuffix,
}

/// How fast a workspace may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateSettings {
    /// Requests a second in the long run; 0 is no limit.
    pub per_second: u32,
    /// Requests at once after a rest.
    pub burst: u32,
    pub operator: Operator,
}

/// Whether the first workspace, which is the operator's own, is held to the limit too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    Limited,
    Free,
}

impl Default for ControlSettings {
    fn default() -> Self {
        let rate = RateSettings { per_second: RATE_PER_SECOND, burst: RATE_BURST, operator: Operator::Free };
        Self { sandboxes_max: SANDBOXES_PER_WORKSPACE_MAX, rate, preview_suffix: PreviewSuffix::default() }
    }
}
