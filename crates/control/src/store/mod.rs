//! The only SQL. Rows come in and go out as types; nothing above this knows a table.

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
mod trail;
mod volumes;
mod webhooks;

use std::{fs, io, os::unix::fs::OpenOptionsExt, path::Path, sync::Arc};

pub use attempts::{Attempt, Begun, Made};
pub use builds::{Build, BuildBegun, BuildStatus, Holding};
pub use deliveries::{Delivery, Sending, Shown, Stage, Verdict};
pub use intent::{IdleLimit, Intent, Lineage, Observed, Size};
pub use keys::KeyRow;
pub use lineage::Relative;
pub use outbox::News;
use pandastack_model::Fault;
pub use ports::{Declared, SIGNING_KEY_BYTES};
pub use sandboxes::Committed;
pub use snapshots::Snapshot;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous};
pub use states::Seen;
pub use templates::{CachedLayer, Template};
use tokio::sync::Notify;
pub use trail::Deed;
pub use volumes::{Named, Unfinished, Volume};
pub use webhooks::{Subscribed, Webhook, WebhookSecret};

use crate::limits::{DATABASE_BUSY_MAX, DATABASE_CONNECTIONS_MAX};

/// The database.
#[derive(Clone)]
pub struct Store {
    pool: SqlitePool,
    /// Told when something was put into the outbox.
    outbox: Arc<Notify>,
}

/// What the database refused.
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
    #[error("the database has version {found}, this program knows up to {known}; use a newer program")]
    TooNew { found: i64, known: i64 },
    #[error("the row of {id} has an unreadable {field}")]
    Corrupt { id: String, field: &'static str },
}

impl Store {
    /// Opens the file, makes it if need be, and brings it to the present version.
    pub async fn open(path: &Path, now_ns: u64) -> Result<Self, StoreError> {
        // The file holds users' secrets, so nobody else may read it; SQLite would follow the umask.
        let made = fs::OpenOptions::new().append(true).create(true).mode(0o600).open(path);
        made.map_err(|cause| StoreError::File { path: path.display().to_string(), cause })?;
        let options = SqliteConnectOptions::new()
            .filename(path)
            .journal_mode(SqliteJournalMode::Wal)
            // What was answered must be known after a cut of the power.
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(DATABASE_BUSY_MAX)
            .foreign_keys(true);
        let pool = SqlitePoolOptions::new().max_connections(DATABASE_CONNECTIONS_MAX).connect_with(options).await;
        let store = Self { pool: pool.map_err(failed("open the database"))?, outbox: Arc::default() };
        migrate::migrate(&store.pool, now_ns).await?;
        Ok(store)
    }

    /// Asks the database for a sign of life.
    pub async fn ping(&self) -> Result<(), StoreError> {
        sqlx::query("SELECT 1").execute(&self.pool).await.map(drop).map_err(failed("ping the database"))
    }

    /// Gives the bell that rings when there may be something to deliver.
    pub fn outbox(&self) -> Arc<Notify> {
        self.outbox.clone()
    }

    /// Closes every connection.
    pub async fn close(&self) {
        self.pool.close().await;
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
        Fault::bug(format!("{error}{cause}"))
    }
}

/// Names what was attempted.
fn failed(attempted: &'static str) -> impl Fn(sqlx::Error) -> StoreError {
    move |cause| StoreError::Query { attempted, cause }
}

/// Fits a count or a time into the database's only integer. Ours end long before its range does.
fn to_sql(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn from_sql(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
