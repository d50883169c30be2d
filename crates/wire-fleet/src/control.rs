//! What the edge asks of the control plane: who is this, and may they reach that sandbox.

use std::sync::Arc;

use async_trait::async_trait;
use pandastack_model::{Fault, GuestPort, LinkLabel, Owner, PathRules, SandboxId};

use crate::CallerKey;

/// The tenant everything belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkspaceId(pub String);

impl WorkspaceId {
    /// Gives the workspace as the owner of its sandboxes, which is all that a host knows of it.
    pub fn owner(&self) -> Owner {
        Owner(self.0.clone())
    }
}

/// Who sent a request, after the credential was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub workspace: WorkspaceId,
    /// The idempotency key of the request, where its answer is remembered.
    pub attempt: Option<Arc<str>>,
    /// The key that let the caller in. What outlives the request ends with it.
    pub key: CallerKey,
}

impl Caller {
    /// Makes the caller of a request without an idempotency key.
    pub fn of(workspace: WorkspaceId) -> Self {
        Self { workspace, attempt: None, key: CallerKey::default() }
    }

    /// Says which key let the caller in.
    pub fn with_key(self, key: CallerKey) -> Self {
        Self { key, ..self }
    }
}

/// What a signed preview lets anybody reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreviewGrant {
    pub sandbox: SandboxId,
    pub port: GuestPort,
    pub paths: PathRules,
    /// The host name of the link. The token works under no other.
    pub label: LinkLabel,
}

/// The control plane as the edge sees it.
#[async_trait]
pub trait ControlPort: Send + Sync + 'static {
    /// Turns a bearer token into a caller.
    async fn authenticate(&self, token: Option<&str>) -> Result<Caller, Fault>;

    /// Says whether the caller may reach the sandbox. Another tenant's sandbox is
    /// `Fault::no_sandbox`, like an unknown one.
    async fn admit(&self, caller: &Caller, sandbox: SandboxId) -> Result<(), Fault>;

    /// Says whether the caller may look at what is left of a sandbox, whatever state it is in.
    async fn admit_look(&self, caller: &Caller, sandbox: SandboxId) -> Result<(), Fault>;

    /// Says whether the sandbox may be reached by whoever knows its preview name.
    async fn admit_anyone(&self, sandbox: SandboxId) -> Result<(), Fault>;

    /// Reads a signed preview's token. A bad or old one is `Unauthorized`, one of a sandbox that is
    /// gone is `Missing`.
    async fn open_preview(&self, token: &str) -> Result<PreviewGrant, Fault>;
}
