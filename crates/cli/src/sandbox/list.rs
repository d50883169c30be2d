//! `pandastack sandbox list`

use std::process::ExitCode;

use pandastack_client::wire::{KindFilter, Sandbox};

use crate::{
    GlobalArgs,
    connect::connect,
    find::NAME_LABEL,
    kind::KindArgs,
    many::{ListFormat, TableFormat},
};

/// Arguments of `sandbox list`.
#[derive(Debug, clap::Args)]
pub struct ListSandboxesArgs {
    #[command(flatten)]
    form: ListFormat,
    #[command(flatten)]
    kind: KindArgs,
}

/// Lists sandboxes.
pub async fn list(args: ListSandboxesArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let client = connect(global)?;
    let kinds = args.kind.kinds;
    let empty = match kinds {
        KindFilter::Sandboxes | KindFilter::All => "no sandboxes; create one with: pandastack create",
        KindFilter::Databases => "no machines of databases; create one with: pandastack db create",
    };
    let listing = match kinds {
        KindFilter::Sandboxes => TableFormat { head: &HEAD[..HEAD.len() - 1], row, empty },
        KindFilter::Databases | KindFilter::All => TableFormat { head: &HEAD, row: row_with_kind, empty },
    };
    args.form.print(global, listing, async || client.list_kinds(kinds).await).await
}

static HEAD: [&str; 9] = ["ID", "NAME", "TEMPLATE", "STATUS", "CPU", "MEMORY", "ISOLATION", "CREATED", "KIND"];

fn row_with_kind(sandbox: &Sandbox) -> Vec<String> {
    let kind = if sandbox.database_id.is_some() { KindFilter::Databases } else { KindFilter::Sandboxes };
    let mut cells = row(sandbox);
    cells.push(kind.as_str().to_owned());
    cells
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
