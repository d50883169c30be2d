//! `pandastack sandbox wake`

use std::process::ExitCode;

use serde_json::json;

use crate::{GlobalArgs, advice::advise, output, pick::SandboxArg, spinner::Spinner};

/// Arguments of `sandbox wake`.
#[derive(Debug, clap::Args)]
pub struct WakeArgs {
    #[command(flatten)]
    sandbox: SandboxArg,
}

/// Wakes a sandbox.
pub async fn wake(args: WakeArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let WakeArgs { sandbox } = args;
    let (client, id) = sandbox.find(global).await?;
    let spinner = Spinner::start("waking");
    let status = client.wake(&id).await.map_err(advise)?.status;
    drop(spinner);
    if global.is_structured() {
        global.print(&json!({"id": id, "status": status}))?;
    } else {
        output::line(&format!("{status} {id}"))?;
    }
    Ok(ExitCode::SUCCESS)
}
