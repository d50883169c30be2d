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
    pub databases: DatabaseAddresses,
}

/// Where clients reach managed databases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseAddresses {
    /// What follows the id in a host name, as `.db.localhost`.
    pub suffix: String,
    pub port: u16,
    /// The server's own address, for the HTTP broker. By default the one of the request.
    pub api_url: Option<String>,
}

impl Default for DatabaseAddresses {
    fn default() -> Self {
        Self { suffix: ".db.localhost".to_owned(), port: 5432, api_url: None }
    }
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
            databases: DatabaseAddresses::default(),
        }
    }
}
