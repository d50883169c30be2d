//! Brings a database to the program's version in numbered steps. A released step is never edited.

use sqlx::AssertSqlSafe;

use crate::{
    Database, DatabaseError, Transaction, WriteLock, query, query_scalar, sql::schema_for_postgres,
    transaction::DriverTransaction,
};

/// The steps of a schema. The first one makes version 1.
#[derive(Clone, Copy)]
pub struct Schema {
    pub steps: &'static [&'static str],
}

/// Why a database could not be brought to the program's version.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    #[error("the database has version {found}, but this program supports only up to {known}; use a newer program")]
    TooNew { found: i64, known: i64 },
    #[error("{attempted}")]
    Query {
        attempted: &'static str,
        #[source]
        cause: DatabaseError,
    },
}

impl Schema {
    /// The version that this program writes.
    pub fn version(self) -> i64 {
        i64::try_from(self.steps.len()).unwrap_or(i64::MAX)
    }

    /// Runs the missing steps, each in its own transaction. Several servers may do it at once.
    pub async fn migrate(self, database: &Database, now_ns: i64) -> Result<(), MigrateError> {
        let lock = WriteLock::on_all("schema");
        let mut tx = database.begin_write(lock).await.map_err(failed("begin a migration"))?;
        let make = "CREATE TABLE IF NOT EXISTS schema_version (version BIGINT PRIMARY KEY, applied_at BIGINT NOT NULL)";
        query(make).execute(&mut tx).await.map_err(failed("create the version table"))?;
        tx.commit().await.map_err(failed("commit the version table"))?;
        for (version, step) in (1..).zip(self.steps) {
            let mut tx = database.begin_write(lock).await.map_err(failed("begin a migration"))?;
            // Another server may have run the step meanwhile.
            let found: i64 = query_scalar("SELECT COALESCE(MAX(version), 0) FROM schema_version")
                .fetch_one(&mut tx)
                .await
                .map_err(failed("read the version"))?;
            if found > self.version() {
                return Err(MigrateError::TooNew { found, known: self.version() });
            }
            if found >= version {
                continue;
            }
            run(&mut tx, step).await.map_err(failed("migrate"))?;
            query("INSERT INTO schema_version (version, applied_at) VALUES (?, ?)")
                .bind(version)
                .bind(now_ns)
                .execute(&mut tx)
                .await
                .map_err(failed("record the version"))?;
            tx.commit().await.map_err(failed("commit a migration"))?;
        }
        Ok(())
    }
}

async fn run(tx: &mut Transaction, step: &'static str) -> Result<(), DatabaseError> {
    match &mut tx.0 {
        DriverTransaction::Sqlite(tx) => sqlx::raw_sql(step).execute(&mut **tx).await.map(drop)?,
        DriverTransaction::Postgres(tx) => {
            sqlx::raw_sql(AssertSqlSafe(schema_for_postgres(step))).execute(&mut **tx).await.map(drop)?;
        }
    }
    Ok(())
}

fn failed(attempted: &'static str) -> impl Fn(DatabaseError) -> MigrateError {
    move |cause| MigrateError::Query { attempted, cause }
}
