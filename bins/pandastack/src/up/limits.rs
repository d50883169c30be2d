//! What one workspace may use of the server of `pandastack up`: sandboxes, plans and requests.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use pandastack_control::{ControlSettings, DatabaseAddresses, OperatorLimit, PlanName, Plans, RateSettings};
use pandastack_model::PreviewSuffix;

#[derive(Args)]
pub struct LimitArgs {
    /// Most sandboxes that one workspace may have at the same time
    #[arg(long, default_value_t = ControlSettings::default().sandboxes_max, value_name = "COUNT")]
    max_sandboxes: u64,
    /// File with the plans of workspaces; "pandastack admin quota plans" prints the built-in ones
    #[arg(long, env = "PANDASTACK_PLANS", value_name = "FILE")]
    plans: Option<PathBuf>,
    /// Plan of a workspace that has none of its own: free, pro, team or custom. The first workspace
    /// is then not limited
    #[arg(long, env = "PANDASTACK_DEFAULT_PLAN", default_value = "custom", value_name = "PLAN")]
    default_plan: PlanName,
    /// Requests per second for one workspace; 0 means no limit. The default is 25, but the first
    /// workspace is then not limited
    #[arg(long, value_name = "PER_SECOND")]
    rate_limit: Option<u32>,
    /// Requests that one workspace may send at once after a pause
    #[arg(long, default_value_t = ControlSettings::default().rate.burst, value_name = "COUNT")]
    rate_burst: u32,
}

impl LimitArgs {
    pub fn settings(&self, preview_suffix: &PreviewSuffix) -> Result<ControlSettings> {
        let usual = ControlSettings::default();
        let rate = RateSettings {
            per_second: self.rate_limit.unwrap_or(usual.rate.per_second),
            burst: self.rate_burst,
            // An explicit rate limit applies to everybody. The default must not slow down an
            // operator who uses the server alone.
            operator: if self.rate_limit.is_some() { OperatorLimit::Limited } else { OperatorLimit::Free },
        };
        let plans = match &self.plans {
            Some(path) => {
                let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
                Plans::parse(&text).with_context(|| format!("read the plans in {}", path.display()))?
            }
            None => usual.plans,
        };
        Ok(ControlSettings {
            databases: DatabaseAddresses::default(),
            sandboxes_max: self.max_sandboxes,
            rate,
            plans,
            default_plan: self.default_plan,
            preview_suffix: preview_suffix.clone(),
        })
    }
}
