//! `pandastack webhook replay`

use std::process::ExitCode;

use crate::{GlobalArgs, advice::advise, connect::connect, output};

/// Arguments of `webhook replay`.
#[derive(Debug, clap::Args)]
pub struct ReplayArgs {
    /// Delivery ids, as `webhook deliveries` lists them
    #[arg(required = true, value_name = "DELIVERY")]
    ids: Vec<String>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// Delivers each event again. A failure does not stop the others.
pub async fn replay(args: ReplayArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let client = connect(global)?;
    let (mut queued, mut ended) = (Vec::new(), ExitCode::SUCCESS);
    for id in args.ids {
        match client.replay(&id).await {
            Ok(delivery) => {
                if !args.json {
                    output::line(&format!("queued {id}"))?;
                }
                queued.push(delivery);
            }
            Err(error) => {
                eprintln!("error: {id}: {}", advise(error));
                ended = ExitCode::FAILURE;
            }
        }
    }
    if args.json {
        output::json(&queued)?;
    }
    Ok(ended)
}
