//! Creates a database: the row at once, then the machine and its credentials in the background.

use pandastack_model::{Egress, Fault, SandboxId, SandboxState};
use pandastack_wire_fleet::Caller;
use pandastack_wire_public::{CreateSandboxSpec, DatabaseSleep, DatabaseSpec, SandboxSource};

use super::{DatabaseView, credentials::LoginCheck, golden::GoldenLayer, idle_policy};
use crate::{
    Control,
    app::{quotas::check_ttl, volumes::fresh_volume_ids},
    plan,
    store::{DatabaseRepair, ManagedDatabaseRow, PlannedSandbox, ResourceKind},
};

/// Metadata of the sandbox of a database.
pub(in crate::app) const LABEL_KEY: &str = "db.label";

const CUT_OFF: &str = "the server stopped while the database was made";

impl Control {
    /// Creates a database and returns at once. If the golden layer exists, quotas are checked
    /// first.
    pub(crate) async fn create_database(&self, caller: &Caller, spec: DatabaseSpec) -> Result<DatabaseView, Fault> {
        self.need_host()?;
        let row = ManagedDatabaseRow {
            id: SandboxId::random(),
            workspace: caller.workspace.clone(),
            label: spec.label,
            size: spec.size,
            sleep: spec.sleep,
            branched_from: None,
            cloned_from: None,
            template_layer: None,
            password: None,
            next_password: None,
            broker_token: None,
            repair: None,
            kept_volume: None,
            error: None,
            drill: None,
            created_at_ns: self.clock.now_ns(),
        };
        self.note_made(caller, ResourceKind::Sandbox, &[row.id.to_string()]).await?;
        let (control, caller, made) = (self.clone(), caller.clone(), row.clone());
        // In a task of its own: a caller that hangs up must not leave half of a database.
        let begin = async move { control.begin_database(caller, made).await };
        self.scope.run("create a database", begin).await.map_err(Fault::bug)??;
        Ok(DatabaseView::new(row, Some(SandboxState::Creating)))
    }

    async fn begin_database(&self, caller: Caller, row: ManagedDatabaseRow) -> Result<(), Fault> {
        let template = self.database_template(row.size).await?;
        let golden = self.known_golden(&template).await?;
        self.check_database_room(&caller, row.sleep).await?;
        // The row first: after a crash it tells that something is missing.
        self.store.add_database(&row).await?;
        let planned = match golden {
            Some(golden) => match self.plan_database(&caller, &row, golden).await {
                Ok(planned) => Some(planned),
                Err(fault) => {
                    self.store.forget_database(row.id).await?;
                    return Err(fault);
                }
            },
            None => None,
        };
        let (control, id) = (self.clone(), row.id);
        self.provision(caller.clone(), id, async move {
            let planned = match planned {
                Some(planned) => planned,
                None => {
                    let golden = control.golden(row.size).await?;
                    // It may have been deleted or changed while the golden layer was made.
                    let row = control.database(&caller, id).await?.row;
                    control.plan_database(&caller, &row, golden).await?
                }
            };
            control.bring_up_planned(planned).await?;
            control.renew_login(id, LoginCheck::None).await
        });
        Ok(())
    }

    /// Refuses more databases than sandboxes, because those that wait for a golden layer have no
    /// sandbox yet, and databases that never sleep if the plan does not allow that.
    pub(super) async fn check_database_room(&self, caller: &Caller, sleep: DatabaseSleep) -> Result<(), Fault> {
        let limits = self.admitted_limits(&caller.workspace).await?;
        check_ttl(&limits, idle_policy(sleep).ttl_seconds)?;
        let databases = self.store.list_databases(&caller.workspace).await?.len() as u64;
        if databases >= self.settings.sandboxes_max { Err(plan::full()) } else { Ok(()) }
    }

