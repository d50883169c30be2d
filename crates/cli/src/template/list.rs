//! `pandastack template list`

use std::process::ExitCode;

use pandastack_client::wire::Template;

use crate::{GlobalArgs, advice::advise, connect::connect, output, snapshot::mebibytes};

/// Arguments of `template list`.
#[derive(Debug, clap::Args)]
pub struct ListArgs {
    /// Print as JSON
    #[arg(long, conflicts_with = "quiet")]
    json: bool,
    /// Print only names
    #[arg(long, short)]
    quiet: bool,
}

/// Lists templates.
pub async fn list(args: ListArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let templates = connect(global)?.templates().await.map_err(advise)?;
    if args.json {
        output::json(&templates)?;
    } else if args.quiet {
        for template in &templates {
            output::line(&template.name)?;
        }
    } else if templates.is_empty() {
        eprintln!("no templates yet; make one with: pandastack template bake mini");
    } else {
        let rows: Vec<_> = templates.iter().map(row).collect();
        output::table(&["NAME", "CPU", "MEMORY", "DISK", "FROM", "OWNER"], &rows)?;
    }
    Ok(ExitCode::SUCCESS)
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
