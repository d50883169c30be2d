//! Records which sandbox uses which volume, and which volumes are being removed. The volume's data
//! is in its file. A row is written before anything is done with the file.

use pandastack_model::{SandboxId, VolumeAccess, VolumeId, VolumeMount};
use pandastack_vmm::VolumeSlot;
use sqlx::{Row, Sqlite, Transaction, sqlite::SqliteRow};

use super::{Ledger, LedgerError, sql};

/// The tables of this file.
pub const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS volume_users (
    volume  TEXT NOT NULL,
    sandbox TEXT NOT NULL,
    slot    TEXT NOT NULL,
    path    TEXT NOT NULL,
    place   INTEGER NOT NULL,
    PRIMARY KEY (volume, sandbox),
    UNIQUE (sandbox, slot)
) STRICT;
CREATE TABLE IF NOT EXISTS volumes_going (
    volume TEXT PRIMARY KEY
) STRICT;";

/// One volume in one sandbox, and its slot in the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeUse {
    pub volume: VolumeId,
    pub path: String,
    pub slot: VolumeSlot,
}

impl VolumeUse {
    /// Returns the use as a mount of the sandbox's specification.
    pub fn mount(&self) -> VolumeMount {
        VolumeMount { volume: self.volume, path: self.path.clone(), access: self.slot.access() }
    }
}

/// The result of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimOutcome {
    /// The sandbox has all its volumes, now or from the same request before.
    Yes,
    /// The sandbox already has other volumes.
    Otherwise,
    /// A volume is used by a sandbox that does not share it with this access.
    Taken { volume: VolumeId, by: SandboxId, access: VolumeAccess },
    /// A volume is being removed.
    Going { volume: VolumeId },
}

impl Ledger {
    /// Records the volumes of a sandbox, all or none. A volume has one writer, or any number of
    /// readers.
    pub async fn claim_volumes(&self, sandbox: SandboxId, uses: &[VolumeUse]) -> Result<ClaimOutcome, LedgerError> {
        let mut work = self.pool.begin().await.map_err(sql("begin a claim"))?;
        let present = uses_in(&mut work, sandbox).await?;
        if !present.is_empty() {
            return Ok(if present == uses { ClaimOutcome::Yes } else { ClaimOutcome::Otherwise });
        }
        for (place, wanted) in uses.iter().enumerate() {
            if let Some(refusal) = obstacle(&mut work, wanted).await? {
                return Ok(refusal);
            }
            sqlx::query("INSERT INTO volume_users (volume, sandbox, slot, path, place) VALUES (?, ?, ?, ?, ?)")
                .bind(wanted.volume.to_string())
                .bind(sandbox.to_string())
                .bind(wanted.slot.to_string())
                .bind(&wanted.path)
                .bind(place as i64)
                .execute(&mut *work)
                .await
                .map_err(sql("record a volume's user"))?;
        }
        work.commit().await.map_err(sql("finish a claim"))?;
        Ok(ClaimOutcome::Yes)
    }

    /// Lists the volumes of a sandbox, in the order of the request.
    pub async fn volume_uses(&self, sandbox: SandboxId) -> Result<Vec<VolumeUse>, LedgerError> {
        let mut work = self.pool.begin().await.map_err(sql("begin to list volume users"))?;
        uses_in(&mut work, sandbox).await
    }

    /// Lists all uses of all volumes.
    pub async fn volume_users(&self) -> Result<Vec<(SandboxId, VolumeUse)>, LedgerError> {
        let rows = sqlx::query("SELECT volume, sandbox, slot, path FROM volume_users ORDER BY volume, sandbox, place")
            .fetch_all(&self.pool)
            .await
            .map_err(sql("list volume users"))?;
        let read = |row: &SqliteRow| Ok((parsed(row, "sandbox")?, use_of(row)?));
        rows.iter().map(read).collect::<Result<_, _>>().map_err(sql("read volume users"))
    }

    /// Records that a sandbox no longer uses volumes.
    pub async fn release_volumes(&self, sandbox: SandboxId) -> Result<(), LedgerError> {
        sqlx::query("DELETE FROM volume_users WHERE sandbox = ?")
            .bind(sandbox.to_string())
            .execute(&self.pool)
            .await
            .map_err(sql("delete a volume's user"))?;
        Ok(())
    }

