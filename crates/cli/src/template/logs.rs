//! `pandastack template logs`

use std::process::ExitCode;

use clap_complete::ArgValueCompleter;

use crate::{GlobalArgs, advice::advise, complete, connect::connect, find::FoundKind, output};

/// Arguments of `template logs`.
#[derive(Debug, clap::Args)]
pub struct BuildLogsArgs {
    /// Build: its id, or a unique start of it
    #[arg(add = ArgValueCompleter::new(complete::builds))]
    id: String,
    /// Show only the log so far
    #[arg(long)]
    no_follow: bool,
}

/// Shows a build's log.
pub async fn logs(args: BuildLogsArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let client = connect(global)?;
    let id = FoundKind::Build.find(&client, &args.id).await?;
    let mut log = client.build_log(&id, !args.no_follow).await.map_err(advise)?;
    while let Some(line) = log.next().await {
        output::line(&line?)?;
    }
    Ok(ExitCode::SUCCESS)
}
