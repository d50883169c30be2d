//! Snapshots. A row is written before its layer and removed after it, so that every layer has a
//! row.

use pandastack_database::{DatabaseRow, query};
use pandastack_model::{ByteSize, LayerId, SandboxId, TemplateName};
use pandastack_wire_fleet::WorkspaceId;
use serde::{Deserialize, Serialize};

use super::{
    MachineSize, SandboxesAdded, Store, StoreError, failed, from_sql,
    intent::{column, read_size},
    to_sql,
};

/// A snapshot as it is stored. Its public id is the bare UUID of its layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotRow {
    pub layer: LayerId,
    pub workspace: WorkspaceId,
    pub sandbox: SandboxId,
    pub template: TemplateName,
    pub size: MachineSize,
    /// Bytes that only this snapshot uses.
    pub own: ByteSize,
    pub created_at_ns: u64,
    /// The volumes in it, in the order of its sandbox.
    pub volumes: Vec<SealedMount>,
}

/// A volume that was sealed with a sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedMount {
    pub name: String,
    pub path: String,
    pub read_only: bool,
    pub size: ByteSize,
}

impl SnapshotRow {
    /// Returns the public id.
    pub fn id(&self) -> String {
        self.layer.uuid().to_string()
    }
}

impl Store {
    /// Records a snapshot that is about to be made, unless the workspace reached its limit.
    pub async fn begin_snapshot(
        &self,
        snapshot: &SnapshotRow,
        snapshots_max: u64,
    ) -> Result<SandboxesAdded, StoreError> {
        let sql = "INSERT INTO snapshot (id, workspace, sandbox_id, template, layer, cpus, memory_mib, disk_mib,
                       size_bytes, created_at, volumes, status)
                   SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'making'
                   WHERE (SELECT COUNT(*) FROM snapshot WHERE workspace = ?) < ?";
        let SnapshotRow { layer, workspace, sandbox, template, size, own, created_at_ns, volumes } = snapshot;
        let mut tx = self.begin_in(workspace, "begin a snapshot").await?;
        let done = query(sql)
            .bind(snapshot.id())
            .bind(&workspace.0)
            .bind(sandbox.to_string())
            .bind(template.as_str())
            .bind(layer.to_string())
            .bind(i64::from(size.cpus))
            .bind(to_sql(size.memory_mib))
            .bind(to_sql(size.disk_mib))
            .bind(to_sql(own.get()))
            .bind(to_sql(*created_at_ns))
            .bind(serde_json::to_string(volumes).expect("a list of plain values is always JSON"))
            .bind(&workspace.0)
            .bind(to_sql(snapshots_max))
            .execute(&mut tx)
            .await
            .map_err(failed("begin a snapshot"))?;
        tx.commit().await.map_err(failed("commit a snapshot"))?;
        Ok(if done == 1 { SandboxesAdded::Yes } else { SandboxesAdded::Full })
    }

    /// Makes a finished snapshot visible.
    pub async fn finish_snapshot(&self, layer: LayerId, own: ByteSize) -> Result<(), StoreError> {
        query("UPDATE snapshot SET status = 'ready', size_bytes = ? WHERE layer = ?")
            .bind(to_sql(own.get()))
            .bind(layer.to_string())
            .execute(&self.database)
            .await
            .map(drop)
            .map_err(failed("finish a snapshot"))
    }

    /// Hides a snapshot that is about to be deleted. Returns false if there is none. A hidden one
    /// can be hidden again.
    pub async fn hide_snapshot(&self, workspace: &WorkspaceId, layer: LayerId) -> Result<bool, StoreError> {
        // An unfinished snapshot belongs to the request that makes it.
        let sql = "UPDATE snapshot SET status = 'deleting' WHERE layer = ? AND workspace = ? AND status <> 'making'";
        let done = query(sql)
            .bind(layer.to_string())
            .bind(&workspace.0)
            .execute(&self.database)
            .await
            .map_err(failed("mark a snapshot as deleting"))?;
        Ok(done == 1)
    }

    /// Removes the row of a snapshot after its layer was released.
    pub async fn forget_snapshot(&self, layer: LayerId) -> Result<(), StoreError> {
        query("DELETE FROM snapshot WHERE layer = ?")
            .bind(layer.to_string())
            .execute(&self.database)
            .await
            .map(drop)
            .map_err(failed("delete a snapshot"))
    }

    /// Finds one snapshot of a workspace.
    pub async fn find_snapshot(&self, workspace: &WorkspaceId, id: &str) -> Result<Option<SnapshotRow>, StoreError> {
        let row = query("SELECT * FROM snapshot WHERE id = ? AND workspace = ? AND status = 'ready'")
            .bind(id)
            .bind(&workspace.0)
            .fetch_optional(&self.database)
            .await
            .map_err(failed("find a snapshot"))?;
        row.as_ref().map(read).transpose()
    }

    /// Lists a workspace's snapshots, optionally of one sandbox, newest first.
    pub async fn list_snapshots(
        &self,
        workspace: &WorkspaceId,
        sandbox: Option<&str>,
    ) -> Result<Vec<SnapshotRow>, StoreError> {
        let sql = "SELECT * FROM snapshot WHERE workspace = ? AND status = 'ready' AND (? IS NULL OR sandbox_id = ?)
                   ORDER BY created_at DESC, id";
        let rows = query(sql)
            .bind(&workspace.0)
            .bind(sandbox)
            .bind(sandbox)
            .fetch_all(&self.database)
            .await
            .map_err(failed("list snapshots"))?;
        rows.iter().map(read).collect()
    }

    /// Lists the layers of snapshots that were being made or deleted when the server stopped.
    pub async fn unfinished_snapshots(&self) -> Result<Vec<LayerId>, StoreError> {
        let rows = query("SELECT * FROM snapshot WHERE status <> 'ready'")
            .fetch_all(&self.database)
            .await
            .map_err(failed("list unfinished snapshots"))?;
        rows.iter().map(|row| read(row).map(|snapshot| snapshot.layer)).collect()
    }
}

fn read(row: &DatabaseRow) -> Result<SnapshotRow, StoreError> {
    let id: String = column(row, "id")?;
    let corrupt = |field| StoreError::Corrupt { id: id.clone(), field };
    let text = |name| column::<String>(row, name);
    let number = |name| column::<i64>(row, name).map(from_sql);
    Ok(SnapshotRow {
        layer: text("layer")?.parse().map_err(|_| corrupt("layer"))?,
        workspace: WorkspaceId(text("workspace")?),
        sandbox: text("sandbox_id")?.parse().map_err(|_| corrupt("sandbox_id"))?,
        template: text("template")?.parse().map_err(|_| corrupt("template"))?,
        size: read_size(row)?,
        own: ByteSize::new(number("size_bytes")?),
        created_at_ns: number("created_at")?,
        volumes: serde_json::from_str(&text("volumes")?).map_err(|_| corrupt("volumes"))?,
    })
}
