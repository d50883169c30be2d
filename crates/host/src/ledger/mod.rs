//! Records the machines, sandboxes, layers and volume uses of this host. A row is written before a
//! thing is made and deleted after it is gone. SQLite with a write-ahead log: a killed process
//! loses no row, and rows that must survive a power cut are flushed. Holds the only SQL of this
//! room.
//!
//! ```text
//! machines    one row per machine process and its resources, from before its start until all of it is removed
//! sandboxes   one row per sandbox: its specification, its state, and the layer it sleeps in
//! layers      one row per layer that was sealed here, and whether its owner keeps it
//! volumes     one row per use of a volume, and one per volume that is being removed
//! usage       one row per change of a sandbox's machine, until it is billed; see `usage`
//! ```

#[cfg(feature = "faults")]
mod faults;
mod layers;
mod machines;
mod sandboxes;
mod usage;
mod volumes;

use std::path::Path;

use pandastack_model::{Fault, FaultKind};
use pandastack_sys::private;
use sqlx::{
    Connection, SqliteConnection, SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};

use crate::steady::ClockSource;

#[cfg(feature = "faults")]
pub use faults::{LedgerFaults, WriteLoss};
pub use machines::MachineRow;
pub use sandboxes::{SandboxRecord, SandboxRow};
pub use usage::BilledSize;
pub use volumes::{ClaimOutcome, VolumeUse};

/// Change this with a table. A newer version is refused.
const VERSION: i64 = 3;

/// SQLite's error code for a full disk.
const FULL: &str = "13";

/// The ledger cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    #[error("{action}")]
    Sql {
        action: &'static str,
        #[source]
        cause: sqlx::Error,
    },
    #[error("the ledger has version {found}, but this build supports only up to {VERSION}; use a newer build")]
    Version { found: i64 },
    #[error("the ledger line of {id} has an invalid {field}")]
    Corrupt { id: String, field: &'static str },
}

impl LedgerError {
    /// Returns whether the disk is full.
    fn is_full(&self) -> bool {
        let Self::Sql { cause: sqlx::Error::Database(cause), .. } = self else { return false };
        cause.code().as_deref() == Some(FULL)
    }
}

impl From<&LedgerError> for Fault {
    fn from(error: &LedgerError) -> Self {
        let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
        let detail = format!("{error}{cause}");
        if error.is_full() {
            let text = "the host's disk is full; try again when space has been freed";
            return Self::new(FaultKind::Storage, "host.storage", text).with_detail(detail);
        }
        Self::bug(detail)
    }
}

impl From<LedgerError> for Fault {
    fn from(error: LedgerError) -> Self {
        Self::from(&error)
    }
}

/// The open ledger.
#[derive(Clone, Debug)]
pub struct Ledger {
    pool: SqlitePool,
    meter: usage::LedgerMeter,
}

impl Ledger {
    /// Opens or creates the ledger file.
    pub async fn open(file: &Path) -> Result<Self, LedgerError> {
        Self::open_with(file, ClockSource::kernel()).await
    }

    /// Opens or creates the ledger file, with other clocks than the kernel's.
    pub async fn open_with(file: &Path, clocks: ClockSource) -> Result<Self, LedgerError> {
        // The ledger holds the secrets of machines. SQLite would follow the umask, and it gives its
        // other files the same mode as this one.
        let made = private::file().append(true).open(file);
        made.map_err(|cause| sql("create the ledger")(sqlx::Error::Io(cause)))?;
        let options = SqliteConnectOptions::new()
            .filename(file)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Normal);
        // One connection, because the ledger has one writer. It is discarded if it claims to be
        // in a transaction when it is released: SQLite rolled the transaction back on a full disk,
        // and the library does not know that.
        let pool = SqlitePoolOptions::new().max_connections(1).after_release(|connection, _| {
            Box::pin(async move {
                connection.ping().await?;
                Ok(!connection.is_in_transaction())
            })
        });
        let pool = pool.connect_with(options).await.map_err(sql("open the ledger"))?;
        let found: i64 =
            sqlx::query_scalar("PRAGMA user_version").fetch_one(&pool).await.map_err(sql("read the version"))?;
        if found > VERSION {
            return Err(LedgerError::Version { found });
        }
        // Version 1 had the first table only, and sandboxes did not outlive their process. Version
        // 2 had no usage: the host meters its sandboxes when it starts.
        let schemas =
            [machines::SCHEMA, sandboxes::SCHEMA, layers::SCHEMA, volumes::SCHEMA, usage::SCHEMA, sandboxes::CHANGES];
        for schema in schemas {
            sqlx::raw_sql(schema).execute(&pool).await.map_err(sql("create the tables"))?;
        }
        sqlx::raw_sql("PRAGMA user_version = 3").execute(&pool).await.map_err(sql("write the version"))?;
        let meter = usage::LedgerMeter::open(&pool, clocks).await?;
        Ok(Self { pool, meter })
    }

    /// Closes the file.
    pub async fn close(&self) {
        self.pool.close().await;
    }

    /// Runs a change that is on disk when this returns.
    async fn durably<T>(
        &self,
        action: &'static str,
        change: impl AsyncFnOnce(&mut SqliteConnection) -> Result<T, sqlx::Error>,
    ) -> Result<T, LedgerError> {
        durably(&self.pool, action, change).await
    }
}

async fn durably<T>(
    pool: &SqlitePool,
    action: &'static str,
    change: impl AsyncFnOnce(&mut SqliteConnection) -> Result<T, sqlx::Error>,
) -> Result<T, LedgerError> {
    let mut connection = pool.acquire().await.map_err(sql(action))?;
    let full = sqlx::raw_sql("PRAGMA synchronous = FULL").execute(&mut *connection).await;
    let changed = match full {
        Ok(_) => change(&mut connection).await,
        Err(error) => Err(error),
    };
    // Always reset, because the connection is shared.
    let usual = sqlx::raw_sql("PRAGMA synchronous = NORMAL").execute(&mut *connection).await;
    if let Err(error) = usual {
        // Slower, but correct. The change itself is done.
        tracing::warn!(%error, "could not restore the flush mode of the ledger; it flushes every line");
    }
    changed.map_err(sql(action))
}

fn sql(action: &'static str) -> impl FnOnce(sqlx::Error) -> LedgerError {
    move |cause| LedgerError::Sql { action, cause }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod usage_tests;
