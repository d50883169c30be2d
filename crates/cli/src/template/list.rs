//! `pandastack template list`

use std::process::ExitCode;

use pandastack_client::wire::Template;

use crate::{
    GlobalArgs,
    connect::connect,
    many::{ListFormat, TableFormat},
    snapshot::mebibytes,
};

/// Arguments of `template list`.
#[derive(Debug, clap::Args)]
pub struct ListTemplatesArgs {
    #[command(flatten)]
    form: ListFormat,
}

/// Lists templates.
pub async fn list(args: ListTemplatesArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let client = connect(global)?;
    let head = &["NAME", "CPU", "MEMORY", "DISK", "FROM", "OWNER"];
    let listing = TableFormat { head, row, empty: "no templates; bake one with: pandastack template bake mini" };
    args.form.print(global, listing, async || client.templates().await).await
}

fn row(template: &Template) -> Vec<String> {
    vec![
        template.name.clone(),
        template.cpu.to_string(),
        format!("{} MiB", template.memory_mb),
        mebibytes(template.size_bytes),
        template.base.clone().unwrap_or_default(),
        template.workspace.clone().unwrap_or_else(|| "server".to_owned()),
    ]
}
