//! Requests of the edge to the control plane: authentication, and access to a sandbox.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use pandastack_model::{Fault, GuestPort, LinkLabel, Owner, PathRules, Role, SandboxId};

use crate::CallerKey;

/// The workspace of the first key, which belongs to the operator.
pub const FIRST_WORKSPACE: &str = "default";

/// Id of a workspace, the tenant that owns all resources.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkspaceId(pub String);

impl WorkspaceId {
    /// Returns the workspace as the owner of its sandboxes. A host knows nothing else about it.
    pub fn owner(&self) -> Owner {
        Owner(self.0.clone())
    }
}

/// The authenticated sender of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub workspace: WorkspaceId,
    /// The idempotency key of the request, under which its answer is stored.
    pub attempt: Option<Arc<str>>,
    /// The credential that authenticated the caller. Work that outlives the request ends when it is
    /// revoked.
    pub key: CallerKey,
    /// The person who sent the request. `None` for an API key, which belongs to a workspace.
    pub user: Option<Arc<CallerUser>>,
    /// The request rate of the workspace, if it is not that of the server.
    pub rate: Option<WorkspaceRate>,
    /// Requests of the workspace at the same time, if its plan limits them.
    pub connections_max: Option<u64>,
}

/// The request rate of a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkspaceRate {
    pub per_second: u32,
    pub burst: u32,
}

/// A signed-in person, and the organisation that the request acts in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallerUser {
    pub id: String,
    /// Empty if it is not known.
    pub email: String,
    /// May administer the server.
    pub operator: bool,
    pub org: String,
    /// The role in that organisation.
    pub role: Role,
    pub method: AuthMethod,
}

/// How a person was authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthMethod {
    /// A session of this server, after a login.
    Session,
    /// A token that an identity provider signed.
    Jwt,
    /// Development without authentication.
    Stub,
}

/// What a request brings to prove who sent it.
#[derive(Clone, Copy, Default)]
pub struct Credential<'a> {
    pub token: Option<&'a str>,
    /// The organisation that a person chose for this request, by id.
    pub org: Option<&'a str>,
    /// Whom a request without authentication says it is from, by e-mail address.
    pub stub_user: Option<&'a str>,
    /// Whether a web page of another machine may have sent the request.
    pub foreign: bool,
    /// Whether the request brought a session cookie that another site may have sent. It has no
    /// token then.
    pub forged: bool,
}

impl<'a> Credential<'a> {
    /// A token without a chosen organisation.
    pub fn bearer(token: &'a str) -> Self {
        Self { token: Some(token), ..Self::default() }
    }
}

impl Caller {
    /// Makes the caller of a request without an idempotency key.
    pub fn of(workspace: WorkspaceId) -> Self {
        Self { workspace, attempt: None, key: CallerKey::default(), user: None, rate: None, connections_max: None }
    }

    /// Sets the key that authenticated the caller.
    pub fn with_key(self, key: CallerKey) -> Self {
        Self { key, ..self }
    }
}

/// What a signed preview gives access to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreviewGrant {
    pub sandbox: SandboxId,
    pub port: GuestPort,
    pub paths: PathRules,
    /// The host name of the link. The token works under no other.
    pub label: LinkLabel,
}

/// The login of a database's role, and whose database it is.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseLogin {
    pub workspace: WorkspaceId,
    pub user: String,
    pub password: String,
}

impl fmt::Debug for DatabaseLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatabaseLogin").field("user", &self.user).finish_non_exhaustive()
    }
}

/// The control plane as the edge sees it.
#[async_trait]
pub trait ControlPort: Send + Sync + 'static {
    /// Turns a credential into a caller.
    async fn authenticate(&self, credential: Credential<'_>) -> Result<Caller, Fault>;

    /// Checks whether the caller may use the sandbox. Another tenant's sandbox is
    /// `Fault::no_sandbox`, like an unknown one.
    async fn admit(&self, caller: &Caller, sandbox: SandboxId) -> Result<(), Fault>;

    /// Checks whether the caller may inspect the sandbox, in any state.
    async fn admit_look(&self, caller: &Caller, sandbox: SandboxId) -> Result<(), Fault>;

    /// Checks whether anyone who knows the preview name may use the sandbox.
    async fn admit_anyone(&self, sandbox: SandboxId) -> Result<(), Fault>;

    /// Checks a signed preview's token. A bad or expired one is `Unauthorized`; one of a removed
    /// sandbox is `Missing`.
    async fn open_preview(&self, token: &str) -> Result<PreviewGrant, Fault>;

    /// Checks that a database may be connected to, by anybody: its password protects it. Returns
    /// the login of its role, for the server's own health checks.
    async fn admit_database(&self, database: SandboxId) -> Result<DatabaseLogin, Fault>;

    /// Checks the token of a database's HTTP broker. Returns the login that the broker uses.
    async fn open_broker(&self, database: SandboxId, token: &str) -> Result<DatabaseLogin, Fault>;

    /// Starts the server in the machine of a database, if that runs but nobody listens in it.
    async fn revive_database(&self, database: SandboxId) -> Result<(), Fault>;
}
