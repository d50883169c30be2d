//! Managed databases. A database is a sandbox that starts from a golden layer: a sealed machine
//! with a running server and an empty cluster on its volume. A branch is a fork of a live one. What
//! the copy must not share is its credentials; nobody can connect before it has its own.

mod backups;
mod branch;
mod care;
mod clone;
mod create;
mod credentials;
mod golden;
mod guest;
mod machine;
mod prepare;
mod repair;
mod schema;
mod superuser;

pub use branch::branch_row;
pub use care::RunningDrills;
pub(in crate::app) use create::LABEL_KEY;
pub(in crate::app) use golden::{VOLUME_NAME, VOLUME_PATH};
use pandastack_model::{Fault, FaultKind, SandboxId, SandboxState};
use pandastack_wire_fleet::{Caller, DatabaseLogin, IdlePolicy, UseKind};
use pandastack_wire_public::{DATABASE_ROLE, DatabaseLogs, DatabaseSleep, DatabaseStats};
pub use prepare::{GoldenAttempts, GoldenCounts, GoldenState};
pub use repair::ServerStarts;
use subtle::ConstantTimeEq;

use crate::{
    Control,
    limits::{DATABASE_ERRAND_MAX, DATABASE_IDLE_SECONDS},
    store::{IdleLimit, ManagedDatabaseRow},
};

/// A database with the state of its sandbox.
pub struct DatabaseView {
    pub row: ManagedDatabaseRow,
    /// `None` if it has no sandbox yet, or its sandbox is gone.
    pub state: Option<SandboxState>,
    /// Whether its template has a newer version. `None` if that is not known.
    pub is_outdated: Option<bool>,
    /// What it waits for, if it has no machine yet.
    pub waits: Option<String>,
    /// Only if it failed: the base backup that it can be rebuilt from, or why it cannot.
    pub failover: Option<Result<String, String>>,
}

impl DatabaseView {
    fn new(row: ManagedDatabaseRow, state: Option<SandboxState>) -> Self {
        Self { row, state, is_outdated: None, waits: None, failover: None }
    }

    /// Whether it needs help: a restart, or a rebuild from its archive.
    pub fn has_failed(&self) -> bool {
        let is_dead = matches!(self.state, Some(SandboxState::Failed { .. }));
        self.row.repair.is_none() && (self.row.error.is_some() || is_dead)
    }
}

impl Control {
    /// Lists the caller's databases, newest first.
    pub(crate) async fn databases(&self, caller: &Caller) -> Result<Vec<DatabaseView>, Fault> {
        let mut views = Vec::new();
        for row in self.store.list_databases(&caller.workspace).await? {
            views.push(self.with_state(row).await?);
        }
        Ok(views)
    }

    /// Shows one database of the caller. Does not wake it.
    pub(crate) async fn database(&self, caller: &Caller, id: SandboxId) -> Result<DatabaseView, Fault> {
        let row = self.store.find_database(&caller.workspace, id).await?.ok_or_else(no_database)?;
        let mut view = self.with_state(row).await?;
        if view.has_failed() && view.state.is_some() {
            view.failover = Some(self.plan_restore(id, None).await.map_err(|fault| fault.text.to_string()));
        }
        Ok(view)
    }

    async fn with_state(&self, row: ManagedDatabaseRow) -> Result<DatabaseView, Fault> {
        let state = self.store.any_state(row.id).await?;
        let mut view = DatabaseView::new(row, state);
        if view.state.is_none() && view.row.error.is_none() && view.row.broker_token.is_none() {
            view.waits = self.golden_wait(view.row.size).await;
        }
        // Not while clients wait for it: the list of templates is read from the disk.
        if let Some(layer) = &view.row.template_layer
            && view.row.broker_token.is_some()
        {
            let newest = self.database_template(view.row.size).await.ok();
            view.is_outdated = newest.map(|template| template.layer != *layer);
        }
        Ok(view)
    }

    /// Changes whether a database sleeps when nobody uses it.
    pub(crate) async fn change_database(
        &self,
        caller: &Caller,
        id: SandboxId,
        sleep: Option<DatabaseSleep>,
    ) -> Result<DatabaseView, Fault> {
        let mut view = self.database(caller, id).await?;
        if let Some(sleep) = sleep {
            let IdlePolicy { ttl_seconds, persistent } = idle_policy(sleep);
            self.check_ttl(&caller.workspace, ttl_seconds).await?;
            if view.state.is_some() {
                let limit = IdleLimit { ttl_seconds, persistent };
                // Its machine may be dead, or not there yet: the next one gets the new limit.
                let is_live = usable(&view).is_ok();
                self.keep_idle_limit(id, limit, is_live).await?;
            }
            self.store.set_database_sleep(id, sleep).await?;
            view.row.sleep = sleep;
        }
        Ok(view)
    }

    /// Deletes a database with its data.
    pub(crate) async fn delete_database(&self, caller: &Caller, id: SandboxId) -> Result<(), Fault> {
        self.need_host()?;
        let view = self.database(caller, id).await?;
        let (control, caller) = (self.clone(), caller.clone());
        let work = async move {
            if view.state.is_some() {
                control.delete_to_the_end(caller, id).await?;
            }
            control.store.forget_database(id).await?;
            control.remove_forgotten_archive(id).await
        };
        self.scope.run("delete database", work).await.map_err(Fault::bug)?
    }

    /// Refuses to delete the sandbox of a database, or to let it end when idle: the database would
    /// lose its data unasked. Refuses copies too: they would have its password.
    pub(crate) async fn refuse_database(&self, caller: &Caller, id: SandboxId) -> Result<(), Fault> {
        if self.store.find_database(&caller.workspace, id).await?.is_none() {
            return Ok(());
        }
        let text =
            format!("sandbox {id} belongs to a database; change, branch or delete that instead: /v1/databases/{id}");
        Err(Fault::new(FaultKind::Conflict, "sandbox.of_database", text))
    }

