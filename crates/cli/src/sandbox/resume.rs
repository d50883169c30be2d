//! `pandastack sandbox resume`

use std::process::ExitCode;

use serde_json::json;

use crate::{GlobalArgs, advice::advise, output, pick::SandboxArg, spinner::Spinner};

/// Arguments of `sandbox resume`.
#[derive(Debug, clap::Args)]
pub struct ResumeArgs {
    #[command(flatten)]
    sandbox: SandboxArg,
}

/// Lets a sandbox's CPUs run again.
pub async fn resume(args: ResumeArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let ResumeArgs { sandbox } = args;
    let (client, id) = sandbox.find(global).await?;
    let spinner = Spinner::start("resuming");
    client.resume(&id).await.map_err(advise)?;
    drop(spinner);
    if global.is_structured() {
        global.print(&json!({"id": id, "status": "running"}))?;
    } else {
        output::line(&format!("resumed {id}"))?;
    }
    Ok(ExitCode::SUCCESS)
}
