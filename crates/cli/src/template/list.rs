//! `pandastack template list`

use std::process::ExitCode;

use pandastack_client::wire::Template;

use crate::{
    GlobalArgs,
    advice::advise,
    connect::connect,
    many::{ListForm, Listing},
    snapshot::mebibytes,
};

/// Arguments of `template list`.
#[derive(Debug, clap::Args)]
pub struct ListArgs {
    #[command(flatten)]
    form: ListForm,
}

/// Lists templates.
pub async fn list(args: ListArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let templates = connect(global)?.templates().await.map_err(advise)?;
    let head = &["NAME", "CPU", "MEMORY", "DISK", "FROM", "OWNER"];
    args.form
        .print(&templates, Listing { head, row, empty: "no templates; bake one with: pandastack template bake mini" })
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
