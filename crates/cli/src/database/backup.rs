//! `pandastack db backup`

use std::process::ExitCode;

use super::backups::mib;
use crate::{
    GlobalArgs,
    advice::advise,
    interrupt::{INTERRUPTED, StopSignals},
    output,
    pick::DatabaseArg,
    spinner::Spinner,
};

/// Arguments of `db backup`.
#[derive(Debug, clap::Args)]
pub struct TakeBackupArgs {
    #[command(flatten)]
    database: DatabaseArg,
}

/// Takes a base backup and prints its name. Ctrl-C ends the wait, not the backup.
pub async fn backup(args: TakeBackupArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let (client, id) = args.database.find(global).await?;
    let mut interrupt = StopSignals::listen()?;
    let spinner = Spinner::start("taking a backup");
    let taken = tokio::select! {
        taken = client.back_up_database(&id) => Some(taken.map_err(advise)?),
        () = interrupt.recv() => None,
    };
    drop(spinner);
    let Some(taken) = taken else {
        eprintln!("the backup may still be taken; see: pandastack db backups {id}");
        return Ok(ExitCode::from(INTERRUPTED));
    };
    if global.is_structured() {
        global.print(&taken)?;
    } else {
        output::line(&taken.name)?;
        eprintln!("backup of {} taken at {}", mib(taken.size_bytes), taken.taken_at);
    }
    Ok(ExitCode::SUCCESS)
}
