//! `pandastack sandbox hibernate`

use std::process::ExitCode;

use serde_json::json;

use crate::{GlobalArgs, advice::advise, connect::connect, output, spinner::Spinner};

/// Arguments of `sandbox hibernate`.
#[derive(Debug, clap::Args)]
pub struct HibernateArgs {
    /// Sandbox id
    id: String,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// Puts a sandbox to sleep. Memory and disk are kept, and nothing runs.
pub async fn hibernate(args: HibernateArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let HibernateArgs { id, json } = args;
    let client = connect(global)?;
    let spinner = Spinner::start("hibernating");
    let status = client.hibernate(&id).await.map_err(advise)?.status;
    drop(spinner);
    if json {
        output::json(&json!({"id": id, "status": status}))?;
    } else {
        output::line(&format!("{status} {id}; the next use wakes it"))?;
    }
    Ok(ExitCode::SUCCESS)
}
