//! `pandastack sandbox wake`

use std::process::ExitCode;

use serde_json::json;

use crate::{GlobalArgs, advice::advise, connect::connect, output, spinner::Spinner};

/// Arguments of `sandbox wake`.
#[derive(Debug, clap::Args)]
pub struct WakeArgs {
    /// Sandbox id
    id: String,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// Wakes a sandbox.
pub async fn wake(args: WakeArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let WakeArgs { id, json } = args;
    let client = connect(global)?;
    let spinner = Spinner::start("waking");
    let status = client.wake(&id).await.map_err(advise)?.status;
    drop(spinner);
    if json {
        output::json(&json!({"id": id, "status": status}))?;
    } else {
        output::line(&format!("{status} {id}"))?;
    }
    Ok(ExitCode::SUCCESS)
}
