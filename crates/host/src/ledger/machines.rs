//! Machine processes, and the resources of each.

use pandastack_model::{LayerId, MachineId, SandboxId};
use sqlx::{Row, sqlite::SqliteRow};

use super::{Ledger, LedgerError, sql};

pub(super) const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS machines (
    id      TEXT PRIMARY KEY,
    slot    TEXT NOT NULL,
    layer   TEXT NOT NULL, -- empty until there is one
    pid     INTEGER,
    sandbox TEXT,
    made_at INTEGER NOT NULL DEFAULT (unixepoch())
) STRICT";

/// One machine's row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineRow {
    pub id: MachineId,
    /// Name of its network slot.
    pub slot: String,
    /// The layer it runs on. `None` while it waits for a layer.
    pub layer: Option<LayerId>,
    pub pid: Option<u32>,
    /// The sandbox it serves. `None` until it is assigned to one.
    pub sandbox: Option<SandboxId>,
}

impl Ledger {
    /// Records that a machine is about to be made, or that a waiting machine is about to get its
    /// layer.
    pub async fn intend(&self, id: MachineId, slot: &str, layer: Option<LayerId>) -> Result<(), LedgerError> {
        let intended = "INSERT INTO machines (id, slot, layer) VALUES (?, ?, ?)
                        ON CONFLICT (id) DO UPDATE SET layer = excluded.layer";
        sqlx::query(intended)
            .bind(id.to_string())
            .bind(slot)
            .bind(layer.map(|layer| layer.to_string()).unwrap_or_default())
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

    /// Records which sandbox a machine serves, and removes that sandbox from all other rows. The
    /// row of its last machine may still exist and must not be taken for this one.
    pub async fn assigned(&self, id: MachineId, sandbox: SandboxId) -> Result<(), LedgerError> {
        sqlx::query("UPDATE machines SET sandbox = iif(id = ?1, ?2, NULL) WHERE id = ?1 OR sandbox = ?2")
            .bind(id.to_string())
            .bind(sandbox.to_string())
            .execute(&self.pool)
            .await
            .map_err(sql("record a sandbox"))?;
        Ok(())
    }

    /// Records that everything of a machine is removed.
    pub async fn gone(&self, id: MachineId) -> Result<(), LedgerError> {
        sqlx::query("DELETE FROM machines WHERE id = ?")
            .bind(id.to_string())
            .execute(&self.pool)
            .await
            .map_err(sql("delete a machine"))?;
        Ok(())
    }

    /// Lists all recorded machines.
    pub async fn machines(&self) -> Result<Vec<MachineRow>, LedgerError> {
        let rows = sqlx::query("SELECT id, slot, layer, pid, sandbox FROM machines ORDER BY made_at, id")
            .fetch_all(&self.pool)
            .await
            .map_err(sql("list machines"))?;
        rows.iter().map(read).collect()
    }
}

fn read(row: &SqliteRow) -> Result<MachineRow, LedgerError> {
    let id: String = row.try_get("id").map_err(sql("read machines"))?;
    let corrupt = |field| LedgerError::Corrupt { id: id.clone(), field };
    let layer: String = row.try_get("layer").map_err(sql("read machines"))?;
    let sandbox: Option<String> = row.try_get("sandbox").map_err(sql("read machines"))?;
    let pid: Option<i64> = row.try_get("pid").map_err(sql("read machines"))?;
    Ok(MachineRow {
        id: id.parse().map_err(|_| corrupt("id"))?,
        slot: row.try_get("slot").map_err(sql("read machines"))?,
        layer: Some(layer)
            .filter(|layer| !layer.is_empty())
            .map(|layer| layer.parse())
            .transpose()
            .map_err(|_| corrupt("layer"))?,
        pid: pid.and_then(|pid| u32::try_from(pid).ok()),
        sandbox: sandbox.map(|id| id.parse()).transpose().map_err(|_| corrupt("sandbox"))?,
    })
}
