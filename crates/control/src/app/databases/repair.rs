//! Restarts a database on its volume, rebuilds it from its archive, and resets a branch to its
//! parent. What is to be done is written first, so that the next start of the server goes on.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use futures_util::{FutureExt, future::Shared};
use pandastack_model::{Fault, FaultKind, SandboxId, SandboxState};
use pandastack_wire_fleet::Caller;
use pandastack_wire_public::rfc3339;
use tokio::sync::oneshot;

use super::{DatabaseView, credentials::LoginCheck, machine::MachineData, no_database, usable};
use crate::{
    Control,
    limits::{DATABASE_RESTORE_MAX, DATABASE_START_MAX},
    store::{DatabaseRepair, ManagedDatabaseRow},
};

impl Control {
    /// Restarts a database on the newest version of its template. Its data and its credentials
    /// stay.
    pub(crate) async fn restart_database(&self, caller: &Caller, id: SandboxId) -> Result<DatabaseView, Fault> {
        self.need_host()?;
        let view = self.database(caller, id).await?;
        if view.state.is_none() || view.row.broker_token.is_none() {
            return Err(never_ready());
        }
        self.begin_repair(caller, id, DatabaseRepair::Restart).await
    }

    /// Makes a branch what its parent is now. It keeps its id and its credentials.
    pub(crate) async fn reset_branch(&self, caller: &Caller, id: SandboxId) -> Result<DatabaseView, Fault> {
        self.need_host()?;
        let view = self.database(caller, id).await?;
        let Some(parent) = view.row.branched_from else {
            let text = "this database is no branch, so there is nothing to reset it to";
            return Err(Fault::new(FaultKind::Conflict, "database.no_parent", text));
        };
        if view.state.is_none() || view.row.broker_token.is_none() {
            return Err(never_ready());
        }
        let gone = |_| Fault::new(FaultKind::Conflict, "database.no_parent", "the branch's parent was deleted");
        self.database(caller, parent).await.map_err(gone)?;
        self.usable_database(caller, parent).await?;
        if self.is_restored_from(id).await? {
            let text = "something is being restored from the branch's backups, which a reset removes; wait for it";
            return Err(Fault::new(FaultKind::Conflict, "database.busy", text));
        }
        self.begin_repair(caller, id, DatabaseRepair::Reset).await
    }

    /// Rebuilds a failed database from its archive, under the same id.
    pub(crate) async fn fail_over_database(&self, caller: &Caller, id: SandboxId) -> Result<DatabaseView, Fault> {
        self.need_host()?;
        let view = self.database(caller, id).await?;
        if !view.has_failed() {
            let text = "the database has not failed; restart it instead, or clone it at a time";
            return Err(Fault::new(FaultKind::Conflict, "database.not_failed", text));
        }
        if view.state.is_none() {
            return Err(never_ready());
        }
        self.plan_restore(id, None).await?;
        self.begin_repair(caller, id, DatabaseRepair::Restore { until_ns: None }).await
    }

    /// Writes down what is to be done, and starts to do it. Only one repair runs at a time.
    pub(super) async fn begin_repair(
        &self,
        caller: &Caller,
        id: SandboxId,
        repair: DatabaseRepair,
    ) -> Result<DatabaseView, Fault> {
        {
            let _turn = self.locks.terms.lock(id).await;
            if self.database(caller, id).await?.row.repair.is_some() {
                let text = "the database is being repaired already; wait until it is ready";
                return Err(Fault::new(FaultKind::Conflict, "database.busy", text));
            }
            self.store.set_database_repair(id, Some(repair)).await?;
        }
        let control = self.clone();
        self.provision(caller.clone(), id, async move { control.repair_database(id).await });
        self.database(caller, id).await
    }

