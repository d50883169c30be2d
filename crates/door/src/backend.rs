//! What the front door asks of the control plane.

use std::time::Duration;

use async_trait::async_trait;
use pandastack_model::Fault;
use pandastack_wire_fleet::{Caller, ControlPort, WorkspaceId};

/// One changing request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRow {
    pub workspace: WorkspaceId,
    pub at_ns: u64,
    pub request_id: String,
    pub method: String,
    pub route: String,
    pub path: String,
    pub status: u16,
    pub duration_ms: u64,
    /// The visible prefix of the request's key. Empty for a person.
    pub key_prefix: String,
    /// Who sent the request: `user:` and an id, or `key:` and the prefix of a key.
    pub actor: String,
    /// The e-mail address of a person. Empty if it is not known.
    pub actor_email: String,
    /// The network address of the client. Empty if it is not known.
    pub address: String,
}

/// The idempotency key of a request within its workspace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IdempotencyKey {
    pub workspace: WorkspaceId,
    pub key: String,
}

/// What is known of a key when a request arrives with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttemptState {
    /// The key was unknown. It now belongs to this request.
    New,
    /// The same request is in progress.
    InFlight,
    /// The key belongs to another request.
    Other,
    /// The same request was answered. The body is missing if it was too large to store.
    Answered { status: u16, body: Option<Vec<u8>> },
}

/// The control plane as the front door sees it.
#[async_trait]
pub trait DoorBackend: ControlPort {
    /// Records an audit entry. It must not delay the request for long.
    async fn record(&self, entry: AuditRow);

    /// Records an audit entry without any delay. It is lost if too many wait to be written.
    fn record_at_once(&self, entry: AuditRow);

    /// Counts an answered request of a workspace. It must not wait.
    fn count_request(&self, workspace: &WorkspaceId, status: u16, took: Duration);

    /// Takes an idempotency key for a request, or returns what is known of it.
    async fn begin_attempt(&self, attempt: &IdempotencyKey, digest: &str) -> Result<AttemptState, Fault>;

    /// Records the answer to a key's request. The body is missing if it is too large to keep.
    async fn answer_attempt(&self, attempt: &IdempotencyKey, status: u16, body: Option<&[u8]>) -> Result<(), Fault>;

    /// Frees a key whose request made nothing.
    async fn drop_attempt(&self, attempt: &IdempotencyKey) -> Result<(), Fault>;

    /// Records that a request is about to make something in a guest. It has no id yet, so it is
    /// identified by the path of the request.
    async fn note_made_in_guest(&self, caller: &Caller, path: String) -> Result<(), Fault>;
}
