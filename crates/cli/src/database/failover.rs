//! `pandastack db failover`

use std::process::ExitCode;

use super::wait::{ReadyWait, WaitArgs};
use crate::{GlobalArgs, pick::DatabaseArg};

/// Arguments of `db failover`.
#[derive(Debug, clap::Args)]
pub struct FailoverArgs {
    #[command(flatten)]
    database: DatabaseArg,
    #[command(flatten)]
    wait: WaitArgs,
}

/// Rebuilds a failed database and waits until it can be used. Prints its new connection URL.
pub async fn failover(args: FailoverArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let (client, id) = args.database.find(global).await?;
    let wait = ReadyWait::rebuilt("rebuilding database").of_old();
    args.wait.finish(&client, global, wait, client.failover_database(&id)).await
}