    /// Plans and records the sandbox of a database.
    async fn plan_database(
        &self,
        caller: &Caller,
        row: &ManagedDatabaseRow,
        golden: GoldenLayer,
    ) -> Result<PlannedSandbox, Fault> {
        let GoldenLayer { snapshot: golden, password, template_layer } = golden;
        self.store.set_database_start(row.id, &password, &template_layer).await?;
        let maker = golden.sandbox;
        let limits = self.admitted_limits(&caller.workspace).await?;
        let idle = idle_policy(row.sleep);
        let wanted = CreateSandboxSpec {
            start: SandboxSource::Snapshot(golden.id()),
            ttl_seconds: idle.ttl_seconds,
            persistent: idle.persistent,
            metadata: row.label.iter().map(|label| (LABEL_KEY.to_owned(), label.clone())).collect(),
            env: Default::default(),
            egress: Egress::Only(Vec::new()),
            bandwidth_mbps: None,
            volumes: Vec::new(),
        };
        let view = plan::PlacementState {
            pending: Vec::new(),
            own_names: Vec::new(),
            templates: Vec::new(),
            own: None,
            volumes: Vec::new(),
            sandboxes: self.store.count(&caller.workspace).await?,
            sandboxes_max: self.settings.sandboxes_max,
            snapshot: Some(golden),
        };
        let ask = plan::PlacementRequest {
            id: row.id,
            volume_ids: fresh_volume_ids(1),
            workspace: caller.workspace.clone(),
            created_at_ns: row.created_at_ns,
            wanted,
        };
        let mut planned = plan::place(&view, ask)?;
        planned.intent.from_snapshot = None;
        planned.intent.spec.owner = self.owner(&caller.workspace).await?;
        self.commit(caller, std::slice::from_ref(&planned), &limits).await?;
        self.begin_archive(row.id, maker).await;
        Ok(planned)
    }

    /// Makes a database ready in the background. A failure is shown by the database. If that was
    /// deleted meanwhile, its machine goes too.
    pub(super) fn provision(
        &self,
        caller: Caller,
        id: SandboxId,
        work: impl Future<Output = Result<(), Fault>> + Send + 'static,
    ) {
        let control = self.clone();
        self.scope.start("make a database", async move {
            let Err(fault) = work.await else {
                tracing::info!(database = %id, "database is ready");
                return;
            };
            tracing::warn!(database = %id, %fault, "could not make a database");
            let recorded = async {
                let is_deleted = control.store.any_database(id).await?.is_none();
                if is_deleted && control.store.any_state(id).await?.is_some() {
                    return control.delete_to_the_end(caller, id).await;
                }
                control.record_failure(id, &fault).await
            };
            if let Err(fault) = recorded.await {
                tracing::error!(database = %id, %fault, "could not record that a database failed");
            }
        });
    }

    /// Records why a database is not ready. One whose machine did not start is tried again later.
    async fn record_failure(&self, id: SandboxId, fault: &Fault) -> Result<(), Fault> {
        let repair = self.store.any_database(id).await?.and_then(|row| row.repair);
        let is_dead = matches!(self.store.any_state(id).await?, Some(SandboxState::Failed { .. }));
        if repair == Some(DatabaseRepair::Restart) && is_dead {
            self.store.mark_failed(id, &fault.text, self.clock.now_ns()).await?;
            self.store.set_database_repair(id, None).await?;
            return Ok(());
        }
        Ok(self.store.fail_database(id, &fault.text).await?)
    }

    /// Finishes the databases and golden layers that an earlier run of the server left unfinished.
    pub(crate) async fn finish_databases(&self) -> Result<(), Fault> {
        self.remove_stale_goldens().await?;
        self.end_interrupted_drills().await?;
        for row in self.store.unfinished_databases().await? {
            if self.store.any_state(row.id).await?.is_none() {
                self.store.fail_database(row.id, CUT_OFF).await?;
                continue;
            }
            let control = self.clone();
            self.provision(Caller::of(row.workspace), row.id, async move { control.repair_database(row.id).await });
        }
        for row in self.store.all_databases().await? {
            if is_settled(&row) && self.store.copies_of(row.id).await?.len() > 1 {
                self.drop_left_volume(row.id).await?;
            }
        }
        Ok(())
    }

    /// Gives a database credentials that it has none of in its row, whatever its machine has. One
    /// that is dead gets another machine first.
    pub(in crate::app) async fn give_login(&self, row: &ManagedDatabaseRow) -> Result<(), Fault> {
        if let Some(SandboxState::Failed { .. }) = self.store.any_state(row.id).await? {
            self.restart_on_volume(row).await?;
        }
        self.renew_login(row.id, LoginCheck::None).await
    }

    /// Removes the old volume that a restore left because it was cut off at its very end.
    async fn drop_left_volume(&self, id: SandboxId) -> Result<(), Fault> {
        // Meanwhile no other repair begins, which would have two volumes for good reason.
        let _turn = self.locks.terms.lock(id).await;
        match self.store.any_database(id).await? {
            Some(row) if is_settled(&row) => self.forget_other_data(&row).await,
            _ => Ok(()),
        }
    }
}

/// Whether nothing is being done to the machine of a database.
fn is_settled(row: &ManagedDatabaseRow) -> bool {
    let is_ready = row.broker_token.is_some() && row.next_password.is_none();
    is_ready && row.repair.is_none() && row.kept_volume.is_none()
}
