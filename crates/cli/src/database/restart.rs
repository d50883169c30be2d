//! `pandastack db restart`

use std::process::ExitCode;

use super::wait::{ReadyWait, WaitArgs};
use crate::{GlobalArgs, pick::DatabaseArg};

/// Arguments of `db restart`.
#[derive(Debug, clap::Args)]
pub struct RestartDatabaseArgs {
    #[command(flatten)]
    database: DatabaseArg,
    #[command(flatten)]
    wait: WaitArgs,
}

/// Restarts a database with its data and waits until it can be used.
pub async fn restart(args: RestartDatabaseArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let (client, id) = args.database.find(global).await?;
    let wait = ReadyWait::started("restarting database").of_old();
    args.wait.finish(&client, global, wait, client.restart_database(&id)).await
}