    /// Wakes a database and returns its state.
    pub(crate) async fn wake_database(&self, caller: &Caller, id: SandboxId) -> Result<SandboxState, Fault> {
        self.usable_database(caller, id).await?;
        self.wake(caller, id).await
    }

    /// Measures a running database.
    pub(crate) async fn database_stats(&self, caller: &Caller, id: SandboxId) -> Result<DatabaseStats, Fault> {
        self.running_database(caller, id, FaultKind::Unavailable).await?;
        let printed = self.look_in_database(id, &["stats"], DATABASE_ERRAND_MAX).await.map_err(unless_asleep)?;
        serde_json::from_str(&printed).map_err(|error| Fault::bug(error).with_detail("read the stats of a database"))
    }

    /// Returns the last lines of a running database's log.
    pub(crate) async fn database_logs(
        &self,
        caller: &Caller,
        id: SandboxId,
        lines: u32,
    ) -> Result<DatabaseLogs, Fault> {
        self.running_database(caller, id, FaultKind::Unavailable).await?;
        let verb = ["logs", &lines.to_string()];
        let logs = self.look_in_database(id, &verb, DATABASE_ERRAND_MAX).await.map_err(unless_asleep)?;
        Ok(DatabaseLogs { logs })
    }

    /// Finds a database that has credentials.
    async fn usable_database(&self, caller: &Caller, id: SandboxId) -> Result<DatabaseView, Fault> {
        let view = self.database(caller, id).await?;
        usable(&view)?;
        Ok(view)
    }

    /// Finds a database that runs. A look at it must not wake it. If it does not run, the fault has
    /// the given kind.
    async fn running_database(&self, caller: &Caller, id: SandboxId, kind: FaultKind) -> Result<DatabaseView, Fault> {
        let view = self.database(caller, id).await?;
        let refused = |text: String| Fault::new(kind, "database.not_running", text);
        usable(&view).map_err(|fault| refused(fault.text.to_string()))?;
        match view.state {
            Some(SandboxState::Running) => Ok(view),
            _ => Err(refused("the database sleeps; wake it first".to_owned())),
        }
    }

    /// Checks that a database may be connected to, whoever asks: its password protects it. Returns
    /// the login of its role.
    pub(crate) async fn admit_to_database(&self, id: SandboxId) -> Result<DatabaseLogin, Fault> {
        let row = self.store.any_database(id).await?.ok_or_else(no_database)?;
        let view = self.with_state(row).await?;
        usable(&view)?;
        if view.state == Some(SandboxState::Asleep) {
            self.check_wake(&view.row.workspace, id).await?;
        }
        let login = view.row.login().ok_or_else(no_database)?;
        let (user, password) = (DATABASE_ROLE.to_owned(), login.password.reveal().clone());
        Ok(DatabaseLogin { workspace: view.row.workspace, user, password })
    }

    /// Checks the token of a database's HTTP broker and returns the login of its role.
    pub(crate) async fn broker_login(&self, id: SandboxId, token: &str) -> Result<DatabaseLogin, Fault> {
        let row = self.store.any_database(id).await?.ok_or_else(no_database)?;
        let wrong = || Fault::new(FaultKind::Unauthorized, "database.bad_token", "bad broker token");
        let login = row.login().ok_or_else(wrong)?;
        if !bool::from(login.broker_token.reveal().as_bytes().ct_eq(token.as_bytes())) {
            return Err(wrong());
        }
        self.admit_to_database(id).await
    }
}

/// It may fall asleep between two looks.
fn unless_asleep(fault: Fault) -> Fault {
    match fault.code {
        UseKind::ASLEEP => Fault::new(FaultKind::Unavailable, "database.not_running", fault.text),
        _ => fault,
    }
}

fn idle_policy(sleep: DatabaseSleep) -> IdlePolicy {
    let ttl_seconds = match sleep {
        DatabaseSleep::WhenIdle => DATABASE_IDLE_SECONDS,
        DatabaseSleep::Never => 0,
    };
    IdlePolicy { ttl_seconds, persistent: true }
}

/// The fault for a database whose data is being replaced.
fn being_reset() -> Fault {
    let text = "the branch is being reset to its parent; wait until it is ready";
    Fault::new(FaultKind::Conflict, "database.busy", text)
}

fn usable(view: &DatabaseView) -> Result<(), Fault> {
    let failed = |text: String| Err(Fault::new(FaultKind::Conflict, "database.failed", text));
    let not_ready = |text: &str| Err(Fault::new(FaultKind::Unavailable, "database.not_ready", text.to_owned()));
    let row = &view.row;
    if row.repair.is_some() {
        return not_ready("the database is being restarted; try again in a few seconds");
    }
    let help = format!("restart it: POST /v1/databases/{}/restart", row.id);
    match (&row.error, &view.state, row.login()) {
        (Some(error), _, None) => {
            failed(format!("the database could not be made ({error}); delete it and create another"))
        }
        (Some(error), _, Some(_)) => failed(format!("the database has failed ({error}); {help}")),
        (None, Some(SandboxState::Failed { .. }), Some(_)) => {
            not_ready("the database's machine died and is being restarted; try again in a few seconds")
        }
        (None, Some(_), Some(_)) => Ok(()),
        (None, _, None) => not_ready("the database is not ready yet"),
        (None, None, Some(_)) => failed("the database's machine is gone".to_owned()),
    }
}

/// The fault for a database that does not exist or belongs to another workspace.
pub fn no_database() -> Fault {
    Fault::new(FaultKind::Missing, "database.not_found", "database not found")
}
