//! `pandastack db branch`

use std::process::ExitCode;

use pandastack_client::wire::BranchDatabase;

use super::wait::{ReadyWait, WaitArgs};
use crate::{GlobalArgs, pick::DatabaseArg};

/// Arguments of `db branch`.
#[derive(Debug, clap::Args)]
pub struct BranchDatabaseArgs {
    #[command(flatten)]
    database: DatabaseArg,
    /// Label of the copy: other commands accept it instead of the id
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,
    #[command(flatten)]
    wait: WaitArgs,
}

/// Copies a database and waits until the copy can be used.
pub async fn branch(args: BranchDatabaseArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let BranchDatabaseArgs { database, label, wait } = args;
    let (client, id) = database.find(global).await?;
    let ask = BranchDatabase { label };
    wait.finish(&client, global, ReadyWait::started("branching database"), client.branch_database(&id, &ask)).await
}
