//! `pandastack billing sync`

use std::process::ExitCode;

use crate::{GlobalArgs, advice::advise, connect::connect, output};

/// Arguments of `billing sync`.
#[derive(Debug, clap::Args)]
pub struct SyncBillingArgs {
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

/// Posts the usage of the workspace to Stripe.
pub async fn sync(args: SyncBillingArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let flushed = connect(global)?.sync_billing().await.map_err(advise)?;
    if args.json {
        output::json(&flushed)?;
    } else {
        output::line(&format!("posted {}, pending {}", flushed.posted, flushed.pending))?;
    }
    Ok(ExitCode::SUCCESS)
}
