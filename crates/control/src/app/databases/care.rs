//! Looks after databases in the background: restarts dead ones, grows volumes that fill up, takes
//! base backups that are due, and raises the alarm when an archive fails.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use pandastack_model::{ByteSize, EventKind, Fault, FaultKind, SandboxId, SandboxState};
use pandastack_postgres_archive::{ArchiveHealth, HealthChange};
use pandastack_wire_fleet::Caller;
use serde_json::json;
use tokio::{sync::Semaphore, time::Instant};

use crate::{
    Control,
    app::volumes::GrowthLimits,
    limits::{
        DATABASE_BACKUP_AGE, DATABASE_BACKUP_RETRY, DATABASE_BACKUPS_AT_ONCE, DATABASE_DRILLS_AT_ONCE,
        DATABASE_ERRAND_MAX, DATABASE_FULL_TOLD, DATABASE_HOST_FREE, DATABASE_LOOK_PAUSE, DATABASE_LOOKS_AT_ONCE,
        DATABASE_RESTARTS_MAX, DATABASE_VOLUME_FULL_PERCENT, DATABASE_VOLUME_LOOK, DATABASE_VOLUME_MAX,
    },
    store::{DatabaseRepair, ManagedDatabaseRow},
};

/// Time in which restarts of one database are counted.
const RESTARTS_COUNTED: Duration = Duration::from_secs(3600);
const GIB: u64 = 1 << 30;

/// The restore drills that run: scratch machines and their sources.
#[derive(Clone, Default)]
pub struct RunningDrills(Arc<Mutex<HashMap<SandboxId, SandboxId>>>);

/// What was done for one database lately.
#[derive(Default)]
struct CareRecord {
    restarts: Vec<Instant>,
    looked: Option<Instant>,
    backed_up: Option<Instant>,
    /// When users were told that its volume cannot grow.
    told_full: Option<Instant>,
}

impl RunningDrills {
    /// Registers a scratch machine. Refused if its source has a drill already, or too many run.
    pub fn begin(&self, scratch: SandboxId, source: SandboxId) -> Result<(), Fault> {
        let mut drills = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if drills.values().any(|running| *running == source) {
            let text = "a restore drill of this database runs already; its result is in the backups";
            return Err(Fault::new(FaultKind::Conflict, "database.drill_runs", text));
        }
        if drills.len() >= DATABASE_DRILLS_AT_ONCE {
            let text = "other restore drills run on this host; try again in a few minutes";
            return Err(Fault::new(FaultKind::Busy, "database.drills_busy", text));
        }
        drills.insert(scratch, source);
        Ok(())
    }

    /// Whether a drill reads the backups of a database.
    pub fn reads(&self, source: SandboxId) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().any(|running| *running == source)
    }

    /// Forgets a scratch machine.
    pub fn end(&self, scratch: SandboxId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&scratch);
    }

    /// Returns the database that a scratch machine is restored from.
    pub fn source(&self, scratch: SandboxId) -> Option<SandboxId> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&scratch).copied()
    }
}

impl Control {
    /// Looks after all databases until the server stops.
    pub(crate) async fn care_for_databases(self) {
        let token = self.scope.token();
        let mut records: HashMap<SandboxId, Arc<tokio::sync::Mutex<CareRecord>>> = HashMap::new();
        let backups = Arc::new(Semaphore::new(DATABASE_BACKUPS_AT_ONCE));
        let looks = Arc::new(Semaphore::new(DATABASE_LOOKS_AT_ONCE));
        let removals = Arc::new(Semaphore::new(1));
        loop {
            tokio::select! {
                () = tokio::time::sleep(DATABASE_LOOK_PAUSE) => {}
                () = token.cancelled() => return,
            }
            // Not here: a store that does not answer must not keep the databases waiting.
            if let Ok(turn) = removals.clone().try_acquire_owned() {
                let control = self.clone();
                self.scope.start("remove the backups of deleted databases", async move {
                    if let Err(fault) = control.remove_forgotten_archives().await {
                        tracing::warn!(%fault, "could not remove the backups of deleted databases");
                    }
                    drop(turn);
                });
            }
            let rows = match self.store.all_databases().await {
                Ok(rows) => rows,
                Err(error) => {
                    tracing::warn!(%error, "could not list databases");
                    continue;
                }
            };
            let known: HashSet<_> = rows.iter().map(|row| row.id).collect();
            records.retain(|id, _| known.contains(id));
            for row in rows.into_iter().filter(|row| row.repair.is_none() && row.broker_token.is_some()) {
                // One that does not answer must not keep the others waiting.
                let Ok(mut record) = records.entry(row.id).or_default().clone().try_lock_owned() else { continue };
                let (control, backups, looks) = (self.clone(), backups.clone(), looks.clone());
                self.scope.start("look after a database", async move {
                    let Ok(_permit) = looks.acquire().await else { return };
                    let id = row.id;
                    if let Err(fault) = control.look_after(row, &mut record, &backups).await {
                        tracing::warn!(database = %id, %fault, "could not look after a database");
                    }
                });
            }
        }
    }

