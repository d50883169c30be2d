//! `pandastack webhook replay`

use std::process::ExitCode;

use crate::{GlobalArgs, advice::advise, connect::connect, exit::ExitReason, output};

/// Arguments of `webhook replay`.
#[derive(Debug, clap::Args)]
pub struct ReplayArgs {
    /// Delivery ids, as `webhook deliveries` lists them
    #[arg(required = true, value_name = "DELIVERY")]
    ids: Vec<String>,
}

/// Delivers each event again. A failure does not stop the others.
pub async fn replay(args: ReplayArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let client = connect(global)?;
    let (mut queued, mut ended) = (Vec::new(), ExitCode::SUCCESS);
    for id in args.ids {
        match client.replay(&id).await {
            Ok(delivery) => {
                if !global.is_structured() {
                    output::line(&format!("queued {id}"))?;
                }
                queued.push(delivery);
            }
            Err(error) => {
                ended = ExitReason::of(&error).code();
                eprintln!("error: {id}: {}", advise(error));
            }
        }
    }
    if global.is_structured() {
        global.print(&queued)?;
    }
    Ok(ended)
}
