//! `pandastack db logs`

use std::process::ExitCode;

use crate::{GlobalArgs, advice::advise, output, pick::DatabaseArg};

/// Arguments of `db logs`.
#[derive(Debug, clap::Args)]
pub struct DatabaseLogsArgs {
    #[command(flatten)]
    database: DatabaseArg,
    /// Show this many of the last lines, at most 2000
    #[arg(
        long,
        short = 'n',
        value_name = "N",
        default_value = "300",
        value_parser = clap::value_parser!(u32).range(1..=2000)
    )]
    lines: u32,
}

/// Shows the log of PostgreSQL. Does not wake the database.
pub async fn logs(args: DatabaseLogsArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let DatabaseLogsArgs { database, lines } = args;
    let (client, id) = database.find(global).await?;
    let found = client.database_logs(&id, Some(lines)).await.map_err(advise)?;
    if global.is_structured() {
        global.print(&found)?;
        return Ok(ExitCode::SUCCESS);
    }
    last_lines(&found.logs, lines as usize).try_for_each(output::line)?;
    Ok(ExitCode::SUCCESS)
}

/// The last lines of a text. The server sends more than a few.
pub(super) fn last_lines(text: &str, count: usize) -> impl Iterator<Item = &str> {
    text.lines().skip(text.lines().count().saturating_sub(count))
}
