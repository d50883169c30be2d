//! All SQL of the control plane. Rows enter and leave as types; no other module knows a table.

mod attempts;
mod builds;
mod deliveries;
mod intent;
mod keys;
mod lineage;
mod migrate;
mod outbox;
mod ports;
mod sandboxes;
mod snapshots;
mod states;
mod templates;
mod terms;
mod trail;
mod volumes;
mod webhooks;

use std::{fs, io, os::unix::fs::OpenOptionsExt, path::Path, sync::Arc};

pub use attempts::ResourceKind;
pub use builds::{BuildAdded, BuildResource, BuildRow, BuildStatus};
pub use deliveries::{DeliveryFilter, DeliveryRow, DeliveryStage, TryEffect, TryRow};
pub use intent::{IdleLimit, Intent, Lineage, MachineSize, StartReport};
pub use keys::{KeyAdded, KeyLimits, KeyRevoked, KeyRow, LastKey, ListedKey, OPERATOR, key_id};
pub use lineage::FamilyMember;
use pandastack_model::{Fault, FaultKind};
pub use ports::{PortAdded, SIGNING_KEY_BYTES};
pub use sandboxes::SandboxesAdded;
pub use snapshots::SnapshotRow;
use sqlx::{
    Connection,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous},
};
pub use states::HostReport;
pub use templates::{CachedLayer, TemplateRow};
pub use terms::{StoredLimit, Term};
use tokio::sync::Notify;
pub use volumes::{UnfinishedOperation, VolumeAdded, VolumeBytes, VolumeRow};
pub use webhooks::{WebhookAdded, WebhookRow, WebhookSecret};

use crate::{
    events::EventLog,
    limits::{DATABASE_BUSY_MAX, DATABASE_CONNECTIONS_MAX},
};

/// The database.
#[derive(Clone)]
pub struct Store {
    pool: SqlitePool,
    /// Notified when the outbox has new deliveries.
    outbox: Arc<Notify>,
    /// The recent events of every sandbox.
    events: Arc<EventLog>,
}

/// SQLite's error code for a full disk.
const FULL: &str = "13";

/// Why a database operation failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("create the file {path}")]
    File {
        path: String,
        #[source]
        cause: io::Error,
    },
    #[error("{attempted}")]
    Query {
        attempted: &'static str,
        #[source]
        cause: sqlx::Error,
    },
    #[error("the database has version {found}, but this program supports only up to {known}; use a newer program")]
    TooNew { found: i64, known: i64 },
    #[error("the row of {id} has an invalid {field}")]
    Corrupt { id: String, field: &'static str },
}

impl StoreError {
    /// Returns whether the disk is full.
    fn is_full(&self) -> bool {
        let StoreError::Query { cause: sqlx::Error::Database(cause), .. } = self else { return false };
        cause.code().as_deref() == Some(FULL)
    }
}

impl Store {
    /// Opens the file, creates it if it does not exist, and migrates it to the current version.
    pub async fn open(path: &Path, now_ns: u64) -> Result<Self, StoreError> {
        // The file contains users' secrets, so only its owner may read it. SQLite uses the umask.
        let made = fs::OpenOptions::new().append(true).create(true).mode(0o600).open(path);
        made.map_err(|cause| StoreError::File { path: path.display().to_string(), cause })?;
        let options = SqliteConnectOptions::new()
            .filename(path)
            .journal_mode(SqliteJournalMode::Wal)
            // A confirmed change must survive a power failure.
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(DATABASE_BUSY_MAX)
            .foreign_keys(true);
        // After a failed commit on a full disk, sqlx believes that the connection is still in a
        // transaction. Its next transaction would block all other writers, so it is closed.
        let pool = SqlitePoolOptions::new().max_connections(DATABASE_CONNECTIONS_MAX).after_release(|connection, _| {
            Box::pin(async move {
                // The ping returns after a dropped transaction was rolled back.
                connection.ping().await?;
                Ok(!connection.is_in_transaction())
            })
        });
        let pool = pool.connect_with(options).await;
        let store =
            Self { pool: pool.map_err(failed("open the database"))?, outbox: Arc::default(), events: Arc::default() };
        migrate::migrate(&store.pool, now_ns).await?;
        Ok(store)
    }

    /// Checks that the database responds.
    pub async fn ping(&self) -> Result<(), StoreError> {
        sqlx::query("SELECT 1").execute(&self.pool).await.map(drop).map_err(failed("ping the database"))
    }

    /// Returns the notification for new or due deliveries.
    pub fn outbox(&self) -> Arc<Notify> {
        self.outbox.clone()
    }

    /// Returns the event log of the sandboxes. Outside of the store, only an undone fork adds to
    /// it.
    pub fn events(&self) -> &EventLog {
        &self.events
    }

    /// Closes every connection.
    pub async fn close(&self) {
        self.pool.close().await;
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
        let detail = format!("{error}{cause}");
        if error.is_full() {
            let text = "the server's disk is full; try again when space has been freed";
            return Fault::new(FaultKind::Storage, "host.storage", text).with_detail(detail);
        }
        Fault::bug(detail)
    }
}

/// Adds the attempted operation to an error.
fn failed(attempted: &'static str) -> impl Fn(sqlx::Error) -> StoreError {
    move |cause| StoreError::Query { attempted, cause }
}

/// Converts to the database's integer type. Counts and times stay far below its maximum.
fn to_sql(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn from_sql(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[tokio::test]
    async fn a_connection_whose_commit_failed_is_not_used_again() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("control.db"), 1).await.unwrap();
        let fails = Arc::new(AtomicBool::new(true));
        let mut all = Vec::new();
        for _ in 0..DATABASE_CONNECTIONS_MAX {
            let (mut connection, fails) = (store.pool.acquire().await.unwrap(), fails.clone());
            connection.lock_handle().await.unwrap().set_commit_hook(move || !fails.swap(false, Ordering::Relaxed));
            all.push(connection);
        }
        drop(all);
        // Connections return to the pool asynchronously.
        let rests = async || {
            while store.pool.num_idle() < store.pool.size() as usize {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
        };
        rests().await;
        let write = async || {
            let mut tx = store.pool.begin_with("BEGIN IMMEDIATE").await?;
            sqlx::query("CREATE TABLE IF NOT EXISTS written (number INTEGER)").execute(&mut *tx).await?;
            tx.commit().await
        };
        write().await.expect_err("the commit is refused");
        rests().await;
        for _ in 0..DATABASE_CONNECTIONS_MAX {
            write().await.unwrap();
        }
    }
}