    async fn look_after(
        &self,
        row: ManagedDatabaseRow,
        record: &mut CareRecord,
        backups: &Arc<Semaphore>,
    ) -> Result<(), Fault> {
        let now = Instant::now();
        match self.store.any_state(row.id).await? {
            Some(SandboxState::Failed { reason }) if row.error.is_none() => {
                record.restarts.retain(|restart| now.duration_since(*restart) < RESTARTS_COUNTED);
                let allowed = if record.restarts.len() < DATABASE_RESTARTS_MAX {
                    self.check_wake(&row.workspace, row.id).await.map_err(|fault| fault.text.to_string())
                } else {
                    Err(format!("its machine dies again and again: {reason}"))
                };
                if let Err(error) = allowed {
                    tracing::warn!(database = %row.id, error, "not restarting a database whose machine died");
                    // Shown as failed from now on. Its owner can restart it.
                    return Ok(self.store.fail_database(row.id, &error).await?);
                }
                record.restarts.push(now);
                tracing::warn!(database = %row.id, reason, "restarting a database whose machine died");
                self.tell(row.id, EventKind::DatabaseRestarted, json!({ "reason": reason })).await?;
                self.begin_repair(&Caller::of(row.workspace), row.id, DatabaseRepair::Restart).await?;
            }
            Some(SandboxState::Running) => {
                if record.looked.is_none_or(|looked| now.duration_since(looked) >= DATABASE_VOLUME_LOOK) {
                    record.looked = Some(now);
                    self.look_inside(&row, record).await?;
                }
                let rested = record.backed_up.is_none_or(|last| now.duration_since(last) >= DATABASE_BACKUP_RETRY);
                if rested && self.is_backup_due(row.id).await {
                    record.backed_up = self.back_up_soon(row.id, backups).then_some(now);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Grows the volume of a database before it is full, and starts a server that died.
    async fn look_inside(&self, row: &ManagedDatabaseRow, record: &mut CareRecord) -> Result<(), Fault> {
        let printed = self.look_in_database(row.id, &["health"], DATABASE_ERRAND_MAX).await?;
        let words: Vec<_> = printed.split_whitespace().collect();
        let [server, used, free] = words[..] else { return Err(Fault::bug("the database printed no health")) };
        let (used, free) = (used.parse().map_err(Fault::bug)?, free.parse().map_err(Fault::bug)?);
        if let Err(fault) = self.grow_if_full(row, used, free).await {
            tracing::warn!(database = %row.id, %fault, "could not grow the volume of a database");
            if record.told_full.is_none_or(|told| told.elapsed() >= DATABASE_FULL_TOLD) {
                record.told_full = Some(Instant::now());
                let payload = json!({ "reason": fault.text, "used": used, "free": free });
                self.tell(row.id, EventKind::DatabaseNotGrown, payload).await?;
            }
        }
        if server == "down" {
            tracing::warn!(database = %row.id, "starting the server of a database again");
            let (control, id) = (self.clone(), row.id);
            // Not here: a server that recovers may take minutes, and other databases wait.
            self.scope.start("start the server of a database", async move {
                if let Err(fault) = control.start_database_server(id).await {
                    tracing::warn!(database = %id, %fault, "could not start the server of a database");
                }
            });
        }
        Ok(())
    }

    async fn grow_if_full(&self, row: &ManagedDatabaseRow, used: u64, free: u64) -> Result<(), Fault> {
        if used.saturating_mul(100) < (used + free).saturating_mul(DATABASE_VOLUME_FULL_PERCENT) {
            return Ok(());
        }
        let intent = self.machine_of(row).await?;
        for volume in self.volumes_named(&row.workspace, &intent.volume_names).await? {
            let full = |why: &str| Fault::new(FaultKind::Storage, "database.volume_full", why.to_owned());
            let most = format!("the volume has {} already, the most that it grows to", volume.size);
            let size = grown(volume.size).ok_or_else(|| full(&most))?;
            if self.host.status().await.disk_free < DATABASE_HOST_FREE {
                return Err(full(&format!("the host has less than {DATABASE_HOST_FREE} left")));
            }
            let reason = json!({ "volume": volume.name, "from": volume.size.get(), "to": size.get() });
            let from = volume.size;
            // Plans limit the volumes that users make. A database pays for its storage instead.
            self.grow_to_the_end(volume, size, GrowthLimits::None).await?;
            tracing::info!(database = %row.id, %from, to = %size, "grew the volume of a database");
            self.tell(row.id, EventKind::DatabaseGrown, reason).await?;
        }
        Ok(())
    }

    async fn is_backup_due(&self, id: SandboxId) -> bool {
        let Some(archive) = self.archive() else { return false };
        let Ok(state) = archive.state(&id.to_string()).await else { return false };
        if !state.listed {
            // The store does not answer, so nobody knows which backups there are.
            return false;
        }
        let newest = state.bases.last().map(|base| base.taken_at);
        let age = newest.map(|taken| SystemTime::now().duration_since(taken).unwrap_or_default());
        // After a gap in the log only another base helps.
        let is_broken = state.window.is_none() || state.health == ArchiveHealth::Gap;
        is_broken || age.is_none_or(|age| age >= DATABASE_BACKUP_AGE)
    }

    /// Backs a database up in the background. Returns false if it must wait for others.
    fn back_up_soon(&self, id: SandboxId, backups: &Arc<Semaphore>) -> bool {
        let Ok(permit) = backups.clone().try_acquire_owned() else { return false };
        let control = self.clone();
        self.scope.start("back up a database", async move {
            let _permit = permit;
            match control.take_base_backup(id).await {
                Ok(base) => tracing::info!(database = %id, base.name, base.bytes, "backed a database up"),
                Err(fault) => {
                    tracing::warn!(database = %id, %fault, "could not back a database up");
                    let payload = json!({ "reason": fault.text });
                    if let Err(error) = control.tell(id, EventKind::DatabaseBackupFailed, payload).await {
                        tracing::warn!(database = %id, %error, "could not tell of a failed backup");
                    }
                }
            }
        });
        true
    }

    /// Tells users when the archive of a database fails, and when it works again.
    pub(crate) async fn follow_archive(self) {
        let Some(archive) = self.archive() else { return };
        let (mut changes, token) = (archive.health_changes(), self.scope.token());
        loop {
            let change = tokio::select! {
                change = changes.recv() => change,
                () = token.cancelled() => return,
            };
            let HealthChange { database, old, new } = match change {
                Ok(change) => change,
                Err(tokio::sync::broadcast::error::RecvError::Lagged(_)) => continue,
                Err(tokio::sync::broadcast::error::RecvError::Closed) => return,
            };
            let Ok(id) = database.parse::<SandboxId>() else { continue };
            let is_bad = |health| matches!(health, ArchiveHealth::Failing | ArchiveHealth::Gap | ArchiveHealth::Behind);
            let kind = match (is_bad(old), is_bad(new)) {
                (_, true) => EventKind::DatabaseArchiveFailing,
                (true, false) => EventKind::DatabaseArchiveRecovered,
                (false, false) => continue,
            };
            let error = archive.state(&database).await.ok().and_then(|state| state.error);
            let payload = json!({ "health": format!("{new:?}").to_lowercase(), "error": error });
            if let Err(error) = self.tell(id, kind, payload).await {
                tracing::warn!(database, %error, "could not tell of the health of an archive");
            }
        }
    }
}

/// Returns the next size of a volume: half as much again in whole GiB, but no more than the most.
fn grown(size: ByteSize) -> Option<ByteSize> {
    let gib = size.get().div_ceil(GIB);
    let next = ByteSize::gib((gib * 3).div_ceil(2).max(gib + 1)).min(DATABASE_VOLUME_MAX);
    (next > size).then_some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_grow_by_half_up_to_a_limit() {
        for (from, to) in [(5, Some(8)), (8, Some(12)), (1, Some(2)), (80, Some(100)), (99, Some(100)), (100, None)] {
            assert_eq!(grown(ByteSize::gib(from)), to.map(ByteSize::gib), "{from}");
        }
    }
}
