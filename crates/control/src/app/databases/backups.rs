//! Backups of databases: what the archive has, base backups, and restore drills.

use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use pandastack_model::{
    Egress, Fault, FaultKind, SandboxId, SandboxSpec, TemplateName, VolumeAccess, VolumeId, VolumeMount,
};
use pandastack_postgres_archive::{
    Archive, ArchiveDirectory, ArchiveHealth, ArchiveState, BaseBackup, BaseCopy, DirectoryError, RestoreRefusal,
    Retention, Who,
};
use pandastack_wire_fleet::{Caller, EnsureParams};
use pandastack_wire_public::{
    BackupDrill, DatabaseArchive, DatabaseBackup, DatabaseBackups, DatabaseSleep, RestoreWindow, rfc3339,
};
use serde::{Deserialize, Serialize};

use super::{being_reset, golden::VOLUME_PATH};
use crate::{
    Control,
    limits::{
        DATABASE_ARCHIVE_SET_MAX, DATABASE_BACKUP_MAX, DATABASE_BACKUPS_AGE, DATABASE_BACKUPS_MIN, DATABASE_CHECK_MAX,
        DATABASE_CLONE_DELAY, DATABASE_VOLUME,
    },
    store::{DatabaseRepair, ManagedDatabaseRow},
};

/// A drill with what must be removed if the server stops during it.
#[derive(Serialize, Deserialize)]
struct StoredDrill {
    #[serde(flatten)]
    drill: BackupDrill,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scratch_volume: Option<String>,
}

/// What the check of a restored database counts.
#[derive(Deserialize)]
struct CheckedDatabase {
    db_size_bytes: u64,
    relations_checked: u64,
}

const CUT_OFF: &str = "the server stopped during the drill";

impl ManagedDatabaseRow {
    /// Returns the volume of a drill that was in progress when the row was written.
    pub(in crate::app) fn scratch_volume(&self) -> Option<VolumeId> {
        let stored: StoredDrill = serde_json::from_str(self.drill.as_deref()?).ok()?;
        stored.scratch_volume?.parse().ok()
    }
}

impl Control {
    /// Returns the archive of databases, if there is one.
    pub(crate) fn archive(&self) -> Option<Archive> {
        self.archive.get().cloned().flatten()
    }

