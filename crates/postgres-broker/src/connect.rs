//! What the broker needs from its surroundings: byte streams to PostgreSQL in a machine, and the
//! login of the tenant's role.

use async_trait::async_trait;
use pandastack_kit::Secret;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncRead, AsyncWrite};

/// A plain byte stream to PostgreSQL.
pub trait DatabaseStream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> DatabaseStream for T {}

/// Why there is no stream. The caller reads the reason.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct ConnectRefused {
    pub reason: String,
}

/// Opens streams to PostgreSQL in a machine.
#[async_trait]
pub trait Connect: Send + Sync + 'static {
    /// Opens a stream and wakes the machine first.
    async fn connect(&self, machine: &str) -> Result<Box<dyn DatabaseStream>, ConnectRefused>;

    /// Opens a stream that does not count as use: it neither wakes the machine nor keeps it awake,
    /// and starts no server. Anybody may ask for a health check.
    async fn connect_awake(&self, machine: &str) -> Result<Box<dyn DatabaseStream>, ConnectRefused> {
        self.connect(machine).await
    }

    /// Returns a value that lives while a request runs. Only it should keep the machine awake: the
    /// idle connections of the pool should not.
    fn hold(&self, _machine: &str) -> Box<dyn Send + Sync> {
        Box::new(())
    }
}

/// The tenant's role, and the database whose extensions `GET /v1/info` lists.
#[derive(Clone)]
pub struct Login {
    pub user: String,
    pub password: Secret<String>,
    pub database: String,
}

impl Login {
    /// Identifies user and password, without keeping the password.
    pub(crate) fn digest(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update((self.user.len() as u64).to_le_bytes());
        hash.update(&self.user);
        hash.update(self.password.reveal());
        hash.finalize().into()
    }
}
