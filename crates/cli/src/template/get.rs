//! `pandastack template get`

use std::process::ExitCode;

use crate::{GlobalArgs, advice::advise, connect::connect, output};

/// Arguments of `template get`.
#[derive(Debug, clap::Args)]
pub struct GetTemplateArgs {
    /// Name of the template
    name: String,
}

/// Shows one template with all its fields, as JSON.
pub async fn get(args: GetTemplateArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let template = connect(global)?.get_template(&args.name).await.map_err(advise)?;
    output::json(&template)?;
    Ok(ExitCode::SUCCESS)
}