    /// Does what is written down. May be repeated from the start after a crash.
    pub(super) async fn repair_database(&self, id: SandboxId) -> Result<(), Fault> {
        let row = self.store.any_database(id).await?.ok_or_else(no_database)?;
        if let Some(DatabaseRepair::Restore { .. } | DatabaseRepair::Reset) = row.repair {
            self.archive_is_set().await;
        }
        match row.repair {
            // Credentials were being set. A machine that is dead has the old ones or the next ones.
            None if row.broker_token.is_some() => match self.store.any_state(id).await? {
                Some(SandboxState::Failed { .. }) => self.restart_on_volume(&row).await?,
                _ => {
                    self.renew_login(id, LoginCheck::None).await?;
                    return self.cut_off_clients(id).await;
                }
            },
            None => return self.renew_login(id, LoginCheck::None).await,
            Some(DatabaseRepair::Restart) => self.restart_on_volume(&row).await?,
            Some(DatabaseRepair::Restore { until_ns }) => self.restore_in_place(&row, until_ns).await?,
            Some(DatabaseRepair::Reset) => self.refork_branch(&row).await?,
        }
        self.store.set_database_repair(id, None).await?;
        Ok(())
    }

    pub(super) async fn restart_on_volume(&self, row: &ManagedDatabaseRow) -> Result<(), Fault> {
        self.database_template(row.size).await?;
        if self.host.observe(row.id).await.is_some_and(|seen| seen.state == SandboxState::Running) {
            // A clean end makes the next start short. A server that does not answer recovers
            // instead.
            if let Err(fault) = self.run_in_database(row.id, &["stop"], None, DATABASE_START_MAX).await {
                tracing::warn!(database = %row.id, %fault, "could not stop a server before its restart");
            }
        }
        self.rebuild_machine(row, MachineData::Kept).await?;
        if row.kept_volume.is_some() {
            self.forget_other_data(row).await?;
        }
        self.run_in_database(row.id, &["start"], None, DATABASE_START_MAX).await?;
        let Some(own) = &row.password else { return Ok(()) };
        // A reset that was cut off may have left the password of the parent, or the next one.
        if !self.knows_password(row.id, own).await {
            self.set_password(row.id, None, own).await?;
        }
        Ok(self.store.drop_next_password(row.id).await?)
    }

    async fn restore_in_place(&self, row: &ManagedDatabaseRow, until_ns: Option<u64>) -> Result<(), Fault> {
        if row.kept_volume.is_none() {
            // Before anything is changed.
            self.plan_restore(row.cloned_source(), until_ns).await?;
        }
        let restored = async {
            self.rebuild_machine(row, MachineData::Blank).await?;
            self.restore_machine(row.id, row.cloned_source(), until_ns).await?;
            self.renew_login(row.id, LoginCheck::None).await
        };
        self.with_other_data(row, restored).await
    }

    /// Runs work that gives a database other data. If that fails, it gets back what it had.
    async fn with_other_data(
        &self,
        row: &ManagedDatabaseRow,
        work: impl Future<Output = Result<(), Fault>>,
    ) -> Result<(), Fault> {
        let before = self.machine_with_data(row).await?;
        self.store.keep_volume(row.id, before.spec.volumes.first().map(|mount| mount.volume)).await?;
        match work.await {
            Ok(()) => {
                let _turn = self.locks.terms.lock(row.id).await;
                // A restore ends with its login. If another repair has begun since, the volumes are
                // its own to remove.
                let repair = self.store.any_database(row.id).await?.and_then(|now| now.repair);
                let is_over = repair.is_none() || row.repair == Some(DatabaseRepair::Reset);
                if is_over { self.forget_other_data(row).await } else { Ok(()) }
            }
            Err(fault) => {
                self.give_volume_back(before).await?;
                self.store.keep_volume(row.id, None).await?;
                // It was for the other data.
                self.store.drop_next_password(row.id).await?;
                Err(fault)
            }
        }
    }

    /// Records that the machine of a database has the volume with its data, and removes the others.
    pub(super) async fn forget_other_data(&self, row: &ManagedDatabaseRow) -> Result<(), Fault> {
        self.store.keep_volume(row.id, None).await?;
        if let Err(fault) = self.drop_old_volumes(row).await {
            tracing::warn!(database = %row.id, %fault, "could not remove the old volume of a database");
        }
        Ok(())
    }

    /// Fills the blank volume of a machine from an archive and starts the server.
    pub(super) async fn restore_machine(
        &self,
        id: SandboxId,
        source: SandboxId,
        until_ns: Option<u64>,
    ) -> Result<String, Fault> {
        let base = self.plan_restore(source, until_ns).await?;
        let until = until_ns.map(rfc3339).unwrap_or_default();
        self.run_in_database(id, &["restore", &base, &until], None, DATABASE_RESTORE_MAX).await?;
        Ok(base)
    }

