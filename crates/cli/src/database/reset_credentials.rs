//! `pandastack db reset-credentials`

use std::process::ExitCode;

use crate::{GlobalArgs, advice::advise, pick::DatabaseArg, printed::PrintedUrl, spinner::Spinner};

/// Arguments of `db reset-credentials`.
#[derive(Debug, clap::Args)]
pub struct ResetCredentialsArgs {
    #[command(flatten)]
    database: DatabaseArg,
}

/// Replaces the credentials of a database and prints the new connection URL.
pub async fn reset(args: ResetCredentialsArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let (client, id) = args.database.find(global).await?;
    let spinner = Spinner::start("replacing credentials");
    let database = client.reset_database_credentials(&id).await.map_err(advise)?;
    drop(spinner);
    if global.is_structured() {
        global.print(&database)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(url) = &database.connection_url {
        PrintedUrl::of_database(&client, url).await.print()?;
    }
    eprintln!("the old password and broker token of {id} no longer work");
    Ok(ExitCode::SUCCESS)
}
