//! Volumes: the names of disks in a workspace. A row is written before its disk and removed after
//! it.

use pandastack_model::{ByteSize, VolumeId};
use pandastack_wire_fleet::WorkspaceId;
use sqlx::sqlite::SqliteRow;

use super::{Store, StoreError, failed, from_sql, intent::column, to_sql};

/// A volume as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeRow {
    pub id: VolumeId,
    pub workspace: WorkspaceId,
    pub name: String,
    pub size: ByteSize,
    pub created_at_ns: u64,
}

/// The operation on a volume that a stop of the server interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnfinishedOperation {
    Make,
    Delete,
}

/// Bytes reserved for volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeBytes {
    /// Of one workspace.
    pub own: u64,
    /// Of all workspaces.
    pub all: u64,
}

/// Whether a volume's row was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumeAdded {
    Yes,
    /// The name is in use, perhaps by a volume that is being made or deleted.
    Taken,
    /// The workspace reached its limit.
    Full,
}

impl Store {
    /// Records a volume that is about to be made.
    pub async fn begin_volume(&self, volume: &VolumeRow, volumes_max: u64) -> Result<VolumeAdded, StoreError> {
        let VolumeRow { id, workspace, name, size, created_at_ns } = volume;
        let mut tx = self.pool.begin_with("BEGIN IMMEDIATE").await.map_err(failed("begin a volume"))?;
        let held: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM volume WHERE workspace = ?")
            .bind(&workspace.0)
            .fetch_one(&mut *tx)
            .await
            .map_err(failed("count volumes"))?;
        let sql =
            "INSERT INTO volume (id, workspace, name, size_bytes, created_at, status) VALUES (?, ?, ?, ?, ?, 'making')
                   ON CONFLICT (workspace, name) DO NOTHING";
        let done = sqlx::query(sql)
            .bind(id.to_string())
            .bind(&workspace.0)
            .bind(name)
            .bind(to_sql(size.get()))
            .bind(to_sql(*created_at_ns))
            .execute(&mut *tx)
            .await
            .map_err(failed("record a volume"))?;
        if done.rows_affected() == 0 {
            return Ok(VolumeAdded::Taken);
        }
        if from_sql(held) >= volumes_max {
            return Ok(VolumeAdded::Full);
        }
        tx.commit().await.map_err(failed("commit a volume"))?;
        Ok(VolumeAdded::Yes)
    }

    /// Makes a volume visible and records its size. Volumes only grow, so a smaller size is
    /// outdated and ignored.
    pub async fn show_volume(&self, id: VolumeId, size: ByteSize) -> Result<(), StoreError> {
        sqlx::query("UPDATE volume SET status = 'ready', size_bytes = max(size_bytes, ?) WHERE id = ?")
            .bind(to_sql(size.get()))
            .bind(id.to_string())
            .execute(&self.pool)
            .await
            .map(drop)
            .map_err(failed("mark a volume as ready"))
    }

    /// Hides a volume that is about to be deleted.
    pub async fn hide_volume(&self, id: VolumeId) -> Result<(), StoreError> {
        sqlx::query("UPDATE volume SET status = 'deleting' WHERE id = ?")
            .bind(id.to_string())
            .execute(&self.pool)
            .await
            .map(drop)
            .map_err(failed("mark a volume as deleting"))
    }

    /// Removes the row of a volume after its disk was removed.
    pub async fn forget_volume(&self, id: VolumeId) -> Result<(), StoreError> {
        sqlx::query("DELETE FROM volume WHERE id = ?")
            .bind(id.to_string())
            .execute(&self.pool)
            .await
            .map(drop)
            .map_err(failed("delete a volume"))
    }

    /// Sums the bytes reserved for volumes of one workspace and of all.
    pub async fn volume_bytes(&self, workspace: &WorkspaceId) -> Result<VolumeBytes, StoreError> {
        let sql = "SELECT COALESCE(SUM(size_bytes) FILTER (WHERE workspace = ?), 0) AS own,
                          COALESCE(SUM(size_bytes), 0) AS total FROM volume";
        let row = sqlx::query(sql)
            .bind(&workspace.0)
            .fetch_one(&self.pool)
            .await
            .map_err(failed("sum the sizes of volumes"))?;
        Ok(VolumeBytes { own: column(&row, "own").map(from_sql)?, all: column(&row, "total").map(from_sql)? })
    }

    /// Finds one volume of a workspace.
    pub async fn find_volume(&self, workspace: &WorkspaceId, name: &str) -> Result<Option<VolumeRow>, StoreError> {
        let row = sqlx::query("SELECT * FROM volume WHERE workspace = ? AND name = ? AND status = 'ready'")
            .bind(&workspace.0)
            .bind(name)
            .fetch_optional(&self.pool)
            .await
            .map_err(failed("find a volume"))?;
        row.as_ref().map(read).transpose()
    }

    /// Lists a workspace's volumes by name.
    pub async fn list_volumes(&self, workspace: &WorkspaceId) -> Result<Vec<VolumeRow>, StoreError> {
        let rows = sqlx::query("SELECT * FROM volume WHERE workspace = ? AND status = 'ready' ORDER BY name")
            .bind(&workspace.0)
            .fetch_all(&self.pool)
            .await
            .map_err(failed("list volumes"))?;
        rows.iter().map(read).collect()
    }

    /// Lists the volumes that were being made or deleted when the server stopped.
    pub async fn unfinished_volumes(&self) -> Result<Vec<(VolumeRow, UnfinishedOperation)>, StoreError> {
        let rows = sqlx::query("SELECT * FROM volume WHERE status <> 'ready'")
            .fetch_all(&self.pool)
            .await
            .map_err(failed("list unfinished volumes"))?;
        let unfinished = |row| {
            let status: String = column(row, "status")?;
            let unfinished = if status == "deleting" { UnfinishedOperation::Delete } else { UnfinishedOperation::Make };
            Ok((read(row)?, unfinished))
        };
        rows.iter().map(unfinished).collect()
    }
}

fn read(row: &SqliteRow) -> Result<VolumeRow, StoreError> {
    let id: String = column(row, "id")?;
    Ok(VolumeRow {
        id: id.parse().map_err(|_| StoreError::Corrupt { id, field: "id" })?,
        workspace: WorkspaceId(column(row, "workspace")?),
        name: column(row, "name")?,
        size: ByteSize::new(column(row, "size_bytes").map(from_sql)?),
        created_at_ns: column(row, "created_at").map(from_sql)?,
    })
}