    /// Waits until the archive is set, which happens right after the server's start.
    pub(super) async fn archive_is_set(&self) {
        for _ in 0..DATABASE_ARCHIVE_SET_MAX.as_millis() / 50 {
            if self.archive.get().is_some() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Shows what a database could be restored from. Does not wake it.
    pub(crate) async fn database_backups(&self, caller: &Caller, id: SandboxId) -> Result<DatabaseBackups, Fault> {
        let row = self.database(caller, id).await?.row;
        let drill = row.drill.as_deref().and_then(|text| serde_json::from_str::<StoredDrill>(text).ok());
        let drill = drill.map(|stored| stored.drill);
        let Some(archive) = self.archive() else {
            let archive = DatabaseArchive { health: "off".to_owned(), ..DatabaseArchive::default() };
            return Ok(DatabaseBackups { archive, drill, ..DatabaseBackups::default() });
        };
        let state = archive.state(&id.to_string()).await.map_err(Fault::bug)?;
        Ok(DatabaseBackups { drill, ..shown(state, self.clock.now_ns()) })
    }

    /// Takes a base backup of a running database. The archive checks it before it keeps it.
    pub(crate) async fn back_up_database(&self, caller: &Caller, id: SandboxId) -> Result<DatabaseBackup, Fault> {
        self.need_host()?;
        self.usable_database(caller, id).await?;
        self.wake(caller, id).await?;
        let control = self.clone();
        let work = async move { control.take_base_backup(id).await };
        let taken = self.scope.run("back up a database", work).await.map_err(Fault::bug)??;
        Ok(shown_base(&taken))
    }

    /// Takes a base backup and removes those that are too old.
    pub(super) async fn take_base_backup(&self, id: SandboxId) -> Result<BaseBackup, Fault> {
        let archive = self.archive().ok_or_else(no_archive)?;
        let name = base_name(self.clock.now_ns());
        let done = self.run_in_database(id, &["base-backup", &name], None, DATABASE_BACKUP_MAX).await;
        let key = id.to_string();
        let keep = Retention { count: DATABASE_BACKUPS_MIN, age: DATABASE_BACKUPS_AGE };
        // Even if it failed: the archive may have it all the same.
        if let Err(error) = archive.prune(&key, keep).await {
            tracing::warn!(database = %id, %error, "could not remove old backups yet");
        }
        done?;
        let state = archive.state(&key).await.map_err(Fault::bug)?;
        let taken = state.bases.into_iter().find(|base| base.name == name);
        taken.ok_or_else(|| Fault::bug("the archive does not show the backup that it took"))
    }

    /// Gives a new database the base backup of the sealed machine that it starts from. So it can be
    /// restored from its first second on.
    pub(super) async fn begin_archive(&self, id: SandboxId, golden: SandboxId) {
        let Some(archive) = self.archive() else { return };
        let copy = BaseCopy { from: golden.to_string(), to: id.to_string(), since: SystemTime::now() };
        if let Err(error) = archive.copy_base(&copy).await {
            tracing::warn!(database = %id, %error, "a new database has no base backup yet; one will be taken");
        }
        // It may have been deleted meanwhile.
        if matches!(self.store.any_database(id).await, Ok(None))
            && let Err(fault) = self.drop_archive(id).await
        {
            tracing::warn!(database = %id, %fault, "could not remove the backups of a database");
        }
    }

    /// Whether a clone, a rebuild or a drill reads the backups of a database now.
    pub(super) async fn is_restored_from(&self, id: SandboxId) -> Result<bool, Fault> {
        Ok(self.drills.reads(id) || self.store.is_restored_from(id).await?)
    }

    /// Removes the backups of deleted databases.
    pub(super) async fn remove_forgotten_archives(&self) -> Result<(), Fault> {
        for id in self.store.forgotten_archives().await? {
            self.remove_forgotten_archive(id).await?;
        }
        Ok(())
    }

    /// Removes the backups of a deleted database, but not while something is restored from them,
    /// and not while the server has no archive: they may be in the one that it gets.
    pub(in crate::app) async fn remove_forgotten_archive(&self, id: SandboxId) -> Result<(), Fault> {
        if self.archive().is_some() && !self.is_restored_from(id).await? {
            self.drop_archive(id).await?;
            self.store.archive_is_removed(id).await?;
        }
        Ok(())
    }

    /// Removes all backups of a database. If the server has no archive now, it does so when it has.
    pub(super) async fn drop_archive(&self, id: SandboxId) -> Result<(), Fault> {
        match self.archive() {
            Some(archive) => archive.remove(&id.to_string()).await.map_err(Fault::bug),
            None => Ok(self.store.remember_archive(id).await?),
        }
    }

    /// Chooses the base backup to restore a database from, or says why that is not possible.
    pub(super) async fn plan_restore(&self, source: SandboxId, until_ns: Option<u64>) -> Result<String, Fault> {
        let archive = self.archive().ok_or_else(no_archive)?;
        let until = until_ns.map(|ns| SystemTime::UNIX_EPOCH + Duration::from_nanos(ns));
        let outside = |text: String| Fault::new(FaultKind::Caller, "database.bad_target_time", text);
        let planned = archive.plan_restore(&source.to_string(), until).await.map_err(|refusal| match refusal {
            RestoreRefusal::NoBackup => {
                let text = "the database has no backup yet; wait for the first one, or take one now";
                Fault::new(FaultKind::Conflict, "database.no_backup", text)
            }
            RestoreRefusal::TooEarly { earliest } => {
                outside(format!("target_time is before the oldest backup, which begins at {}", shown_time(earliest)))
            }
            RestoreRefusal::TooLate { latest } => {
                outside(format!("target_time is after the last archived change, which was at {}", shown_time(latest)))
            }
            RestoreRefusal::Unavailable { reason } => {
                let text = format!("the archive cannot be read now ({reason}); try again");
                Fault::new(FaultKind::Unavailable, "database.archive_unavailable", text)
            }
        });
        Ok(planned?.base)
    }

    /// Starts a restore drill in the background.
    pub(crate) async fn begin_drill(
        &self,
        caller: &Caller,
        id: SandboxId,
        until_ns: Option<u64>,
    ) -> Result<BackupDrill, Fault> {
        self.need_host()?;
        let row = self.database(caller, id).await?.row;
        if row.repair == Some(DatabaseRepair::Reset) {
            return Err(being_reset());
        }
        // Its machine counts for nobody, but a workspace that is full gets no more.
        self.check_database_room(caller, DatabaseSleep::WhenIdle).await?;
        let backup = self.plan_restore(id, until_ns).await?;
        let scratch = (SandboxId::random(), VolumeId::random());
        self.drills.begin(scratch.0, id)?;
        let drill = BackupDrill {
            status: "running".to_owned(),
            started_at: rfc3339(self.clock.now_ns()),
            backup: Some(backup),
            target_time: until_ns.map(rfc3339),
            ..BackupDrill::default()
        };
        let begun = StoredDrill { drill: drill.clone(), scratch_volume: Some(scratch.1.to_string()) };
        if let Err(fault) = self.keep_drill(id, &begun).await {
            self.drills.end(scratch.0);
            return Err(fault);
        }
        let (control, running) = (self.clone(), drill.clone());
        self.scope.start("restore drill", async move { control.drill(row, scratch, until_ns, running).await });
        Ok(drill)
    }

    async fn drill(
        &self,
        row: ManagedDatabaseRow,
        (sandbox, volume): (SandboxId, VolumeId),
        until_ns: Option<u64>,
        mut drill: BackupDrill,
    ) {
        let checked = self.restore_scratch(&row, (sandbox, volume), until_ns).await;
        let cleared = async {
            self.host.remove(sandbox).await?;
            self.host.remove_volume(volume).await
        };
        if let Err(fault) = cleared.await {
            tracing::warn!(database = %row.id, %fault, "could not remove the scratch machine of a restore drill");
        }
        self.drills.end(sandbox);
        drill.finished_at = Some(rfc3339(self.clock.now_ns()));
        match checked {
            Ok(CheckedDatabase { db_size_bytes, relations_checked }) => {
                drill.status = "passed".to_owned();
                (drill.db_size_bytes, drill.relations_checked) = (Some(db_size_bytes), Some(relations_checked));
            }
            Err(fault) => {
                tracing::warn!(database = %row.id, %fault, "a restore drill failed");
                (drill.status, drill.error) = ("failed".to_owned(), Some(fault.text.to_string()));
            }
        }
        if let Err(fault) = self.keep_drill(row.id, &StoredDrill { drill, scratch_volume: None }).await {
            tracing::error!(database = %row.id, %fault, "could not record a restore drill");
        }
    }

    /// Restores a database into a machine that nobody else knows, and checks its data.
    async fn restore_scratch(
        &self,
        row: &ManagedDatabaseRow,
        (sandbox, volume): (SandboxId, VolumeId),
        until_ns: Option<u64>,
    ) -> Result<CheckedDatabase, Fault> {
        let size = self.store.copies_of(row.id).await?.first().map_or(DATABASE_VOLUME, |volume| volume.size);
        self.host.make_volume(volume, size).await?;
        let mount = VolumeMount { volume, path: VOLUME_PATH.to_owned(), access: VolumeAccess::ReadWrite };
        let template = row.size.template().parse::<TemplateName>().map_err(Fault::bug)?;
        let egress = Egress::Only(Vec::new());
        let spec = SandboxSpec { volumes: vec![mount], ttl_seconds: 0, egress, ..SandboxSpec::of(template) };
        self.host.ensure(EnsureParams { id: sandbox, generation: 1, spec }).await?;
        self.restore_machine(sandbox, row.id, until_ns).await?;
        let printed = self.run_in_database(sandbox, &["check"], None, DATABASE_CHECK_MAX).await?;
        serde_json::from_str(&printed).map_err(|error| Fault::bug(error).with_detail("read the check of a database"))
    }

    async fn keep_drill(&self, id: SandboxId, stored: &StoredDrill) -> Result<(), Fault> {
        let text = serde_json::to_string(stored).map_err(Fault::bug)?;
        Ok(self.store.set_database_drill(id, &text).await?)
    }

    /// Ends the drills that a stop of the server interrupted. Their machines are gone already.
    pub(super) async fn end_interrupted_drills(&self) -> Result<(), Fault> {
        for row in self.store.all_databases().await? {
            let stored = row.drill.as_deref().and_then(|text| serde_json::from_str::<StoredDrill>(text).ok());
            let Some(StoredDrill { mut drill, scratch_volume: Some(volume) }) = stored else { continue };
            if let Ok(volume) = volume.parse::<VolumeId>()
                && let Err(fault) = self.host.remove_volume(volume).await
            {
                tracing::warn!(database = %row.id, %fault, "could not remove the volume of a restore drill");
                continue;
            }
            (drill.status, drill.error) = ("failed".to_owned(), Some(CUT_OFF.to_owned()));
            self.keep_drill(row.id, &StoredDrill { drill, scratch_volume: None }).await?;
        }
        Ok(())
    }
}

/// Tells the archive which machine is which database.
#[async_trait]
impl ArchiveDirectory for Control {
    async fn who(&self, id: &str) -> Result<Who, DirectoryError> {
        let Ok(id) = id.parse::<SandboxId>() else { return Ok(Who::Other) };
        if let Some(source) = self.drills.source(id) {
            return Ok(Who::Restoring { source: source.to_string() });
        }
        let failed = |error: crate::store::StoreError| DirectoryError { reason: error.to_string() };
        match self.store.any_database(id).await.map_err(failed)? {
            Some(row) => match row.repair {
                Some(DatabaseRepair::Restore { .. }) => Ok(Who::Restoring { source: row.cloned_source().to_string() }),
                Some(DatabaseRepair::Reset) => Err(DirectoryError { reason: "the branch is being reset".to_owned() }),
                Some(DatabaseRepair::Restart) | None => Ok(Who::Database),
            },
            None if self.store.is_golden_maker(id).await.map_err(failed)? => Ok(Who::Database),
            None => Ok(Who::Other),
        }
    }

    async fn is_read(&self, id: &str) -> Result<bool, DirectoryError> {
        let Ok(id) = id.parse::<SandboxId>() else { return Ok(false) };
        self.is_restored_from(id).await.map_err(|fault| DirectoryError { reason: fault.text.to_string() })
    }
}

/// Returns the name of a base backup taken now.
pub(super) fn base_name(now_ns: u64) -> String {
    let stamp: String =
        rfc3339(now_ns).chars().take("2026-01-31T23:59:59".len()).filter(|c| !"-:".contains(*c)).collect();
    format!("base-{stamp}Z.tar.gz")
}

fn shown(state: ArchiveState, now_ns: u64) -> DatabaseBackups {
    let health = match state.health {
        ArchiveHealth::Ok => "ok",
        ArchiveHealth::Behind => "behind",
        ArchiveHealth::Failing | ArchiveHealth::Gap => "failing",
    };
    // Later times are refused.
    let last = SystemTime::UNIX_EPOCH + Duration::from_nanos(now_ns).saturating_sub(DATABASE_CLONE_DELAY);
    let window = state.window.map(|(earliest, latest)| (earliest, latest.min(last)));
    let window = window
        .filter(|(earliest, latest)| earliest <= latest)
        .map(|(earliest, latest)| RestoreWindow { earliest: shown_time(earliest), latest: shown_time(latest) });
    let items: Vec<_> = state.bases.iter().rev().map(shown_base).collect();
    let archive = DatabaseArchive {
        health: health.to_owned(),
        last_archived_at: state.last_archived_at.map(shown_time),
        last_segment: state.last_segment,
        pending_segments: state.pending_segments as u64,
        pending_bytes: state.pending_bytes,
        error: state.error,
    };
    DatabaseBackups { count: items.len(), items, window, archive, drill: None }
}

fn shown_base(base: &BaseBackup) -> DatabaseBackup {
    DatabaseBackup { name: base.name.clone(), taken_at: shown_time(base.taken_at), size_bytes: base.bytes }
}

fn shown_time(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    rfc3339(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

fn no_archive() -> Fault {
    let text = "this server keeps no archive of databases; its operator sets --db-archive";
    Fault::new(FaultKind::Conflict, "database.no_archive", text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_is_named_after_its_time() {
        assert_eq!(base_name(1_000_000_000), "base-19700101T000001Z.tar.gz");
        assert_eq!(base_name(1_767_225_599_123_456_789), "base-20251231T235959Z.tar.gz");
    }
}
