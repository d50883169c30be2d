//! Layers that were sealed on this host. A layer is used by the machines that run on it, by the
//! sandbox that sleeps in it, and by its owner while it is kept. Without users its data can be
//! removed.

use std::collections::HashSet;

use pandastack_model::{LayerId, SandboxId};
use pandastack_wire_fleet::LayerHold;
use sqlx::{Row, sqlite::SqliteRow};

use super::{Ledger, LedgerError, sql};

pub(super) const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS layers (
    id      TEXT PRIMARY KEY,
    hold    TEXT NOT NULL CHECK (hold IN ('kept', 'passing')),
    source  TEXT NOT NULL,
    made_at INTEGER NOT NULL DEFAULT (unixepoch())
) STRICT";

/// One layer's row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerRow {
    pub id: LayerId,
    pub hold: LayerHold,
    /// The sandbox that was sealed.
    pub source: SandboxId,
}

impl Ledger {
    /// Records that a layer is about to be made.
    pub async fn sealing(&self, id: LayerId, source: SandboxId) -> Result<(), LedgerError> {
        sqlx::query("INSERT INTO layers (id, hold, source) VALUES (?, 'passing', ?) ON CONFLICT (id) DO NOTHING")
            .bind(id.to_string())
            .bind(source.to_string())
            .execute(&self.pool)
            .await
            .map_err(sql("record a layer"))?;
        Ok(())
    }

    /// Records durably that the owner keeps a layer.
    pub async fn keep(&self, id: LayerId) -> Result<(), LedgerError> {
        self.durably("mark a layer as kept", async |connection| {
            let kept = sqlx::query("UPDATE layers SET hold = 'kept' WHERE id = ?").bind(id.to_string());
            kept.execute(connection).await.map(drop)
        })
        .await
    }

    /// Records that the owner has given up a layer.
    pub async fn unkeep(&self, id: LayerId) -> Result<(), LedgerError> {
        sqlx::query("UPDATE layers SET hold = 'passing' WHERE id = ?")
            .bind(id.to_string())
            .execute(&self.pool)
            .await
            .map_err(sql("release a layer"))?;
        Ok(())
    }

    /// Records that a layer is removed.
    pub async fn layer_gone(&self, id: LayerId) -> Result<(), LedgerError> {
        sqlx::query("DELETE FROM layers WHERE id = ?")
            .bind(id.to_string())
            .execute(&self.pool)
            .await
            .map_err(sql("delete a layer"))?;
        Ok(())
    }

    /// Finds one layer.
    pub async fn layer(&self, id: LayerId) -> Result<Option<LayerRow>, LedgerError> {
        let row = sqlx::query("SELECT * FROM layers WHERE id = ?")
            .bind(id.to_string())
            .fetch_optional(&self.pool)
            .await
            .map_err(sql("find a layer"))?;
        row.as_ref().map(read).transpose()
    }

    /// Lists all recorded layers.
    pub async fn layers(&self) -> Result<Vec<LayerRow>, LedgerError> {
        let rows = sqlx::query("SELECT * FROM layers ORDER BY made_at, id")
            .fetch_all(&self.pool)
            .await
            .map_err(sql("list layers"))?;
        rows.iter().map(read).collect()
    }

    /// Lists all layers that this ledger needs: recorded layers, and layers of templates that
    /// machines run on. A machine's process may outlive the server that wrote its row.
    pub async fn needed_layers(&self) -> Result<HashSet<LayerId>, LedgerError> {
        let recorded = self.layers().await?.into_iter().map(|row| row.id);
        let run_on = self.machines().await?.into_iter().filter_map(|row| row.layer);
        Ok(recorded.chain(run_on).collect())
    }

    /// Lists the layers that no machine runs on, no sandbox sleeps in and no owner keeps.
    pub async fn unused_layers(&self) -> Result<Vec<LayerId>, LedgerError> {
        self.unused(None).await
    }

    /// Returns whether a layer is recorded and unused.
    pub async fn is_unused(&self, id: LayerId) -> Result<bool, LedgerError> {
        Ok(!self.unused(Some(id)).await?.is_empty())
    }

    async fn unused(&self, only: Option<LayerId>) -> Result<Vec<LayerId>, LedgerError> {
        let unused = "SELECT * FROM layers WHERE hold = 'passing' AND (?1 IS NULL OR id = ?1)
                      AND id NOT IN (SELECT layer FROM machines)
                      AND id NOT IN (SELECT layer FROM sandboxes WHERE layer IS NOT NULL)";
        let rows = sqlx::query(unused).bind(only.map(|id| id.to_string())).fetch_all(&self.pool).await;
        rows.map_err(sql("look for unused layers"))?.iter().map(|row| read(row).map(|row| row.id)).collect()
    }
}

fn read(row: &SqliteRow) -> Result<LayerRow, LedgerError> {
    let text = |name| row.try_get::<String, _>(name).map_err(sql("read layers"));
    let id = text("id")?;
    let corrupt = |field| LedgerError::Corrupt { id: id.clone(), field };
    Ok(LayerRow {
        id: id.parse().map_err(|_| corrupt("id"))?,
        hold: if text("hold")? == "kept" { LayerHold::Kept } else { LayerHold::Passing },
        source: text("source")?.parse().map_err(|_| corrupt("source"))?,
    })
}
