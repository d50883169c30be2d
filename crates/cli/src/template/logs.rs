//! `pandastack template logs`

use std::process::ExitCode;

use crate::{GlobalArgs, advice::advise, connect::connect, output};

/// Arguments of `template logs`.
#[derive(Debug, clap::Args)]
pub struct BuildLogsArgs {
    /// Build id
    id: String,
    /// Show only the log so far
    #[arg(long)]
    no_follow: bool,
}

/// Shows a build's log.
pub async fn logs(args: BuildLogsArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let mut log = connect(global)?.build_log(&args.id, !args.no_follow).await.map_err(advise)?;
    while let Some(line) = log.next().await {
        output::line(&line?)?;
    }
    Ok(ExitCode::SUCCESS)
}
