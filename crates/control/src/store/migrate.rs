//! Migrates a database to the current version in numbered steps. A released step is never edited.

use sqlx::sqlite::SqlitePool;

use super::{StoreError, failed, to_sql};

/// The steps. The first one creates version 1.
const STEPS: &[&str] = &[
    include_str!("0001_start.sql"),
    include_str!("0002_state.sql"),
    include_str!("0003_previews.sql"),
    include_str!("0004_attempts.sql"),
    include_str!("0005_audit.sql"),
    include_str!("0006_builds.sql"),
    include_str!("0007_webhooks.sql"),
    include_str!("0008_causes.sql"),
    include_str!("0009_terms.sql"),
    include_str!("0010_keys.sql"),
];

/// Runs the missing steps, each in its own transaction.
pub async fn migrate(pool: &SqlitePool, now_ns: u64) -> Result<(), StoreError> {
    let make = "CREATE TABLE IF NOT EXISTS schema_version (version BIGINT PRIMARY KEY, applied_at BIGINT NOT NULL)";
    sqlx::query(make).execute(pool).await.map_err(failed("create the version table"))?;
    let found: i64 = sqlx::query_scalar("SELECT COALESCE(MAX(version), 0) FROM schema_version")
        .fetch_one(pool)
        .await
        .map_err(failed("read the version"))?;
    let known = STEPS.len() as i64;
    if found > known {
        return Err(StoreError::TooNew { found, known });
    }
    for (version, step) in (1..).zip(STEPS).filter(|(version, _)| *version > found) {
        let mut tx = pool.begin().await.map_err(failed("begin a migration"))?;
        sqlx::raw_sql(*step).execute(&mut *tx).await.map_err(failed("migrate"))?;
        sqlx::query("INSERT INTO schema_version (version, applied_at) VALUES (?, ?)")
            .bind(version)
            .bind(to_sql(now_ns))
            .execute(&mut *tx)
            .await
            .map_err(failed("record the version"))?;
        tx.commit().await.map_err(failed("commit a migration"))?;
    }
    Ok(())
}
