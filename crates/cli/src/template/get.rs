//! `pandastack template get`

use std::process::ExitCode;

use crate::{GlobalArgs, advice::advise, connect::connect, output};

/// Arguments of `template get`.
#[derive(Debug, clap::Args)]
pub struct GetArgs {
    /// The template's name
    name: String,
}

/// Shows one template, with everything it says, as JSON.
pub async fn get(args: GetArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let template = connect(global)?.get_template(&args.name).await.map_err(advise)?;
    output::json(&template)?;
    Ok(ExitCode::SUCCESS)
}
