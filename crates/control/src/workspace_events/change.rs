//! One event of a workspace, and who may see it.

use pandastack_model::{EventKind, Role, SandboxId};
use pandastack_wire_fleet::Caller;
use pandastack_wire_public::{KindFilter, MachineKind};
use serde_json::{Map, Value};

use crate::events::SandboxEvent;

/// The beginning of the kinds of events of databases.
const OF_DATABASES: &str = "database.";

/// Who may see an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventReaders {
    Everybody,
    /// Members of the organisation, not API keys.
    People,
    /// Owners and admins of the organisation.
    Admins,
}

impl EventReaders {
    pub(super) fn has(self, caller: &Caller) -> bool {
        match (self, &caller.user) {
            (EventReaders::Everybody, _) | (EventReaders::People, Some(_)) => true,
            (EventReaders::Admins, Some(user)) => user.role >= Role::Admin,
            (EventReaders::People | EventReaders::Admins, None) => false,
        }
    }
}

/// One event of a workspace.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkspaceChange {
    pub at_ns: u64,
    pub kind: &'static str,
    pub sandbox: Option<SandboxId>,
    /// What the sandbox is for.
    pub machine: MachineKind,
    pub readers: EventReaders,
    pub payload: Map<String, Value>,
}

impl WorkspaceChange {
    /// Makes an event about no sandbox that everybody in the workspace may see. A payload that is
    /// not an object becomes an empty object.
    pub fn new(kind: &'static str, at_ns: u64, payload: Value) -> Self {
        let payload = match payload {
            Value::Object(payload) => payload,
            _ => Map::new(),
        };
        let machine = MachineKind::Sandbox;
        Self { at_ns, kind, sandbox: None, machine, readers: EventReaders::Everybody, payload }
    }

    /// Makes the event of a sandbox's event, with the state that it leads to.
    pub fn of((sandbox, machine): (SandboxId, MachineKind), event: &SandboxEvent) -> Self {
        let mut payload = event.payload.clone();
        if let Some(status) = status_after(event.kind) {
            payload.insert("status".to_owned(), Value::from(status));
        }
        let (at_ns, kind) = (event.at_ns, event.kind.as_str());
        Self { at_ns, kind, sandbox: Some(sandbox), machine, readers: EventReaders::Everybody, payload }
    }

    /// The database that the sandbox is the machine of.
    pub(super) fn database(&self) -> Option<SandboxId> {
        self.sandbox.filter(|_| self.machine == MachineKind::Database)
    }

    /// Whether a list of some kinds has it. What happens to a database itself is of both kinds.
    pub(super) fn is_shown(&self, kinds: KindFilter) -> bool {
        self.kind.starts_with(OF_DATABASES) || kinds.shows(self.machine)
    }
}

/// The status of a sandbox after an event, if the event changes it.
fn status_after(kind: EventKind) -> Option<&'static str> {
    match kind {
        EventKind::Running | EventKind::Resumed | EventKind::Woken => Some("running"),
        EventKind::Paused => Some("paused"),
        EventKind::Hibernated | EventKind::RecoveredAsleep => Some("hibernated"),
        EventKind::MachineDied | EventKind::RecoveredOrphan => Some("failed"),
        EventKind::Deleted => Some("deleted"),
        EventKind::SshReady
        | EventKind::Forked
        | EventKind::ForkStaged
        | EventKind::ForkChildFailed
        | EventKind::ForkCompleted
        | EventKind::TreeCompleted
        | EventKind::TreePromoted
        | EventKind::EgressDenied
        | EventKind::BudgetAlert
        | EventKind::BudgetUsedUp
        | EventKind::DatabaseRestarted
        | EventKind::DatabaseGrown
        | EventKind::DatabaseNotGrown
        | EventKind::DatabaseBackupFailed
        | EventKind::DatabaseArchiveFailing
        | EventKind::DatabaseArchiveRecovered => None,
    }
}
