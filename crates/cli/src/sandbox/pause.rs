//! `pandastack sandbox pause`

use std::process::ExitCode;

use serde_json::json;

use crate::{GlobalArgs, advice::advise, connect::connect, output, spinner::Spinner};

/// Arguments of `sandbox pause`.
#[derive(Debug, clap::Args)]
pub struct PauseArgs {
    /// Sandbox id
    id: String,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// Stops a sandbox's CPUs.
pub async fn pause(args: PauseArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let PauseArgs { id, json } = args;
    let client = connect(global)?;
    let spinner = Spinner::start("pausing");
    client.pause(&id).await.map_err(advise)?;
    drop(spinner);
    if json {
        output::json(&json!({"id": id, "status": "paused"}))?;
    } else {
        output::line(&format!("paused {id}; resume it with: pandastack sandbox resume {id}"))?;
    }
    Ok(ExitCode::SUCCESS)
}
