//! What this host has, written down before it is made and after it is gone. SQLite with a write-ahead log: a killed process
//! loses nothing that was recorded. The only SQL of this room.

use std::path::Path;

use pandastack_model::{LayerId, MachineId, SandboxId};
use sqlx::{
    Row, SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};

/// Changing a table changes this; an unknown version is refused.
const VERSION: i64 = 1;

const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS machines (
    id      TEXT PRIMARY KEY,
    slot    TEXT NOT NULL,
    layer   TEXT NOT NULL,
    pid     INTEGER,
    sandbox TEXT,
    made_at INTEGER NOT NULL DEFAULT (unixepoch())
) STRICT";

/// The ledger cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    #[error("{action}")]
    Sql {
        action: &'static str,
        #[source]
        cause: sqlx::Error,
    },
    #[error("the ledger has version {found}, this build knows {VERSION}")]
    Version { found: i64 },
}

/// One machine's line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineRow {
    pub id: String,
    pub slot: String,
    pub pid: Option<u32>,
    pub sandbox: Option<String>,
}

/// The open ledger.
#[derive(Clone, Debug)]
pub struct Ledger {
    pool: SqlitePool,
}

impl Ledger {
    /// Opens or makes the ledger file.
    pub async fn open(file: &Path) -> Result<Self, LedgerError> {
        let options = SqliteConnectOptions::new()
            .filename(file)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Normal);
        // One connection: the ledger has one writer, and SQLite would only queue the others.
        let pool =
            SqlitePoolOptions::new().max_connections(1).connect_with(options).await.map_err(sql("open the ledger"))?;
        let found: i64 =
            sqlx::query_scalar("PRAGMA user_version").fetch_one(&pool).await.map_err(sql("read the version"))?;
        if found != 0 && found != VERSION {
            return Err(LedgerError::Version { found });
        }
        sqlx::query(SCHEMA).execute(&pool).await.map_err(sql("make the tables"))?;
        sqlx::query("PRAGMA user_version = 1").execute(&pool).await.map_err(sql("write the version"))?;
        Ok(Self { pool })
    }

    /// Records that a machine is about to be made.
    pub async fn intend(&self, id: MachineId, slot: &str, layer: LayerId) -> Result<(), LedgerError> {
        sqlx::query("INSERT INTO machines (id, slot, layer) VALUES (?, ?, ?)")
            .bind(id.to_string())
            .bind(slot)
            .bind(layer.to_string())
            .execute(&self.pool)
            .await
            .map_err(sql("record a machine"))?;
        Ok(())
    }

    /// Records the machine's process.
    pub async fn started(&self, id: MachineId, pid: Option<u32>) -> Result<(), LedgerError> {
        sqlx::query("UPDATE machines SET pid = ? WHERE id = ?")
            .bind(pid.map(i64::from))
            .bind(id.to_string())
            .execute(&self.pool)
            .await
            .map_err(sql("record a process"))?;
        Ok(())
    }

    /// Records which sandbox a machine serves from now on.
    pub async fn assigned(&self, id: MachineId, sandbox: SandboxId) -> Result<(), LedgerError> {
        sqlx::query("UPDATE machines SET sandbox = ? WHERE id = ?")
            .bind(sandbox.to_string())
            .bind(id.to_string())
            .execute(&self.pool)
            .await
            .map_err(sql("record a sandbox"))?;
        Ok(())
    }

    /// Records that everything of a machine is gone.
    pub async fn gone(&self, id: &str) -> Result<(), LedgerError> {
        sqlx::query("DELETE FROM machines WHERE id = ?")
            .bind(id)
            .execute(&self.pool)
            .await
            .map_err(sql("forget a machine"))?;
        Ok(())
    }

    /// Lists every machine recorded.
    pub async fn machines(&self) -> Result<Vec<MachineRow>, LedgerError> {
        let rows = sqlx::query("SELECT id, slot, pid, sandbox FROM machines ORDER BY made_at, id")
            .fetch_all(&self.pool)
            .await
            .map_err(sql("list machines"))?;
        let read = |row: &sqlx::sqlite::SqliteRow| -> Result<MachineRow, sqlx::Error> {
            Ok(MachineRow {
                id: row.try_get("id")?,
                slot: row.try_get("slot")?,
                pid: row.try_get::<Option<i64>, _>("pid")?.map(|pid| pid as u32),
                sandbox: row.try_get("sandbox")?,
            })
        };
        rows.iter().map(read).collect::<Result<_, _>>().map_err(sql("read machines"))
    }

    /// Closes the file.
    pub async fn close(&self) {
        self.pool.close().await;
    }
}

fn sql(action: &'static str) -> impl FnOnce(sqlx::Error) -> LedgerError {
    move |cause| LedgerError::Sql { action, cause }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_intended_is_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ledger.db");
        let (machine, sandbox) = (MachineId::random(), SandboxId::random());
        let ledger = Ledger::open(&file).await.unwrap();
        ledger.intend(machine, "slot-1", LayerId::random()).await.unwrap();
        ledger.started(machine, Some(42)).await.unwrap();
        ledger.assigned(machine, sandbox).await.unwrap();
        ledger.close().await;
        let ledger = Ledger::open(&file).await.unwrap();
        let rows = ledger.machines().await.unwrap();
        assert_eq!(rows.len(), 1);
        assert_eq!((rows[0].pid, rows[0].sandbox.clone()), (Some(42), Some(sandbox.to_string())));
        ledger.gone(&machine.to_string()).await.unwrap();
        ledger.gone(&machine.to_string()).await.unwrap();
        assert!(ledger.machines().await.unwrap().is_empty());
    }
}
