//! `pandastack db backups`

use std::process::ExitCode;

use pandastack_client::wire::{BackupDrill, DatabaseArchive, DatabaseBackup, DatabaseBackups};

use crate::{GlobalArgs, advice::advise, output, pick::DatabaseArg};

/// Arguments of `db backups`.
#[derive(Debug, clap::Args)]
pub struct BackupsArgs {
    #[command(flatten)]
    database: DatabaseArg,
}

/// Shows what a database could be restored from.
pub async fn backups(args: BackupsArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let (client, id) = args.database.find(global).await?;
    let found = client.database_backups(&id).await.map_err(advise)?;
    if global.is_structured() {
        global.print(&found)?;
        return Ok(ExitCode::SUCCESS);
    }
    if !found.items.is_empty() {
        let rows: Vec<_> = found.items.iter().map(row).collect();
        output::table(&["BACKUP", "TAKEN", "SIZE"], &rows)?;
        output::line("")?;
    }
    output::table(&["id", &id], &facts(&found))?;
    if found.items.is_empty() {
        eprintln!("no backups yet; take one with: pandastack db backup {id}");
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn row(backup: &DatabaseBackup) -> Vec<String> {
    let DatabaseBackup { name, taken_at, size_bytes } = backup;
    vec![name.clone(), taken_at.clone(), mib(*size_bytes)]
}

/// What a table says about the window, the archive and the last drill.
pub(super) fn facts(found: &DatabaseBackups) -> Vec<Vec<String>> {
    let DatabaseArchive { health, last_archived_at, pending_segments, pending_bytes, error, .. } = &found.archive;
    let window = found.window.as_ref();
    let pending = (*pending_segments > 0).then(|| format!("{pending_segments} segments, {}", mib(*pending_bytes)));
    let rows = [
        ("restorable from", window.map(|window| window.earliest.clone())),
        ("restorable to", window.map(|window| window.latest.clone())),
        ("archive", Some(health.clone())),
        ("last archived", last_archived_at.clone()),
        ("not archived yet", pending),
        ("archive error", error.clone()),
        ("last drill", found.drill.as_ref().map(drill_line)),
    ];
    rows.into_iter().filter_map(|(name, value)| Some(vec![name.to_owned(), value?])).collect()
}

/// Says how a restore drill ended.
pub(super) fn drill_line(drill: &BackupDrill) -> String {
    let BackupDrill { status, started_at, finished_at, error, .. } = drill;
    let time = finished_at.as_ref().unwrap_or(started_at);
    let why = error.iter().map(|error| format!(": {error}")).collect::<String>();
    format!("{status} at {time}{why}")
}

pub(super) fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}
