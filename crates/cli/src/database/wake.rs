//! `pandastack db wake`

use std::process::ExitCode;

use crate::{GlobalArgs, advice::advise, output, pick::DatabaseArg, spinner::Spinner};

/// Arguments of `db wake`.
#[derive(Debug, clap::Args)]
pub struct WakeDatabaseArgs {
    #[command(flatten)]
    database: DatabaseArg,
}

/// Wakes a database.
pub async fn wake(args: WakeDatabaseArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let (client, id) = args.database.find(global).await?;
    let spinner = Spinner::start("waking");
    let woken = client.wake_database(&id).await.map_err(advise)?;
    drop(spinner);
    if global.is_structured() {
        global.print(&woken)?;
    } else {
        output::line(&format!("{} {id}", woken.status))?;
    }
    Ok(ExitCode::SUCCESS)
}
