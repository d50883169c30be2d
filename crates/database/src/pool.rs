//! The connections of a database.

use std::{fs, io, os::unix::fs::OpenOptionsExt, path::Path, str::FromStr, time::Duration};

use sqlx::{
    Connection,
    postgres::{PgConnectOptions, PgPool, PgPoolOptions},
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous},
};

use crate::{DatabaseAddress, DatabaseError, PostgresUrl};

/// A database. Clones share their connections.
#[derive(Clone)]
pub struct Database {
    pub(crate) pool: DriverPool,
}

#[derive(Clone)]
pub(crate) enum DriverPool {
    Sqlite(SqlitePool),
    Postgres(PgPool),
}

/// Limits of the connections.
#[derive(Clone, Copy, Debug)]
pub struct PoolSettings {
    pub connections_max: u32,
    /// How long a statement waits for another writer, and a caller for a connection.
    pub busy_max: Duration,
    /// How long a statement may take on a server.
    pub statement_max: Duration,
}

impl Database {
    /// Opens a database. Makes the file if there is none; a server must have the database.
    pub async fn open(address: &DatabaseAddress, settings: PoolSettings) -> Result<Self, DatabaseError> {
        let pool = match address {
            DatabaseAddress::File(path) => DriverPool::Sqlite(open_file(path, settings).await?),
            DatabaseAddress::Server(url) => DriverPool::Postgres(open_server(url, settings).await?),
        };
        Ok(Self { pool })
    }

    /// Returns whether the database is a server that others may use at the same time.
    pub fn is_server(&self) -> bool {
        matches!(self.pool, DriverPool::Postgres(_))
    }

    /// Checks that the database responds.
    pub async fn ping(&self) -> Result<(), DatabaseError> {
        crate::query("SELECT 1").execute(self).await.map(drop)
    }

    /// Closes every connection.
    pub async fn close(&self) {
        match &self.pool {
            DriverPool::Sqlite(pool) => pool.close().await,
            DriverPool::Postgres(pool) => pool.close().await,
        }
    }
}

async fn open_file(path: &Path, settings: PoolSettings) -> Result<SqlitePool, DatabaseError> {
    // The file contains users' secrets, so only its owner may read it. SQLite uses the umask.
    fs::OpenOptions::new().append(true).create(true).mode(0o600).open(path).map_err(|cause| {
        let text = format!("create the file {}: {cause}", path.display());
        sqlx::Error::Io(io::Error::new(cause.kind(), text))
    })?;
    let options = SqliteConnectOptions::new()
        .filename(path)
        .journal_mode(SqliteJournalMode::Wal)
        // A confirmed change must survive a power failure.
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(settings.busy_max)
        .foreign_keys(true);
    // After a failed commit on a full disk, sqlx believes that the connection is still in a
    // transaction. Its next transaction would block all other writers, so it is closed.
    let pool = SqlitePoolOptions::new().max_connections(settings.connections_max).after_release(|connection, _| {
        Box::pin(async move {
            // The ping returns after a dropped transaction was rolled back.
            connection.ping().await?;
            Ok(!connection.is_in_transaction())
        })
    });
    Ok(pool.connect_with(options).await?)
}

async fn open_server(url: &PostgresUrl, settings: PoolSettings) -> Result<PgPool, DatabaseError> {
    let milliseconds = |limit: Duration| limit.as_millis().to_string();
    let options = PgConnectOptions::from_str(url.expose())?.application_name("pandastack").options([
        ("lock_timeout", milliseconds(settings.busy_max)),
        ("statement_timeout", milliseconds(settings.statement_max)),
        // A server that died inside a transaction must not hold its locks for ever.
        ("idle_in_transaction_session_timeout", milliseconds(settings.statement_max)),
    ]);
    let pool = PgPoolOptions::new().max_connections(settings.connections_max).acquire_timeout(settings.busy_max);
    Ok(pool.connect_with(options).await?)
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    };

    use super::*;

    const CONNECTIONS: u32 = 4;

    #[tokio::test]
    async fn a_connection_whose_commit_failed_is_not_used_again() {
        let (folder, long) = (tempfile::tempdir().unwrap(), Duration::from_secs(60));
        let settings = PoolSettings { connections_max: CONNECTIONS, busy_max: long, statement_max: long };
        let pool = open_file(&folder.path().join("test.db"), settings).await.unwrap();
        let fails = Arc::new(AtomicBool::new(true));
        let mut all = Vec::new();
        for _ in 0..CONNECTIONS {
            let (mut connection, fails) = (pool.acquire().await.unwrap(), fails.clone());
            connection.lock_handle().await.unwrap().set_commit_hook(move || !fails.swap(false, Ordering::Relaxed));
            all.push(connection);
        }
        drop(all);
        // Connections return to the pool asynchronously.
        let rests = async || {
            while pool.num_idle() < pool.size() as usize {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        rests().await;
        let write = async || {
            let mut tx = pool.begin_with("BEGIN IMMEDIATE").await?;
            sqlx::query("CREATE TABLE IF NOT EXISTS written (number INTEGER)").execute(&mut *tx).await?;
            tx.commit().await
        };
        write().await.expect_err("the commit is refused");
        rests().await;
        for _ in 0..CONNECTIONS {
            write().await.unwrap();
        }
    }
}
