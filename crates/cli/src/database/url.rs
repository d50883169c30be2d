//! `pandastack db url`

use std::process::ExitCode;

use clap_complete::ArgValueCompleter;

use super::psql::chosen;
use crate::{GlobalArgs, advice::advise, complete, connect::connect, printed::PrintedUrl};

/// Arguments of `db url`.
#[derive(Debug, clap::Args)]
pub struct DatabaseUrlArgs {
    /// Database: its id, a unique start of it, or its label; not needed if there is only one
    #[arg(value_name = "ID", add = ArgValueCompleter::new(complete::databases))]
    id: Option<String>,
}

/// Prints the connection URL alone, so that a script can use it.
pub async fn url(args: DatabaseUrlArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let client = connect(global)?;
    let id = chosen(&client, args.id.as_deref()).await?;
    let connection = client.database_connection(&id).await.map_err(advise)?;
    if global.is_structured() {
        global.print(&connection)?;
    } else {
        PrintedUrl::of_database(&client, &connection.connection_url).await.print()?;
    }
    Ok(ExitCode::SUCCESS)
}
