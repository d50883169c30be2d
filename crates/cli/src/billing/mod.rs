//! `pandastack billing …`, `pandastack usage` and `pandastack pricing`

mod amount;
mod budget;
mod page;
mod pricing;
mod show;
mod sync;
#[cfg(test)]
mod tests;
mod usage;

use std::process::ExitCode;

pub use amount::usd;
use pandastack_client::Client;
pub use pricing::pricing;
pub use usage::{UsageArgs, usage};

use crate::{GlobalArgs, connect::connect, org::pick::ChosenOrg};

/// Arguments of `billing`. Without a command it shows the bill.
#[derive(Debug, clap::Args)]
pub struct BillingArgs {
    #[command(subcommand)]
    command: Option<BillingCommand>,
}

/// Commands for the bill of the current organisation, or of the one that `--org` names.
#[derive(Debug, clap::Subcommand)]
pub enum BillingCommand {
    /// Show what was used in this month and what it costs
    Show,
    /// Limit what a month may cost, or remove the limit
    Budget(budget::BudgetArgs),
    /// Print the address of a page on which a plan can be bought
    Buy(page::BuyPlanArgs),
    /// Print the address of a page for invoices, cards and the end of the subscription
    Portal,
    /// Post the usage of all complete hours to Stripe now
    Sync,
}

/// Runs one of these commands.
pub async fn execute(args: BillingArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    match args.chosen() {
        BillingCommand::Show => show::show(global).await,
        BillingCommand::Budget(args) => budget::budget(args, global).await,
        BillingCommand::Buy(args) => page::buy(args, global).await,
        BillingCommand::Portal => page::portal(global).await,
        BillingCommand::Sync => sync::sync(global).await,
    }
}

impl BillingArgs {
    /// Returns the command.
    fn chosen(self) -> BillingCommand {
        self.command.unwrap_or(BillingCommand::Show)
    }
}

/// Whose usage a command shows.
struct UsageOwner {
    client: Client,
    /// Id of the organisation that `--org` names. `None` for the workspace of the credential, which
    /// may be an API key.
    org: Option<String>,
}

impl UsageOwner {
    async fn find(global: &GlobalArgs) -> anyhow::Result<Self> {
        if global.org.as_deref().is_none_or(str::is_empty) {
            return Ok(Self { client: connect(global)?, org: None });
        }
        let ChosenOrg { client, org } = ChosenOrg::find(None, global).await?;
        Ok(Self { client, org: Some(org.id) })
    }
}
