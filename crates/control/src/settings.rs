//! Settings of the control plane that the operator can change.

use pandastack_billing::{PlanName, Plans};
use pandastack_door::RateSettings;
use pandastack_model::PreviewSuffix;

use crate::limits::SANDBOXES_PER_WORKSPACE_MAX;

/// Checked settings of the control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlSettings {
    /// Sandboxes in one workspace at the same time.
    pub sandboxes_max: u64,
    pub rate: RateSettings,
    pub plans: Plans,
    /// The plan of a workspace that has none of its own.
    pub default_plan: PlanName,
    /// Domain of signed links. The edge serves the same domain.
    pub preview_suffix: PreviewSuffix,
}

impl Default for ControlSettings {
    fn default() -> Self {
        let rate = RateSettings::default();
        Self {
            sandboxes_max: SANDBOXES_PER_WORKSPACE_MAX,
            rate,
            plans: Plans::default(),
            default_plan: PlanName::Custom,
            preview_suffix: PreviewSuffix::default(),
        }
    }
}
