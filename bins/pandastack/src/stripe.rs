//! The connection to Stripe, from the environment variables that docs/billing.md names.

use anyhow::{Context, Result};
use pandastack_control::{BillingSettings, StripeSettings};

/// Where Stripe answers, if not at its own address. For tests with a stand-in.
const BASE: &str = "STRIPE_API_BASE";

/// Reads the settings. `None` if billing is off.
pub fn settings() -> Result<Option<BillingSettings>> {
    let variable = |name: &str| std::env::var(name).ok();
    let Some(stripe) = StripeSettings::read(variable).context("connect to Stripe")? else { return Ok(None) };
    let base = variable(BASE).filter(|base| !base.is_empty());
    let base = base.map(|base| base.parse()).transpose().with_context(|| format!("{BASE} is not a URL"))?;
    Ok(Some(BillingSettings { stripe, base }))
}
