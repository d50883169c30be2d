//! `pandastack sandbox list`

use std::process::ExitCode;

use pandastack_client::wire::Sandbox;

use crate::{
    GlobalArgs,
    connect::connect,
    find::NAME_LABEL,
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
    let client = connect(global)?;
    let head = &["ID", "NAME", "TEMPLATE", "STATUS", "CPU", "MEMORY", "ISOLATION", "CREATED"];
    let listing = TableFormat { head, row, empty: "no sandboxes; create one with: pandastack create" };
    args.form.print(global, listing, async || client.list().await).await
}

fn row(sandbox: &Sandbox) -> Vec<String> {
    vec![
        sandbox.id.clone(),
        sandbox.metadata.get(NAME_LABEL).cloned().unwrap_or_else(|| "-".to_owned()),
        sandbox.template.clone(),
        sandbox.status.clone(),
        sandbox.cpu.to_string(),
        format!("{} MiB", sandbox.memory_mb),
        sandbox.isolation.clone(),
        sandbox.created_at.clone(),
    ]
}
