//! `pandastack sandbox hibernate`

use std::process::ExitCode;

use serde_json::json;

use crate::{GlobalArgs, advice::advise, output, pick::SandboxArg, spinner::Spinner};

/// Arguments of `sandbox hibernate`.
#[derive(Debug, clap::Args)]
pub struct HibernateArgs {
    #[command(flatten)]
    sandbox: SandboxArg,
}

/// Puts a sandbox to sleep. Memory and disk are kept, and nothing runs.
pub async fn hibernate(args: HibernateArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let HibernateArgs { sandbox } = args;
    let (client, id) = sandbox.find(global).await?;
    let spinner = Spinner::start("hibernating");
    let status = client.hibernate(&id).await.map_err(advise)?.status;
    drop(spinner);
    if global.is_structured() {
        global.print(&json!({"id": id, "status": status}))?;
    } else {
        output::line(&format!("{status} {id}; the next use wakes it"))?;
    }
    Ok(ExitCode::SUCCESS)
}
