//! `pandastack db reset`

use std::process::ExitCode;

use anyhow::bail;
use pandastack_client::wire::ManagedDatabase;

use super::wait::{ReadyWait, WaitArgs};
use crate::{GlobalArgs, advice::advise, exit::ExitReason, pick::DatabaseArg, prompt};

/// Arguments of `db reset`.
#[derive(Debug, clap::Args)]
pub struct ResetDatabaseArgs {
    #[command(flatten)]
    database: DatabaseArg,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    wait: WaitArgs,
}

/// Makes a branch what its parent is now, after the person has agreed, and waits until it can be
/// used.
pub async fn reset(args: ResetDatabaseArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let ResetDatabaseArgs { database, yes, wait } = args;
    let (client, id) = database.find(global).await?;
    if !yes {
        let branch = client.get_database(&id).await.map_err(advise)?;
        confirm(&branch).await?;
    }
    let plan = ReadyWait::started("resetting branch").of_old();
    wait.finish(&client, global, plan, client.reset_database(&id)).await
}

async fn confirm(branch: &ManagedDatabase) -> anyhow::Result<()> {
    let lost = lost(branch)?;
    if !prompt::is_interactive() {
        return Err(ExitReason::Usage.error(format!("{lost}\nConfirm it with --yes")));
    }
    eprintln!("{lost}\nIt cannot be undone.");
    if prompt::ask("Type yes to reset it: ").await?.trim() != "yes" {
        bail!("nothing was reset");
    }
    Ok(())
}

/// Says what a reset loses. Only a branch can be reset.
pub(super) fn lost(branch: &ManagedDatabase) -> anyhow::Result<String> {
    let ManagedDatabase { id, label, branched_from, .. } = branch;
    let Some(parent) = branched_from else {
        let text = format!("database {id} is no branch; to copy another database use: pandastack db branch");
        return Err(ExitReason::Failure.error(text));
    };
    let label = label.iter().map(|label| format!(" ({label})")).collect::<String>();
    let text = format!("This replaces all data of branch {id}{label} with that of its parent {parent}.");
    Ok(text.chars().filter(|letter| !letter.is_control()).collect())
}
