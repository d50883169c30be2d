//! Settings of the control plane that the operator can change.

use pandastack_model::PreviewSuffix;

use crate::limits::{RATE_BURST, RATE_PER_SECOND, SANDBOXES_PER_WORKSPACE_MAX};

/// Checked settings of the control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlSettings {
    /// Sandboxes in one workspace at the same time.
    pub sandboxes_max: u64,
    pub rate: RateSettings,
    /// Domain of signed links. The edge serves the same domain.
    pub preview_suffix: PreviewSuffix,
}

/// Request rate of a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateSettings {
    /// Sustained requests per second; 0 means no limit.
    pub per_second: u32,
    /// Requests at once after a quiet period.
    pub burst: u32,
    pub operator: Operator,
}

/// Whether the rate limit also applies to the first workspace, which belongs to the operator.
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
