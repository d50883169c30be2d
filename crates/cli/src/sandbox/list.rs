//! `pandastack sandbox list`

use std::process::ExitCode;

use pandastack_client::wire::Sandbox;

use crate::{GlobalArgs, connect::connect, output};

/// Arguments of `sandbox list`.
#[derive(Debug, clap::Args)]
pub struct ListArgs {
    /// Print as JSON
    #[arg(long, conflicts_with = "quiet")]
    json: bool,
    /// Print only ids
    #[arg(long, short)]
    quiet: bool,
}

/// Lists sandboxes.
pub async fn list(args: ListArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let sandboxes = connect(global)?.list().await?;
    if args.json {
        output::json(&sandboxes)?;
    } else if args.quiet {
        for sandbox in &sandboxes {
            output::line(&sandbox.id)?;
        }
    } else if sandboxes.is_empty() {
        eprintln!("no sandboxes; create one with: pandastack sandbox create");
    } else {
        let rows: Vec<_> = sandboxes.iter().map(row).collect();
        output::table(&["ID", "TEMPLATE", "STATUS", "CPU", "MEMORY", "ISOLATION", "CREATED"], &rows)?;
    }
    Ok(ExitCode::SUCCESS)
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
