//! `pandastack db url`

use std::process::ExitCode;

use crate::{GlobalArgs, advice::advise, output, pick::DatabaseArg};

/// Arguments of `db url`.
#[derive(Debug, clap::Args)]
pub struct DatabaseUrlArgs {
    #[command(flatten)]
    database: DatabaseArg,
}

/// Prints the connection URL alone, so that a script can use it.
pub async fn url(args: DatabaseUrlArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let (client, id) = args.database.find(global).await?;
    let connection = client.database_connection(&id).await.map_err(advise)?;
    if global.is_structured() {
        global.print(&connection)?;
    } else {
        output::line(&connection.connection_url)?;
    }
    Ok(ExitCode::SUCCESS)
}
