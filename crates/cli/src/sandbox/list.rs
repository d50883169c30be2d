//! `pandastack sandbox list`

use std::process::ExitCode;

use pandastack_client::wire::Sandbox;

use crate::{
    GlobalArgs,
    connect::connect,
    many::{ListFormat, TableFormat},
};

/// Arguments of `sandbox list`.
#[derive(Debug, clap::Args)]
pub struct ListSandboxesArgs {
    #[command(flatten)]
    form: ListFormat,
}

/// Lists sandboxes.
pub async fn list(args: ListSandboxesArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let sandboxes = connect(global)?.list().await?;
    let head = &["ID", "TEMPLATE", "STATUS", "CPU", "MEMORY", "ISOLATION", "CREATED"];
    args.form
        .print(&sandboxes, TableFormat { head, row, empty: "no sandboxes; create one with: pandastack sandbox create" })
}

fn row(sandbox: &Sandbox) -> Vec<String> {
    vec![
        sandbox.id.clone(),
        sandbox.template.clone(),
        sandbox.status.clone(),
        sandbox.cpu.to_string(),
        format!("{} MiB", sandbox.memory_mb),
        sandbox.isolation.clone(),
        sandbox.created_at.clone(),
    ]
}
