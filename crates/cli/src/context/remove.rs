//! `pandastack context remove`

use std::process::ExitCode;

use clap_complete::ArgValueCompleter;

use crate::{GlobalArgs, account::saved, complete, output};

/// Arguments of `context remove`.
#[derive(Debug, clap::Args)]
pub struct RemoveContextArgs {
    /// Names of contexts. The current one cannot be removed
    #[arg(required = true, value_name = "NAME", add = ArgValueCompleter::new(complete::contexts))]
    names: Vec<String>,
}

/// Forgets servers. None is forgotten if one of them cannot be.
pub fn remove(args: &RemoveContextArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let mut saved = saved()?;
    for name in &args.names {
        saved.remove_context(name)?;
    }
    saved.save()?;
    if global.is_structured() {
        global.print(&serde_json::json!({ "removed": args.names }))?;
    } else {
        args.names.iter().try_for_each(|name| output::line(&format!("removed {name}")))?;
    }
    Ok(ExitCode::SUCCESS)
}
