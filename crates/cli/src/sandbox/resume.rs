//! `pandastack sandbox resume`

use std::process::ExitCode;

use serde_json::json;

use crate::{GlobalArgs, advice::advise, connect::connect, output, spinner::Spinner};

/// Arguments of `sandbox resume`.
#[derive(Debug, clap::Args)]
pub struct ResumeArgs {
    /// Sandbox id
    id: String,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// Lets a sandbox's CPUs run again.
pub async fn resume(args: ResumeArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let ResumeArgs { id, json } = args;
    let client = connect(global)?;
    let spinner = Spinner::start("resuming");
    client.resume(&id).await.map_err(advise)?;
    drop(spinner);
    if json {
        output::json(&json!({"id": id, "status": "running"}))?;
    } else {
        output::line(&format!("resumed {id}"))?;
    }
    Ok(ExitCode::SUCCESS)
}