    async fn refork_branch(&self, row: &ManagedDatabaseRow) -> Result<(), Fault> {
        let parent = row.branched_from.ok_or_else(never_ready)?;
        // A reset of the parent's credentials waits: the copy must have the password of the row.
        let _turn = self.locks.terms.lock(parent).await;
        let found = async {
            let gone = || Fault::new(FaultKind::Conflict, "database.no_parent", "the branch's parent was deleted");
            let parent = self.store.find_database(&row.workspace, parent).await?.ok_or_else(gone)?;
            let parent = self.with_state(parent).await?;
            usable(&parent).map(|()| parent.row)
        };
        let parent = match found.await {
            Ok(parent) => parent,
            // An earlier attempt may have changed the branch already.
            Err(fault) if row.kept_volume.is_some() => return self.with_other_data(row, async { Err(fault) }).await,
            Err(fault) => return Err(fault),
        };
        let reforked = async {
            self.refork_machine(row, &parent).await?;
            // What was archived so far is not the past of the new data. Nothing is archived
            // meanwhile.
            self.drop_archive(row.id).await
        };
        self.with_other_data(row, reforked).await?;
        let own = row.password.as_ref().ok_or_else(never_ready)?;
        self.set_password(row.id, parent.password.as_ref(), own).await
    }

    /// Starts the server in the machine of a database again, for example after it was killed for
    /// its use of memory.
    ///
    /// Callers that come while it starts wait for the same start: anybody who knows its name can
    /// ask, as often as they like.
    pub(crate) async fn start_database_server(&self, id: SandboxId) -> Result<(), Fault> {
        self.server_starts
            .join(id, || {
                let (tell, told) = oneshot::channel();
                let control = self.clone();
                // In a task of its own: a client that hangs up must not stop it half way.
                self.scope.start("start the server of a database", async move {
                    let started = control.start_server_now(id).await;
                    control.server_starts.forget(id);
                    // Nobody may wait any more.
                    let _ = tell.send(started);
                });
                told
            })
            .await
            .unwrap_or_else(|error| Err(Fault::bug(error)))
    }

    async fn start_server_now(&self, id: SandboxId) -> Result<(), Fault> {
        let _turn = self.locks.terms.lock(id).await;
        let row = self.store.any_database(id).await?.ok_or_else(no_database)?;
        if row.repair.is_some() {
            return Ok(());
        }
        self.run_in_database(id, &["start"], None, DATABASE_START_MAX).await.map(drop)
    }
}

/// How a start of a server ended, for everybody who waits for it.
type StartOutcome = Shared<oneshot::Receiver<Result<(), Fault>>>;

/// The servers of databases that are being started. Each is started once at a time.
#[derive(Clone, Default)]
pub struct ServerStarts(Arc<Mutex<HashMap<SandboxId, StartOutcome>>>);

impl ServerStarts {
    /// Finds the start that is in progress, or begins one.
    fn join(&self, id: SandboxId, begin: impl FnOnce() -> oneshot::Receiver<Result<(), Fault>>) -> StartOutcome {
        let mut starts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // One that broke off has an outcome too, and does not count.
        let running = starts.get(&id).filter(|start| start.peek().is_none()).cloned();
        running.unwrap_or_else(|| {
            let begun = begin().shared();
            starts.insert(id, begun.clone());
            begun
        })
    }

    fn forget(&self, id: SandboxId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
    }
}

fn never_ready() -> Fault {
    Fault::new(FaultKind::Conflict, "database.never_ready", "the database was never ready; delete it instead")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn callers_share_one_start() {
        let (starts, id) = (ServerStarts::default(), SandboxId::random());
        let (tell, told) = oneshot::channel();
        let first = starts.join(id, || told);
        let second = starts.join(id, || unreachable!("it starts already"));
        let _ = tell.send(Err(Fault::bug("it does not start")));
        assert!(first.await.unwrap().is_err() && second.await.unwrap().is_err());
        // It has ended, and so does one whose task is gone.
        drop(starts.join(id, || oneshot::channel().1).await);
        let (tell, told) = oneshot::channel();
        let third = starts.join(id, || told);
        starts.forget(id);
        let _ = tell.send(Ok(()));
        assert_eq!(third.await.unwrap(), Ok(()));
        assert!(starts.0.lock().unwrap().is_empty());
    }
}
