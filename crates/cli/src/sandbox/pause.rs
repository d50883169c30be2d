//! `pandastack sandbox pause`

use std::process::ExitCode;

use serde_json::json;

use crate::{GlobalArgs, advice::advise, output, pick::SandboxArg, spinner::Spinner};

/// Arguments of `sandbox pause`.
#[derive(Debug, clap::Args)]
pub struct PauseArgs {
    #[command(flatten)]
    sandbox: SandboxArg,
}

/// Stops a sandbox's CPUs.
pub async fn pause(args: PauseArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let PauseArgs { sandbox } = args;
    let (client, id) = sandbox.find(global).await?;
    let spinner = Spinner::start("pausing");
    client.pause(&id).await.map_err(advise)?;
    drop(spinner);
    if global.is_structured() {
        global.print(&json!({"id": id, "status": "paused"}))?;
    } else {
        output::line(&format!("paused {id}; resume it with: pandastack sandbox resume {id}"))?;
    }
    Ok(ExitCode::SUCCESS)
}
