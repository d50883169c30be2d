//! `pandastack billing sync`

use std::process::ExitCode;

use crate::{GlobalArgs, advice::advise, connect::connect, output};

/// Posts the usage of the workspace to Stripe.
pub async fn sync(global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let flushed = connect(global)?.sync_billing().await.map_err(advise)?;
    if global.is_structured() {
        global.print(&flushed)?;
    } else {
        output::line(&format!("posted {}, pending {}", flushed.posted, flushed.pending))?;
    }
    Ok(ExitCode::SUCCESS)
}
