//! `pandastack billing buy` and `pandastack billing portal`: pages at Stripe.

use std::process::ExitCode;

use pandastack_client::wire::{BillingPage, BuyPlan};

use crate::{GlobalArgs, advice::advise, org::pick::ChosenOrg, output};

/// Arguments of `billing buy`.
#[derive(Debug, clap::Args)]
pub struct BuyPlanArgs {
    /// The plan: pro or team
    plan: String,
    /// Pay by year instead of by month
    #[arg(long)]
    yearly: bool,
}

/// Prints the address of a page on which a plan can be bought.
pub async fn buy(args: BuyPlanArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let ChosenOrg { client, org } = ChosenOrg::find(None, global).await?;
    let page = client.buy_plan(&org.id, &args.wanted()).await.map_err(advise)?;
    if global.is_structured() {
        global.print(&page)?;
    } else {
        print(&page, &format!("open this page to buy {} for {}", args.plan, org.slug))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the address of a page on which the subscription can be managed.
pub async fn portal(global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let ChosenOrg { client, org } = ChosenOrg::find(None, global).await?;
    let page = client.billing_portal(&org.id).await.map_err(advise)?;
    if global.is_structured() {
        global.print(&page)?;
    } else {
        print(&page, &format!("open this page to manage the subscription of {}", org.slug))?;
    }
    Ok(ExitCode::SUCCESS)
}

impl BuyPlanArgs {
    pub fn wanted(&self) -> BuyPlan {
        let interval = if self.yearly { "year" } else { "month" };
        BuyPlan { plan: self.plan.clone(), interval: Some(interval.to_owned()) }
    }
}

/// Only the address is on standard output, so that a script can open it.
fn print(page: &BillingPage, what_to_do: &str) -> anyhow::Result<()> {
    eprintln!("{what_to_do}:");
    output::line(&page.url)
}
