//! Transactions. One that is dropped without a commit is rolled back.

use sqlx::{AssertSqlSafe, Postgres, Sqlite};

use crate::{Database, DatabaseError, WriteLock, pool::DriverPool};

/// An open transaction.
pub struct Transaction(pub(crate) DriverTransaction);

pub(crate) enum DriverTransaction {
    Sqlite(sqlx::Transaction<'static, Sqlite>),
    Postgres(sqlx::Transaction<'static, Postgres>),
}

impl Database {
    /// Begins a transaction whose first statement writes.
    pub async fn begin(&self) -> Result<Transaction, DatabaseError> {
        Ok(Transaction(match &self.pool {
            DriverPool::Sqlite(pool) => DriverTransaction::Sqlite(pool.begin().await?),
            DriverPool::Postgres(pool) => {
                let pool = pool.clone();
                DriverTransaction::Postgres(to_its_end(async move { pool.begin().await }).await?)
            }
        }))
    }

    /// Begins a transaction that reads, decides and writes. No other one with the same lock runs
    /// meanwhile, on any server.
    pub async fn begin_write(&self, lock: WriteLock<'_>) -> Result<Transaction, DatabaseError> {
        Ok(Transaction(match &self.pool {
            // Take the write lock at once: a transaction that reads first fails, instead of
            // waiting, while another writer is active.
            DriverPool::Sqlite(pool) => DriverTransaction::Sqlite(pool.begin_with("BEGIN IMMEDIATE").await?),
            DriverPool::Postgres(pool) => {
                // One round trip for both.
                let begin = format!("BEGIN; SELECT pg_advisory_xact_lock({})", lock.number());
                let pool = pool.clone();
                let begun = to_its_end(async move { pool.begin_with(AssertSqlSafe(begin)).await });
                DriverTransaction::Postgres(begun.await?)
            }
        }))
    }
}

/// Begins in a task of its own. If a caller stopped waiting in the middle, sqlx would not know that
/// the connection is in a transaction, and would give it to the next caller with its locks.
#[expect(clippy::disallowed_methods, reason = "the task ends with one statement, and a pool has no scope")]
async fn to_its_end<T: Send + 'static>(
    begin: impl Future<Output = Result<T, sqlx::Error>> + Send + 'static,
) -> Result<T, sqlx::Error> {
    tokio::spawn(begin).await.unwrap_or(Err(sqlx::Error::WorkerCrashed))
}

impl Transaction {
    /// Takes one more lock until the end of the transaction. Locks must be taken in one order by
    /// all who take two.
    pub async fn lock(&mut self, lock: WriteLock<'_>) -> Result<(), DatabaseError> {
        match &mut self.0 {
            // SQLite has one writer at a time.
            DriverTransaction::Sqlite(_) => {}
            DriverTransaction::Postgres(tx) => {
                let sql = format!("SELECT pg_advisory_xact_lock({})", lock.number());
                sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut **tx).await?;
            }
        }
        Ok(())
    }

    pub async fn commit(self) -> Result<(), DatabaseError> {
        match self.0 {
            DriverTransaction::Sqlite(tx) => Ok(tx.commit().await?),
            DriverTransaction::Postgres(tx) => Ok(tx.commit().await?),
        }
    }
}
