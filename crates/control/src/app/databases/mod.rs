//! Managed databases. A database is a sandbox that starts from a golden layer: a sealed machine
//! with a running server and an empty cluster on its volume. A branch is a fork of a live one. What
//! the copy must not share is its credentials; nobody can connect before it has its own.

mod branch;
mod create;
mod credentials;
mod golden;
mod guest;

use pandastack_model::{Fault, FaultKind, SandboxId, SandboxState};
use pandastack_wire_fleet::{Caller, DatabaseLogin, IdlePolicy};
use pandastack_wire_public::{DATABASE_ROLE, DatabaseLogs, DatabaseSleep, DatabaseStats, LifecycleChange};
use subtle::ConstantTimeEq;

use crate::{
    Control,
    limits::{DATABASE_ERRAND_MAX, DATABASE_IDLE_SECONDS},
    store::ManagedDatabaseRow,
};

/// A database with the state of its sandbox.
pub struct DatabaseView {
    pub row: ManagedDatabaseRow,
    /// `None` if it has no sandbox yet, or its sandbox is gone.
    pub state: Option<SandboxState>,
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
        self.with_state(row).await
    }

    async fn with_state(&self, row: ManagedDatabaseRow) -> Result<DatabaseView, Fault> {
        let state = self.store.any_state(row.id).await?;
        Ok(DatabaseView { row, state })
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
            let change = LifecycleChange { ttl_seconds: Some(ttl_seconds), persistent: Some(persistent) };
            self.set_lifecycle(caller, id, change).await?;
            self.store.set_database_sleep(id, sleep).await?;
            view.row.sleep = sleep;
        }
        Ok(view)
    }

    /// Deletes a database with its data.
    pub(crate) async fn delete_database(&self, caller: &Caller, id: SandboxId) -> Result<(), Fault> {
        self.need_host()?;
        let view = self.database(caller, id).await?;
        if view.state.is_some() {
            let (control, caller) = (self.clone(), caller.clone());
            let work = async move { control.delete_to_the_end(caller, id).await };
            self.scope.run("delete database", work).await.map_err(Fault::bug)??;
        }
        Ok(self.store.forget_database(id).await?)
    }

    /// Refuses to delete the sandbox of a database, or to let it end when idle: the database would
    /// lose its data unasked.
    pub(crate) async fn refuse_database(&self, caller: &Caller, id: SandboxId) -> Result<(), Fault> {
        if self.store.find_database(&caller.workspace, id).await?.is_none() {
            return Ok(());
        }
        let text = format!("sandbox {id} belongs to a database; change or delete that instead: /v1/databases/{id}");
        Err(Fault::new(FaultKind::Conflict, "sandbox.of_database", text))
    }

    /// Wakes a database and returns its state.
    pub(crate) async fn wake_database(&self, caller: &Caller, id: SandboxId) -> Result<SandboxState, Fault> {
        self.usable_database(caller, id).await?;
        self.wake(caller, id).await
    }

    /// Measures a running database.
    pub(crate) async fn database_stats(&self, caller: &Caller, id: SandboxId) -> Result<DatabaseStats, Fault> {
        self.running_database(caller, id).await?;
        let printed = self.run_in_database(id, &["stats"], None, DATABASE_ERRAND_MAX).await?;
        serde_json::from_str(&printed).map_err(|error| Fault::bug(error).with_detail("read the stats of a database"))
    }

    /// Returns the last lines of a running database's log.
    pub(crate) async fn database_logs(
        &self,
        caller: &Caller,
        id: SandboxId,
        lines: u32,
    ) -> Result<DatabaseLogs, Fault> {
        self.running_database(caller, id).await?;
        let logs = self.run_in_database(id, &["logs", &lines.to_string()], None, DATABASE_ERRAND_MAX).await?;
        Ok(DatabaseLogs { logs })
    }

    /// Finds a database that has credentials.
    async fn usable_database(&self, caller: &Caller, id: SandboxId) -> Result<DatabaseView, Fault> {
        let view = self.database(caller, id).await?;
        usable(&view)?;
        Ok(view)
    }

    /// Finds a database that runs. A look at it must not wake it.
    async fn running_database(&self, caller: &Caller, id: SandboxId) -> Result<DatabaseView, Fault> {
        let view = self.usable_database(caller, id).await?;
        match view.state {
            Some(SandboxState::Running) => Ok(view),
            _ => Err(Fault::new(FaultKind::Unavailable, "database.not_running", "the database sleeps; wake it first")),
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
        let login = view.row.login.ok_or_else(no_database)?;
        Ok(DatabaseLogin { user: DATABASE_ROLE.to_owned(), password: login.password.reveal().clone() })
    }

    /// Checks the token of a database's HTTP broker and returns the login of its role.
    pub(crate) async fn broker_login(&self, id: SandboxId, token: &str) -> Result<DatabaseLogin, Fault> {
        let row = self.store.any_database(id).await?.ok_or_else(no_database)?;
        let wrong = || Fault::new(FaultKind::Unauthorized, "database.bad_token", "bad broker token");
        let login = row.login.ok_or_else(wrong)?;
        if !bool::from(login.broker_token.reveal().as_bytes().ct_eq(token.as_bytes())) {
            return Err(wrong());
        }
        self.admit_to_database(id).await
    }
}

fn idle_policy(sleep: DatabaseSleep) -> IdlePolicy {
    let ttl_seconds = match sleep {
        DatabaseSleep::WhenIdle => DATABASE_IDLE_SECONDS,
        DatabaseSleep::Never => 0,
    };
    IdlePolicy { ttl_seconds, persistent: true }
}

fn usable(view: &DatabaseView) -> Result<(), Fault> {
    if let Some(error) = &view.row.error {
        let text = format!("the database could not be made ({error}); delete it and create another");
        return Err(Fault::new(FaultKind::Conflict, "database.failed", text));
    }
    match (&view.state, &view.row.login) {
        (Some(SandboxState::Failed { reason }), _) => {
            let text = format!("the database has failed ({reason})");
            Err(Fault::new(FaultKind::Conflict, "database.failed", text))
        }
        (Some(_), Some(_)) => Ok(()),
        (_, None) => Err(Fault::new(FaultKind::Unavailable, "database.not_ready", "the database is not ready yet")),
        (None, Some(_)) => Err(Fault::new(FaultKind::Conflict, "database.failed", "the database's machine is gone")),
    }
}

/// The fault for a database that does not exist or belongs to another workspace.
pub fn no_database() -> Fault {
    Fault::new(FaultKind::Missing, "database.not_found", "database not found")
}
