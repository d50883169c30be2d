//! Restores of older backups. A mark in the restored database tells the server's next start that
//! what was in progress at the time of the backup is long over.

use pandastack_database::{DatabaseRow, Transaction, query, query_as, query_scalar};
use pandastack_kit::random_hex;
use pandastack_model::{SandboxId, VolumeId};

use super::{
    Intent, Store, StoreError, VolumeRow, failed, from_sql,
    intent::{column, volumes_to_sql},
    to_sql,
    volumes::add_present,
};

/// A restore that the server has not dealt with yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreMark {
    /// The name of the backup.
    pub backup: String,
    pub restored_at_ns: u64,
}

impl Store {
    /// Marks this database as restored from a backup.
    pub async fn mark_restored(&self, mark: &RestoreMark) -> Result<(), StoreError> {
        query("INSERT INTO restore_mark (id, backup, restored_at) VALUES (?, ?, ?)")
            .bind(random_hex::<16>())
            .bind(&mark.backup)
            .bind(to_sql(mark.restored_at_ns))
            .execute(&self.database)
            .await
            .map(drop)
            .map_err(failed("mark a restored database"))
    }

    /// Returns the last restore that is not settled.
    pub async fn pending_restore(&self) -> Result<Option<RestoreMark>, StoreError> {
        let sql = "SELECT backup, restored_at FROM restore_mark WHERE settled_at IS NULL
                   ORDER BY restored_at DESC, id LIMIT 1";
        let found: Option<(String, i64)> =
            query_as(sql).fetch_optional(&self.database).await.map_err(failed("look for a restore"))?;
        Ok(found.map(|(backup, at)| RestoreMark { backup, restored_at_ns: from_sql(at) }))
    }

    /// Ends what a backup had in progress, all of it at once: later requests ended it, or it ended
    /// with its server. Nothing that it made is removed. `present` are the volumes of the host.
    pub async fn settle_restore(
        &self,
        mark: &RestoreMark,
        present: &[VolumeId],
        now_ns: u64,
    ) -> Result<(), StoreError> {
        let mut tx = self.begin_restore("begin to settle a restore").await?;
        // Their results may be in use since. A client that repeats one is told to check.
        let made = "DELETE FROM attempt_made WHERE EXISTS (SELECT 1 FROM attempt
                        WHERE attempt.workspace = attempt_made.workspace AND attempt.key = attempt_made.key
                            AND attempt.status IS NULL AND attempt.created_at <= ?)";
        let lost = "UPDATE attempt SET status = 409, answer = NULL WHERE status IS NULL AND created_at <= ?";
        for sql in [made, lost] {
            query(sql)
                .bind(to_sql(mark.restored_at_ns))
                .execute(&mut tx)
                .await
                .map_err(failed("end the requests of a backup"))?;
        }
        run(&mut tx, "UPDATE snapshot SET status = 'ready' WHERE status = 'making'").await?;
        let settled = "UPDATE managed_database SET repair = NULL, restore_to = NULL, kept_volume = NULL
                       WHERE broker_token IS NOT NULL";
        run(&mut tx, settled).await?;
        // The host may have later terms, also those of what was put aside.
        run(&mut tx, "UPDATE sandbox SET unapplied_terms = 3 WHERE status NOT IN ('failed', 'creating', 'stopping')")
            .await?;
        for id in present {
            query("UPDATE volume SET status = 'ready' WHERE id = ? AND status <> 'ready'")
                .bind(id.to_string())
                .execute(&mut tx)
                .await
                .map_err(failed("show the volumes of a restored database"))?;
        }
        query("UPDATE restore_mark SET settled_at = ? WHERE settled_at IS NULL")
            .bind(to_sql(now_ns))
            .execute(&mut tx)
            .await
            .map_err(failed("settle a restore"))?;
        tx.commit().await.map_err(failed("commit a settled restore"))
    }

    /// Makes a volume independent of the sandbox that it was copied for, and would be deleted with.
    pub async fn disown_volume(&self, id: VolumeId) -> Result<(), StoreError> {
        query("UPDATE volume SET sandbox_id = NULL WHERE id = ?")
            .bind(id.to_string())
            .execute(&self.database)
            .await
            .map(drop)
            .map_err(failed("make a volume independent"))
    }

    /// Records the volumes that a sandbox has in fact, with rows for those that have none.
    pub async fn correct_mounts(&self, intent: &Intent, new: &[VolumeRow], now_ns: u64) -> Result<(), StoreError> {
        let caller = pandastack_wire_fleet::Caller::of(intent.workspace.clone());
        let mut tx = self.begin_for(intent.id, "begin to correct the volumes of a sandbox").await?;
        for volume in new {
            if !add_present(&mut tx, &caller, volume, now_ns).await? {
                return Err(StoreError::Corrupt { id: volume.id.to_string(), field: "name" });
            }
        }
        query("UPDATE sandbox SET volumes = ?, generation = ? WHERE id = ?")
            .bind(volumes_to_sql(intent))
            .bind(to_sql(intent.generation))
            .bind(intent.id.to_string())
            .execute(&mut tx)
            .await
            .map_err(failed("correct the volumes of a sandbox"))?;
        tx.commit().await.map_err(failed("commit the volumes of a sandbox"))
    }

    /// Lists every volume of every workspace, those being made or deleted included.
    pub async fn all_volumes(&self) -> Result<Vec<VolumeRow>, StoreError> {
        let rows = query("SELECT * FROM volume ORDER BY id")
            .fetch_all(&self.database)
            .await
            .map_err(failed("list all volumes"))?;
        rows.iter().map(super::volumes::read).collect()
    }

    /// Lists the machines and volumes that golden layers are made with.
    pub async fn golden_makers(&self) -> Result<Vec<(SandboxId, VolumeId)>, StoreError> {
        let rows = query("SELECT sandbox_id, volume_id FROM golden_database")
            .fetch_all(&self.database)
            .await
            .map_err(failed("list the makers of golden layers"))?;
        let one = |row: &DatabaseRow| {
            let (sandbox, volume): (String, String) = (column(row, "sandbox_id")?, column(row, "volume_id")?);
            let corrupt = |id: &str, field| StoreError::Corrupt { id: id.to_owned(), field };
            Ok((
                sandbox.parse().map_err(|_| corrupt(&sandbox, "sandbox_id"))?,
                volume.parse().map_err(|_| corrupt(&volume, "volume_id"))?,
            ))
        };
        rows.iter().map(one).collect()
    }

    /// Whether a sandbox of any workspace was deleted, as far as that is remembered.
    pub async fn is_deleted(&self, id: SandboxId) -> Result<bool, StoreError> {
        query_scalar::<i64>("SELECT COUNT(*) FROM deleted_sandbox WHERE id = ?")
            .bind(id.to_string())
            .fetch_one(&self.database)
            .await
            .map(|count| count > 0)
            .map_err(failed("look for a deleted sandbox"))
    }

    async fn begin_restore(&self, attempted: &'static str) -> Result<Transaction, StoreError> {
        let lock = pandastack_database::WriteLock::on_all("restore");
        self.database.begin_write(lock).await.map_err(failed(attempted))
    }
}

async fn run(tx: &mut Transaction, sql: &'static str) -> Result<(), StoreError> {
    query(sql).execute(tx).await.map(drop).map_err(failed("settle a restore"))
}
