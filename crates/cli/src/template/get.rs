//! `pandastack template get`

use std::process::ExitCode;

use clap_complete::ArgValueCompleter;
use serde_json::Value;

use crate::{GlobalArgs, complete, connect::connect, find::FoundKind, output};

/// Arguments of `template get`.
#[derive(Debug, clap::Args)]
pub struct GetTemplateArgs {
    /// Template: its name, or a unique start of it
    #[arg(add = ArgValueCompleter::new(complete::templates))]
    name: String,
}

/// Shows one template.
pub async fn get(args: GetTemplateArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let client = connect(global)?;
    let get = async |name: &str| client.get_template(name).await;
    let template = FoundKind::Template.call(&client, &args.name, get).await?;
    if global.is_structured() {
        global.print(&template)?;
        return Ok(ExitCode::SUCCESS);
    }
    // Every field, as the server calls it: templates have many, and people look at few of them.
    let Value::Object(fields) = serde_json::to_value(&template)? else { return Ok(ExitCode::SUCCESS) };
    let cell = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let fields = fields.iter().filter(|(name, value)| *name != "name" && !value.is_null());
    let rows: Vec<_> = fields.map(|(name, value)| vec![name.clone(), cell(value)]).collect();
    output::table(&["name", &template.name], &rows)?;
    Ok(ExitCode::SUCCESS)
}
