//! `pandastack db verify-backup`

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::Context;
use pandastack_client::{
    Client,
    wire::{BackupDrill, VerifyBackup},
};

use super::{
    backups::{drill_line, mib},
    moment::target_time,
};
use crate::{
    GlobalArgs,
    advice::advise,
    exit::ExitReason,
    interrupt::{INTERRUPTED, StopSignals},
    output,
    pick::DatabaseArg,
    spinner::Spinner,
};

/// Pause between two questions.
const PAUSE: Duration = Duration::from_secs(1);
/// Longest wait. A drill reads all data.
const DRILL_MAX: Duration = Duration::from_secs(3600);

/// Arguments of `db verify-backup`.
#[derive(Debug, clap::Args)]
pub struct VerifyBackupArgs {
    #[command(flatten)]
    database: DatabaseArg,
    /// Restore to this time: 2026-01-31T23:59:59Z, -10m or "10 minutes ago"; the latest by default
    #[arg(
        long,
        visible_alias = "target-time",
        value_name = "TIME",
        allow_hyphen_values = true,
        value_parser = target_time
    )]
    pub(super) at: Option<String>,
    /// Do not wait for the result; see it with `db backups`
    #[arg(long)]
    no_wait: bool,
}

/// How often and how long to ask for a drill.
#[derive(Clone, Copy, Debug)]
pub(super) struct DrillWait {
    pub pause: Duration,
    pub longest: Duration,
}

/// Restores a backup in a scratch machine and says what was checked. Ctrl-C ends the wait, not the
/// drill.
pub async fn verify_backup(args: VerifyBackupArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let VerifyBackupArgs { database, at, no_wait } = args;
    let (client, id) = database.find(global).await?;
    let mut interrupt = StopSignals::listen()?;
    let spinner = Spinner::start("restoring a backup and checking it");
    let begun = client.verify_database_backup(&id, &VerifyBackup { target_time: at }).await.map_err(advise)?;
    let wait = DrillWait { pause: PAUSE, longest: DRILL_MAX };
    let ended = if no_wait {
        Some(Ok(begun))
    } else {
        tokio::select! {
            ended = until_ended(&client, &id, begun, wait) => Some(ended),
            () = interrupt.recv() => None,
        }
    };
    drop(spinner);
    let Some(ended) = ended else {
        eprintln!("the drill goes on; see: pandastack db backups {id}");
        return Ok(ExitCode::from(INTERRUPTED));
    };
    report(&id, &ended?, global)
}

/// Asks until the drill has ended.
pub(super) async fn until_ended(
    client: &Client,
    id: &str,
    begun: BackupDrill,
    wait: DrillWait,
) -> anyhow::Result<BackupDrill> {
    let since = Instant::now();
    let mut drill = begun.clone();
    // The list may still show an older drill.
    while drill.status == "running" || drill.started_at < begun.started_at {
        if since.elapsed() >= wait.longest {
            let seconds = wait.longest.as_secs();
            let text = format!("the drill has not ended after {seconds} s; see: pandastack db backups {id}");
            return Err(ExitReason::TimedOut.error(text));
        }
        tokio::time::sleep(wait.pause).await;
        let found = client.database_backups(id).await.map_err(advise).with_context(|| "wait for the drill")?;
        drill = found.drill.unwrap_or_else(|| begun.clone());
    }
    Ok(drill)
}

fn report(id: &str, drill: &BackupDrill, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    if global.is_structured() {
        global.print(drill)?;
    } else if drill.status == "running" {
        output::line(&drill.status)?;
        eprintln!("see its result with: pandastack db backups {id}");
    } else {
        output::table(&["id", id], &facts(drill))?;
    }
    Ok(if drill.status == "failed" { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// What a table says about a drill that has ended.
pub(super) fn facts(drill: &BackupDrill) -> Vec<Vec<String>> {
    let BackupDrill { backup, target_time, db_size_bytes, relations_checked, .. } = drill;
    let checked = relations_checked.map(|count| format!("{count} tables and indexes"));
    let rows = [
        ("drill", Some(drill_line(drill))),
        ("backup", backup.clone()),
        ("restored to", target_time.clone()),
        ("restored size", db_size_bytes.map(mib)),
        ("checked", checked),
    ];
    rows.into_iter().filter_map(|(name, value)| Some(vec![name.to_owned(), value?])).collect()
}