    /// Records that a volume is about to be removed. If sandboxes use it, records nothing and
    /// returns them.
    pub async fn begin_volume_removal(&self, volume: VolumeId) -> Result<Vec<SandboxId>, LedgerError> {
        let mut work = self.pool.begin().await.map_err(sql("begin a removal"))?;
        let users = users_in(&mut work, volume).await?;
        if users.is_empty() {
            sqlx::query("INSERT OR IGNORE INTO volumes_going (volume) VALUES (?)")
                .bind(volume.to_string())
                .execute(&mut *work)
                .await
                .map_err(sql("record a removal"))?;
            work.commit().await.map_err(sql("record a removal"))?;
        }
        Ok(users.into_iter().map(|(sandbox, _)| sandbox).collect())
    }

    /// Records that a volume is removed.
    pub async fn volume_gone(&self, volume: VolumeId) -> Result<(), LedgerError> {
        sqlx::query("DELETE FROM volumes_going WHERE volume = ?")
            .bind(volume.to_string())
            .execute(&self.pool)
            .await
            .map_err(sql("delete a volume"))?;
        Ok(())
    }

    /// Lists the volumes whose removal has begun.
    pub async fn volumes_being_removed(&self) -> Result<Vec<VolumeId>, LedgerError> {
        let rows = sqlx::query("SELECT volume FROM volumes_going")
            .fetch_all(&self.pool)
            .await
            .map_err(sql("list removals"))?;
        rows.iter().map(|row| parsed(row, "volume")).collect::<Result<_, _>>().map_err(sql("read removals"))
    }
}

/// Returns the reason why a use is refused, if there is one.
async fn obstacle(work: &mut Transaction<'_, Sqlite>, wanted: &VolumeUse) -> Result<Option<ClaimOutcome>, LedgerError> {
    let VolumeUse { volume, slot, .. } = wanted;
    let going: i64 = sqlx::query_scalar("SELECT count(*) FROM volumes_going WHERE volume = ?")
        .bind(volume.to_string())
        .fetch_one(&mut **work)
        .await
        .map_err(sql("look for a removal"))?;
    if going > 0 {
        return Ok(Some(ClaimOutcome::Going { volume: *volume }));
    }
    let users = users_in(work, *volume).await?;
    let shares = |access| access == VolumeAccess::ReadOnly && slot.access() == VolumeAccess::ReadOnly;
    let other = users.into_iter().find(|(_, slot)| !shares(slot.access()));
    Ok(other.map(|(by, slot)| ClaimOutcome::Taken { volume: *volume, by, access: slot.access() }))
}

async fn users_in(
    work: &mut Transaction<'_, Sqlite>,
    volume: VolumeId,
) -> Result<Vec<(SandboxId, VolumeSlot)>, LedgerError> {
    let rows = sqlx::query("SELECT sandbox, slot FROM volume_users WHERE volume = ? ORDER BY sandbox")
        .bind(volume.to_string())
        .fetch_all(&mut **work)
        .await
        .map_err(sql("list a volume's users"))?;
    let read = |row: &SqliteRow| Ok((parsed(row, "sandbox")?, parsed(row, "slot")?));
    rows.iter().map(read).collect::<Result<_, _>>().map_err(sql("read a volume's users"))
}

async fn uses_in(work: &mut Transaction<'_, Sqlite>, sandbox: SandboxId) -> Result<Vec<VolumeUse>, LedgerError> {
    let rows = sqlx::query("SELECT volume, slot, path FROM volume_users WHERE sandbox = ? ORDER BY place")
        .bind(sandbox.to_string())
        .fetch_all(&mut **work)
        .await
        .map_err(sql("list a sandbox's volumes"))?;
    rows.iter().map(use_of).collect::<Result<_, _>>().map_err(sql("read a sandbox's volumes"))
}

fn use_of(row: &SqliteRow) -> Result<VolumeUse, sqlx::Error> {
    Ok(VolumeUse { volume: parsed(row, "volume")?, path: row.try_get("path")?, slot: parsed(row, "slot")? })
}

fn parsed<T>(row: &SqliteRow, column: &str) -> Result<T, sqlx::Error>
where
    T: std::str::FromStr<Err: std::error::Error + Send + Sync + 'static>,
{
    row.try_get::<String, _>(column)?.parse().map_err(|error: T::Err| sqlx::Error::Decode(Box::new(error)))
}
