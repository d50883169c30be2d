//! `pandastack template builds`

use std::process::ExitCode;

use pandastack_client::wire::Build;

use crate::{GlobalArgs, advice::advise, connect::connect, output};

/// Arguments of `template builds`.
#[derive(Debug, clap::Args)]
pub struct BuildsArgs {
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// Lists builds.
pub async fn builds(args: BuildsArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let builds = connect(global)?.builds().await.map_err(advise)?;
    if args.json {
        output::json(&builds)?;
    } else if builds.is_empty() {
        eprintln!("no builds; begin one with: pandastack template build NAME");
    } else {
        let rows: Vec<_> = builds.iter().map(row).collect();
        output::table(&["ID", "TEMPLATE", "STATUS", "STARTED", "ERROR"], &rows)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn row(build: &Build) -> Vec<String> {
    vec![
        build.id.clone(),
        build.name.clone(),
        build.status.clone(),
        build.started_at.clone(),
        build.error.clone().unwrap_or_default(),
    ]
}
