//! `pandastack billing budget`

use std::process::ExitCode;

use pandastack_client::wire::WorkspaceBudget;
use serde_json::json;

use super::{amount::usd, show::terms};
use crate::{GlobalArgs, advice::advise, org::pick::ChosenOrg, output};

/// Arguments of `billing budget`.
#[derive(Debug, clap::Args)]
pub struct BudgetArgs {
    /// What may be charged in a month, in dollars; replaces the present budget
    #[arg(long, value_name = "USD", value_parser = dollars, required_unless_present = "remove")]
    monthly: Option<f64>,
    /// Share of the budget at which an alert is sent
    #[arg(long, value_name = "PERCENT", default_value_t = 80, value_parser = clap::value_parser!(u8).range(1..=100))]
    alert: u8,
    /// Put sandboxes to sleep, and start nothing new, when the budget is used up
    #[arg(long)]
    hard_cap: bool,
    /// Remove the budget
    #[arg(long, conflicts_with_all = ["monthly", "alert", "hard_cap"])]
    remove: bool,
}

/// Sets or removes the budget of an organisation.
pub async fn budget(args: BudgetArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let ChosenOrg { client, org } = ChosenOrg::find(None, global).await?;
    match args.wanted() {
        Some(budget) => {
            let set = client.set_budget(&org.id, &budget).await.map_err(advise)?;
            if global.is_structured() {
                global.print(&set)?;
            } else {
                output::line(&format!("budget of {}: {} a month, {}", org.slug, usd(set.monthly_usd), terms(&set)))?;
            }
        }
        None => {
            client.remove_budget(&org.id).await.map_err(advise)?;
            if global.is_structured() {
                global.print(&json!({ "removed": org.id }))?;
            } else {
                output::line(&format!("removed the budget of {}", org.slug))?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

impl BudgetArgs {
    /// The new budget. `None` if it is to be removed.
    pub fn wanted(&self) -> Option<WorkspaceBudget> {
        let (alert_percent, hard_cap) = (self.alert, self.hard_cap);
        self.monthly.map(|monthly_usd| WorkspaceBudget { monthly_usd, alert_percent, hard_cap })
    }
}

fn dollars(text: &str) -> Result<f64, String> {
    let number = text.strip_prefix('$').unwrap_or(text).parse::<f64>().ok();
    number
        .filter(|amount| amount.is_finite() && *amount >= 0.0)
        .ok_or_else(|| "write an amount of dollars such as 50 or 12.50".to_owned())
}
