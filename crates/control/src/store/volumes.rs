//! Volumes: the names of disks in a workspace. A row is written before its disk and removed after
//! it.

use pandastack_database::{DatabaseRow, Transaction, WriteLock, query, query_scalar};
use pandastack_model::{ByteSize, SandboxId, SandboxOrigin, VolumeId};
use pandastack_wire_fleet::{Caller, WorkspaceId};

use super::{
    Intent, Store, StoreError, failed, from_sql,
    intent::{column, read_intent, volumes_to_sql},
    to_sql,
    usage::{UsageSubject, add_subject, end_subject, note_volume_size},
};

/// A volume as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeRow {
    pub id: VolumeId,
    pub workspace: WorkspaceId,
    pub name: String,
    pub size: ByteSize,
    pub created_at_ns: u64,
    /// The sandbox that it was copied for. It is deleted with that sandbox.
    pub sandbox: Option<SandboxId>,
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
    pub async fn begin_volume(
        &self,
        caller: &Caller,
        volume: &VolumeRow,
        volumes_max: u64,
    ) -> Result<VolumeAdded, StoreError> {
        let workspace = &volume.workspace;
        let mut tx = self.begin_in(workspace, "begin a volume").await?;
        let held: i64 = query_scalar("SELECT COUNT(*) FROM volume WHERE workspace = ?")
            .bind(&workspace.0)
            .fetch_one(&mut tx)
            .await
            .map_err(failed("count volumes"))?;
        if !insert(&mut tx, volume).await? {
            return Ok(VolumeAdded::Taken);
        }
        if from_sql(held) >= volumes_max {
            return Ok(VolumeAdded::Full);
        }
        add_subject(&mut tx, caller, UsageSubject::Volume(volume)).await?;
        tx.commit().await.map_err(failed("commit a volume"))?;
        Ok(VolumeAdded::Yes)
    }

    /// Makes a volume visible and records its size. Volumes only grow, so a smaller size is
    /// outdated and ignored.
    pub async fn show_volume(&self, id: VolumeId, size: ByteSize, now_ns: u64) -> Result<(), StoreError> {
        let mut tx = self.begin_on_volume(id, "begin to show a volume").await?;
        query(
            "UPDATE volume SET status = 'ready', size_bytes = CASE WHEN size_bytes < ?1 THEN ?1 ELSE size_bytes END
                   WHERE id = ?2",
        )
        .bind(to_sql(size.get()))
        .bind(id.to_string())
        .execute(&mut tx)
        .await
        .map_err(failed("mark a volume as ready"))?;
        note_volume_size(&mut tx, id, size, now_ns).await?;
        tx.commit().await.map_err(failed("commit a volume's size"))
    }

    /// Records that a volume has grown. A smaller size is outdated and ignored; so is a volume that
    /// is gone.
    pub async fn resize_volume(&self, id: VolumeId, size: ByteSize, now_ns: u64) -> Result<(), StoreError> {
        let mut tx = self.begin_on_volume(id, "begin to resize a volume").await?;
        let sql = "UPDATE volume SET size_bytes = CASE WHEN size_bytes < ?1 THEN ?1 ELSE size_bytes END WHERE id = ?2";
        let known = query(sql)
            .bind(to_sql(size.get()))
            .bind(id.to_string())
            .execute(&mut tx)
            .await
            .map_err(failed("record a volume's size"))?;
        if known > 0 {
            note_volume_size(&mut tx, id, size, now_ns).await?;
        }
        tx.commit().await.map_err(failed("commit a volume's size"))
    }

    /// Counts a volume with another size than it has, as long as nobody else changed it.
    pub async fn reserve_volume(&self, id: VolumeId, (from, to): (ByteSize, ByteSize)) -> Result<(), StoreError> {
        query("UPDATE volume SET size_bytes = ? WHERE id = ? AND size_bytes = ?")
            .bind(to_sql(to.get()))
            .bind(id.to_string())
            .bind(to_sql(from.get()))
            .execute(&self.database)
            .await
            .map(drop)
            .map_err(failed("reserve space for a volume"))
    }

    /// Counts a workspace's volumes, those being made or deleted included.
    pub async fn count_volumes(&self, workspace: &WorkspaceId) -> Result<u64, StoreError> {
        query_scalar::<i64>("SELECT COUNT(*) FROM volume WHERE workspace = ?")
            .bind(&workspace.0)
            .fetch_one(&self.database)
            .await
            .map(from_sql)
            .map_err(failed("count volumes"))
    }

    async fn begin_on_volume(&self, id: VolumeId, attempted: &'static str) -> Result<Transaction, StoreError> {
        self.database.begin_write(WriteLock::on("volume", &id.to_string())).await.map_err(failed(attempted))
    }

    /// Hides a volume that is about to be deleted.
    pub async fn hide_volume(&self, id: VolumeId) -> Result<(), StoreError> {
        query("UPDATE volume SET status = 'deleting' WHERE id = ?")
            .bind(id.to_string())
            .execute(&self.database)
            .await
            .map(drop)
            .map_err(failed("mark a volume as deleting"))
    }

    /// Removes the row of a volume after its disk was removed.
    pub async fn forget_volume(&self, id: VolumeId, now_ns: u64) -> Result<(), StoreError> {
        let mut tx = self.begin_on_volume(id, "begin to delete a volume").await?;
        query("DELETE FROM volume WHERE id = ?")
            .bind(id.to_string())
            .execute(&mut tx)
            .await
            .map_err(failed("delete a volume"))?;
        end_subject(&mut tx, &id.to_string(), now_ns).await?;
        tx.commit().await.map_err(failed("commit a deleted volume"))
    }

    /// Sums the bytes reserved for volumes of one workspace and of all.
    pub async fn volume_bytes(&self, workspace: &WorkspaceId) -> Result<VolumeBytes, StoreError> {
        let sql = "SELECT CAST(COALESCE(SUM(size_bytes) FILTER (WHERE workspace = ?), 0) AS BIGINT) AS own,
                          CAST(COALESCE(SUM(size_bytes), 0) AS BIGINT) AS total FROM volume";
        let row = query(sql)
            .bind(&workspace.0)
            .fetch_one(&self.database)
            .await
            .map_err(failed("sum the sizes of volumes"))?;
        Ok(VolumeBytes { own: column(&row, "own").map(from_sql)?, all: column(&row, "total").map(from_sql)? })
    }

    /// Finds one volume of a workspace.
    pub async fn find_volume(&self, workspace: &WorkspaceId, name: &str) -> Result<Option<VolumeRow>, StoreError> {
        let row = query("SELECT * FROM volume WHERE workspace = ? AND name = ? AND status = 'ready'")
            .bind(&workspace.0)
            .bind(name)
            .fetch_optional(&self.database)
            .await
            .map_err(failed("find a volume"))?;
        row.as_ref().map(read).transpose()
    }

    /// Lists a workspace's volumes by name.
    pub async fn list_volumes(&self, workspace: &WorkspaceId) -> Result<Vec<VolumeRow>, StoreError> {
        let rows = query("SELECT * FROM volume WHERE workspace = ? AND status = 'ready' ORDER BY name")
            .bind(&workspace.0)
            .fetch_all(&self.database)
            .await
            .map_err(failed("list volumes"))?;
        rows.iter().map(read).collect()
    }

    /// Lists the volumes whose sandbox is gone.
    pub async fn abandoned_volumes(&self) -> Result<Vec<VolumeId>, StoreError> {
        let sql = "SELECT * FROM volume WHERE sandbox_id IS NOT NULL
                       AND NOT EXISTS (SELECT 1 FROM sandbox WHERE sandbox.id = volume.sandbox_id)";
        let rows = query(sql).fetch_all(&self.database).await.map_err(failed("list abandoned volumes"))?;
        rows.iter().map(|row| read(row).map(|volume| volume.id)).collect()
    }

    /// Lists the volumes that were being made or deleted when the server stopped.
    pub async fn unfinished_volumes(&self) -> Result<Vec<(VolumeRow, UnfinishedOperation)>, StoreError> {
        let rows = query("SELECT * FROM volume WHERE status <> 'ready'")
            .fetch_all(&self.database)
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

/// Inserts a row. Returns false if the name is in use.
async fn insert(tx: &mut Transaction, volume: &VolumeRow) -> Result<bool, StoreError> {
    let VolumeRow { id, workspace, name, size, created_at_ns, sandbox } = volume;
    let sql = "INSERT INTO volume (id, workspace, name, size_bytes, created_at, sandbox_id, status)
               VALUES (?, ?, ?, ?, ?, ?, 'making') ON CONFLICT (workspace, name) DO NOTHING";
    let done = query(sql)
        .bind(id.to_string())
        .bind(&workspace.0)
        .bind(name)
        .bind(to_sql(size.get()))
        .bind(to_sql(*created_at_ns))
        .bind(sandbox.map(|sandbox| sandbox.to_string()))
        .execute(tx)
        .await
        .map_err(failed("record a volume"))?;
    Ok(done == 1)
}

/// Records a volume that is about to be copied for a sandbox, in the transaction that records the
/// sandbox. Returns false if the name is in use.
pub(super) async fn add_copy(tx: &mut Transaction, caller: &Caller, copy: &VolumeRow) -> Result<bool, StoreError> {
    if !insert(tx, copy).await? {
        return Ok(false);
    }
    add_subject(tx, caller, UsageSubject::Volume(copy)).await?;
    Ok(true)
}

/// Records a volume that the host has already. Returns false if the name is in use.
pub(super) async fn add_present(
    tx: &mut Transaction,
    caller: &Caller,
    volume: &VolumeRow,
    now_ns: u64,
) -> Result<bool, StoreError> {
    if !insert(tx, volume).await? {
        return Ok(false);
    }
    query("UPDATE volume SET status = 'ready' WHERE id = ?")
        .bind(volume.id.to_string())
        .execute(&mut *tx)
        .await
        .map_err(failed("show a volume that the host has"))?;
    // Its past belongs to nobody.
    let counted = VolumeRow { created_at_ns: now_ns, ..volume.clone() };
    add_subject(tx, caller, UsageSubject::Volume(&counted)).await?;
    note_volume_size(tx, volume.id, volume.size, now_ns).await?;
    Ok(true)
}

/// Makes volumes independent of the sandboxes that they were copied for, in the transaction that
/// shows another sandbox with them. They are no longer deleted with the first.
pub(super) async fn disown_shared(tx: &mut Transaction, sandbox: SandboxId) -> Result<(), StoreError> {
    let row = query("SELECT * FROM sandbox WHERE id = ?")
        .bind(sandbox.to_string())
        .fetch_optional(&mut *tx)
        .await
        .map_err(failed("find the volumes of a sandbox"))?;
    let Some(row) = row else { return Ok(()) };
    for mount in read_intent(&row)?.spec.volumes {
        query("UPDATE volume SET sandbox_id = NULL WHERE id = ? AND status = 'ready' AND sandbox_id <> ?")
            .bind(mount.volume.to_string())
            .bind(sandbox.to_string())
            .execute(&mut *tx)
            .await
            .map_err(failed("make a volume independent of its sandbox"))?;
        query("UPDATE usage_subject SET of_sandbox = NULL WHERE id = ? AND of_sandbox <> ?")
            .bind(mount.volume.to_string())
            .bind(sandbox.to_string())
            .execute(&mut *tx)
            .await
            .map_err(failed("report a volume's usage on its own"))?;
    }
    Ok(())
}

/// Shows the volumes that were copied for a sandbox, in the transaction that shows the sandbox.
pub(super) async fn show_copies(tx: &mut Transaction, sandbox: SandboxId, now_ns: u64) -> Result<(), StoreError> {
    let rows = query("SELECT * FROM volume WHERE sandbox_id = ? AND status = 'making'")
        .bind(sandbox.to_string())
        .fetch_all(&mut *tx)
        .await
        .map_err(failed("find the volumes of a sandbox"))?;
    if rows.is_empty() {
        return Ok(());
    }
    query("UPDATE volume SET status = 'ready' WHERE sandbox_id = ? AND status = 'making'")
        .bind(sandbox.to_string())
        .execute(&mut *tx)
        .await
        .map_err(failed("mark the volumes of a sandbox as ready"))?;
    for row in &rows {
        let volume = read(row)?;
        note_volume_size(tx, volume.id, volume.size, now_ns).await?;
    }
    Ok(())
}

/// Hides the volumes that were copied for a sandbox, in the transaction that deletes the sandbox.
pub(super) async fn hide_copies(tx: &mut Transaction, sandbox: SandboxId) -> Result<(), StoreError> {
    query("UPDATE volume SET status = 'deleting' WHERE sandbox_id = ?")
        .bind(sandbox.to_string())
        .execute(tx)
        .await
        .map(drop)
        .map_err(failed("mark the volumes of a sandbox as deleting"))
}

impl Store {
    /// Records that a sandbox gets another machine, with another volume if one is given. Its row
    /// says `failed` until the machine runs. Returns false if the sandbox is gone.
    pub async fn begin_rebuild(
        &self,
        caller: &Caller,
        intent: &Intent,
        volume: Option<&VolumeRow>,
    ) -> Result<bool, StoreError> {
        let mut tx = self.begin_for(intent.id, "begin a rebuild").await?;
        let layer = match intent.spec.origin {
            SandboxOrigin::Template => None,
            SandboxOrigin::Layer(layer) => Some(layer.to_string()),
        };
        let sql = "UPDATE sandbox SET status = 'failed', status_reason = 'its machine is being replaced',
                       generation = ?, origin_layer = ?, volumes = ? WHERE id = ? AND status <> 'stopping'";
        let done = query(sql)
            .bind(to_sql(intent.generation))
            .bind(layer)
            .bind(volumes_to_sql(intent))
            .bind(intent.id.to_string())
            .execute(&mut tx)
            .await
            .map_err(failed("record a rebuild"))?;
        if done == 0 {
            return Ok(false);
        }
        if let Some(volume) = volume
            && !add_copy(&mut tx, caller, volume).await?
        {
            return Ok(false);
        }
        tx.commit().await.map_err(failed("commit a rebuild"))?;
        Ok(true)
    }

    /// Lists the volumes that were made for a sandbox and have content, oldest first.
    pub async fn ready_copies_of(&self, sandbox: SandboxId) -> Result<Vec<VolumeRow>, StoreError> {
        let rows = query("SELECT * FROM volume WHERE sandbox_id = ? AND status = 'ready' ORDER BY created_at, id")
            .bind(sandbox.to_string())
            .fetch_all(&self.database)
            .await
            .map_err(failed("list the volumes of a sandbox"))?;
        rows.iter().map(read).collect()
    }

    /// Lists the volumes that were made for a sandbox.
    pub async fn copies_of(&self, sandbox: SandboxId) -> Result<Vec<VolumeRow>, StoreError> {
        let rows = query("SELECT * FROM volume WHERE sandbox_id = ?")
            .bind(sandbox.to_string())
            .fetch_all(&self.database)
            .await
            .map_err(failed("list the volumes of a sandbox"))?;
        rows.iter().map(read).collect()
    }
}

pub(super) fn read(row: &DatabaseRow) -> Result<VolumeRow, StoreError> {
    let id: String = column(row, "id")?;
    let sandbox: Option<String> = column(row, "sandbox_id")?;
    let sandbox = sandbox.map(|sandbox| sandbox.parse()).transpose();
    Ok(VolumeRow {
        sandbox: sandbox.map_err(|_| StoreError::Corrupt { id: id.clone(), field: "sandbox_id" })?,
        id: id.parse().map_err(|_| StoreError::Corrupt { id, field: "id" })?,
        workspace: WorkspaceId(column(row, "workspace")?),
        name: column(row, "name")?,
        size: ByteSize::new(column(row, "size_bytes").map(from_sql)?),
        created_at_ns: column(row, "created_at").map(from_sql)?,
    })
}
