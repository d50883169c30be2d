//! `pandastack context use`

use std::process::ExitCode;

use clap_complete::ArgValueCompleter;

use crate::{GlobalArgs, account::saved, complete, output};

/// Arguments of `context use`.
#[derive(Debug, clap::Args)]
pub struct UseContextArgs {
    /// Name of the context
    #[arg(add = ArgValueCompleter::new(complete::contexts))]
    name: String,
}

/// Makes a context the current one.
pub fn use_context(args: &UseContextArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let mut saved = saved()?;
    saved.use_context(&args.name)?;
    saved.save()?;
    let url = saved.url()?;
    if global.is_structured() {
        global.print(&serde_json::json!({ "name": args.name, "api_url": url }))?;
    } else {
        output::line(&format!("commands now use {} ({url})", args.name))?;
    }
    Ok(ExitCode::SUCCESS)
}
