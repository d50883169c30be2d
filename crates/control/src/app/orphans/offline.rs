//! What was put aside as the operator manages it: by rows in the server's database. A running
//! server does what they ask within a second or two; one that is stopped, at its next start.

use pandastack_database::DatabaseAddress;
use pandastack_wire_fleet::WorkspaceId;
use pandastack_wire_public::VolumeName;

use crate::{
    plan::{NewOwner, OrphanRefusal, OrphanRequest, OrphanState},
    store::{HOST_LEASE_NAME, OrphanId, OrphanRow, RestoreMark, Store, StoreError},
};

/// Why a request about something that was put aside was refused.
#[derive(Debug, thiserror::Error)]
pub enum OrphanFault {
    #[error(transparent)]
    Database(#[from] StoreError),
    #[error("nothing with the id {0} was put aside; see \"pandastack admin orphans list\"")]
    Missing(String),
    #[error("there is no workspace {0:?}; see \"pandastack admin quota list\"")]
    NoWorkspace(String),
    #[error("{0} is no volume, and only volumes have a name; leave --name out")]
    NoName(String),
    #[error("{0:?} is no name of a volume: {1}")]
    BadName(String, String),
    #[error("{0} is being adopted already")]
    Adopting(String),
    #[error("{0} is being removed already")]
    Removing(String),
}

/// Something that was put aside, for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrphanView {
    pub id: String,
    /// `sandbox`, `database` or `volume`.
    pub kind: &'static str,
    /// `found`, `kept`, `adopting`, `adopted` or `removing`.
    pub state: &'static str,
    pub error: Option<String>,
    /// The backup that was restored, if one was.
    pub backup: Option<String>,
    pub put_aside_at_ns: u64,
    pub expires_at_ns: u64,
    /// Its state on the host when it was put aside.
    pub host_state: String,
    pub template: Option<String>,
    /// The workspace that it belonged to, if the host knows.
    pub workspace: Option<String>,
    /// The database that a volume belongs to.
    pub of_sandbox: Option<String>,
    pub since_ns: Option<u64>,
    pub cpus: u32,
    pub memory_mib: u64,
    pub disk_mib: u64,
    /// Whether it waits for the operator, so that the last request has ended.
    pub waits: bool,
}

impl From<OrphanRow> for OrphanView {
    fn from(row: OrphanRow) -> Self {
        let OrphanRow { id, state, error, backup, put_aside_at_ns, expires_at_ns, facts } = row;
        Self {
            id: id.to_string(),
            kind: id.kind(),
            state: state.as_str(),
            error,
            backup,
            put_aside_at_ns,
            expires_at_ns,
            host_state: facts.host_state,
            template: facts.template,
            workspace: facts.workspace.map(|workspace| workspace.0),
            of_sandbox: facts.of_sandbox.map(|sandbox| sandbox.to_string()),
            since_ns: facts.since_ns,
            cpus: facts.size.cpus,
            memory_mib: facts.size.memory_mib,
            disk_mib: facts.size.disk_mib,
            waits: matches!(state, OrphanState::Found | OrphanState::Kept),
        }
    }
}

/// What a server has put aside.
pub struct Orphans {
    store: Store,
}

impl Orphans {
    /// Opens the database of a server.
    pub async fn open(database: &DatabaseAddress, now_ns: u64) -> Result<Self, StoreError> {
        Ok(Self { store: Store::open(database, now_ns).await? })
    }

    /// Lists everything, machines before volumes.
    pub async fn list(&self) -> Result<Vec<OrphanView>, StoreError> {
        Ok(self.store.orphans().await?.into_iter().map(OrphanView::from).collect())
    }

    /// Finds one; `None` if it was never put aside, or has an owner, or is gone.
    pub async fn find(&self, id: &str) -> Result<Option<OrphanView>, StoreError> {
        Ok(self.store.find_orphan(id).await?.map(OrphanView::from))
    }

    /// Asks the server to give it to a workspace, a volume under a name.
    pub async fn adopt(&self, id: &str, workspace: &str, name: Option<&str>) -> Result<OrphanView, OrphanFault> {
        let orphan = self.store.find_orphan(id).await?.ok_or_else(|| OrphanFault::Missing(id.to_owned()))?;
        if let Some(name) = name {
            if !matches!(orphan.id, OrphanId::Volume(_)) {
                return Err(OrphanFault::NoName(id.to_owned()));
            }
            let parsed: Result<VolumeName, _> = name.parse();
            parsed.map_err(|error| OrphanFault::BadName(name.to_owned(), error.to_string()))?;
        }
        let workspace = WorkspaceId(workspace.to_owned());
        if !self.store.has_workspace(&workspace).await? {
            return Err(OrphanFault::NoWorkspace(workspace.0));
        }
        self.ask(id, OrphanRequest::Adopt(NewOwner { workspace, name: name.map(str::to_owned) })).await
    }

    /// Asks the server to remove it.
    pub async fn delete(&self, id: &str) -> Result<OrphanView, OrphanFault> {
        self.ask(id, OrphanRequest::Delete).await
    }

    async fn ask(&self, id: &str, ask: OrphanRequest) -> Result<OrphanView, OrphanFault> {
        match self.store.ask_orphan(id, ask, None).await? {
            Some(Ok(row)) => Ok(row.into()),
            None => Err(OrphanFault::Missing(id.to_owned())),
            Some(Err(OrphanRefusal::Removing | OrphanRefusal::Unexpected)) => Err(OrphanFault::Removing(id.to_owned())),
            Some(Err(OrphanRefusal::Adopting)) => Err(OrphanFault::Adopting(id.to_owned())),
        }
    }

    /// Whether a server with a host runs, which does what was asked.
    pub async fn has_server(&self, now_ns: u64) -> Result<bool, StoreError> {
        Ok(self.store.lease_end(HOST_LEASE_NAME).await?.is_some_and(|until_ns| until_ns > now_ns))
    }

    /// Closes the database.
    pub async fn close(self) {
        self.store.close().await;
    }
}

/// Marks a database that is not in use as restored from a backup.
pub async fn mark_restored(database: &DatabaseAddress, backup: &str, now_ns: u64) -> Result<(), StoreError> {
    let store = Store::open(database, now_ns).await?;
    let marked = store.mark_restored(&RestoreMark { backup: backup.to_owned(), restored_at_ns: now_ns }).await;
    store.close().await;
    marked
}
