//! What the proxy needs from the server around it: a stream into a database's machine, and an ear
//! for whether a query runs.

use std::net::SocketAddr;

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::name::DatabaseName;

/// Where databases are found and woken.
#[async_trait]
pub trait Databases: Send + Sync + 'static {
    /// Opens a stream to a port of the database's machine. Wakes the machine first if it sleeps:
    /// the client is held meanwhile. The future is dropped if the client goes away or it takes too
    /// long, so work that must end runs in a scope of its own.
    async fn open(&self, ask: OpenRequest) -> Result<OpenedBackend, OpenRefusal>;
}

/// Which stream is wanted, and for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenRequest {
    pub database: DatabaseName,
    pub port: BackendPort,
    pub peer: SocketAddr,
    pub purpose: OpenPurpose,
}

/// The port of a database's machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BackendPort {
    /// The pooler. A server connection is a client's only during a transaction.
    Pooled,
    /// PostgreSQL itself, for features that need a session.
    Session,
}

/// What the stream is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenPurpose {
    /// A client's connection.
    Tunnel,
    /// One cancel request for a connection that exists: it is no reason to wake the database.
    Cancel,
}

/// How a database was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendStart {
    Awake,
    /// It slept, and was woken for this connection or for one beside it.
    Woken,
}

/// An open stream into a machine.
pub struct OpenedBackend {
    pub start: BackendStart,
    pub stream: Box<dyn BackendBytes>,
    /// Dropped when the tunnel has ended.
    pub activity: Box<dyn QueryActivity>,
}

/// Bytes to and from PostgreSQL or its pooler, without TLS.
pub trait BackendBytes: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> BackendBytes for T {}

/// Hears what a connection does. It begins as `Running`: until the login is over.
pub trait QueryActivity: Send {
    /// The state is another one than before. Called between reading and writing: it must be quick.
    fn changed(&self, state: QueryState);
}

/// What a connection does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryState {
    /// A query, a copy or the login is in progress.
    Running,
    /// No query runs, and a transaction is open.
    InTransaction,
    /// No query runs.
    Idle,
}

/// Why there is no stream. The texts reach the client: they name what to do next.
#[derive(Debug, thiserror::Error)]
pub enum OpenRefusal {
    /// There is no such database.
    #[error("no such database")]
    Unknown,
    /// The database is being made or repaired.
    #[error("the database is not ready")]
    Starting,
    /// It cannot run without help from its owner.
    #[error("the database has failed: {0}")]
    Failed(String),
    /// The owner may not use it now, for instance because of a quota.
    #[error("the database may not be used: {0}")]
    Denied(String),
    /// A limit is reached: no host has room, or too many connections.
    #[error("busy: {0}")]
    Busy(String),
    /// The server could not find out. The cause was logged where it happened.
    #[error("the database cannot be reached now")]
    Unavailable,
}
