//! What becomes of sandboxes: the states that the host reports, and the end.

use pandastack_model::{SandboxId, SandboxState};
use pandastack_wire_fleet::WorkspaceId;

use super::{
    Observed, Size, Store, StoreError, failed,
    outbox::{announce, announce_end},
    to_sql,
};

/// The host's word about a sandbox.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    pub id: SandboxId,
    pub state: &'a SandboxState,
    pub observed: &'a Observed,
    /// The state that subscribers are told of; an older one than `state` if that has news of its own coming.
    pub told: &'a SandboxState,
    pub at_ns: u64,
}

impl Store {
    /// Records that a sandbox came up, and tells of it. False if the row is no longer there or on its way out.
    pub async fn mark_running(
        &self,
        id: SandboxId,
        size: Size,
        observed: &Observed,
        at_ns: u64,
    ) -> Result<bool, StoreError> {
        let mut tx = self.pool.begin_with("BEGIN IMMEDIATE").await.map_err(failed("begin a running sandbox"))?;
        let sql = "UPDATE sandbox SET status = 'running', status_reason = NULL, cpus = ?, memory_mib = ?, guest_ip = ?,
                       boot_ms = ?, boot_mode = ?, isolation = ? WHERE id = ? AND status <> 'stopping'";
        let done = sqlx::query(sql)
            .bind(i64::from(size.cpus))
            .bind(to_sql(size.memory_mib))
            .bind(&observed.guest_ip)
            .bind(to_sql(observed.boot_ms))
            .bind(&observed.boot_mode)
            .bind(&observed.isolation)
            .bind(id.to_string())
            .execute(&mut *tx)
            .await
            .map_err(failed("record a running sandbox"))?;
        if done.rows_affected() == 0 {
            return Ok(false);
        }
        let posted = announce(&mut tx, id, &SandboxState::Running, observed, at_ns).await?;
        tx.commit().await.map_err(failed("commit a running sandbox"))?;
        self.wake(posted);
        Ok(true)
    }

    /// Records what the host says about a sandbox that came up before, and tells of it. One that is still `creating` is its
    /// creator's, and one that is to be deleted stays so.
    pub async fn mark_state(&self, seen: Seen<'_>) -> Result<(), StoreError> {
        let Seen { id, state, observed, told, at_ns } = seen;
        let mut tx = self.pool.begin_with("BEGIN IMMEDIATE").await.map_err(failed("begin a sandbox's state"))?;
        let sql = "UPDATE sandbox SET status = ?, status_reason = ?, guest_ip = ?, boot_ms = ?, boot_mode = ?,
                       isolation = ? WHERE id = ? AND status NOT IN ('creating', 'stopping')";
        let reason = match state {
            SandboxState::Failed { reason } => Some(reason.as_str()),
            _ => None,
        };
        let done = sqlx::query(sql)
            .bind(state.as_str())
            .bind(reason)
            .bind(&observed.guest_ip)
            .bind(to_sql(observed.boot_ms))
            .bind(&observed.boot_mode)
            .bind(&observed.isolation)
            .bind(id.to_string())
            .execute(&mut *tx)
            .await
            .map_err(failed("record a sandbox's state"))?;
        if done.rows_affected() == 0 {
            return Ok(());
        }
        let posted = announce(&mut tx, id, told, observed, at_ns).await?;
        tx.commit().await.map_err(failed("commit a sandbox's state"))?;
        self.wake(posted);
        Ok(())
    }

    /// Records that the sandbox's machine is dead, and tells of it.
    pub async fn mark_failed(&self, id: SandboxId, reason: &str, at_ns: u64) -> Result<(), StoreError> {
        let mut tx = self.pool.begin_with("BEGIN IMMEDIATE").await.map_err(failed("begin a failed sandbox"))?;
        sqlx::query("UPDATE sandbox SET status = 'failed', status_reason = ? WHERE id = ?")
            .bind(reason)
            .bind(id.to_string())
            .execute(&mut *tx)
            .await
            .map_err(failed("record a failed sandbox"))?;
        let dead = SandboxState::Failed { reason: reason.to_owned() };
        let posted = announce(&mut tx, id, &dead, &Observed::default(), at_ns).await?;
        tx.commit().await.map_err(failed("commit a failed sandbox"))?;
        self.wake(posted);
        Ok(())
    }

    /// Records that a sandbox is to be gone: from here on a delete that is cut off is finished by the next start.
    pub async fn mark_leaving(&self, id: SandboxId) -> Result<(), StoreError> {
        sqlx::query("UPDATE sandbox SET status = 'stopping' WHERE id = ?")
            .bind(id.to_string())
            .execute(&self.pool)
            .await
            .map(drop)
            .map_err(failed("record a delete"))
    }

    /// Removes an intent that never became a sandbox.
    pub async fn forget(&self, id: SandboxId) -> Result<(), StoreError> {
        sqlx::query("DELETE FROM sandbox WHERE id = ?")
            .bind(id.to_string())
            .execute(&self.pool)
            .await
            .map(drop)
            .map_err(failed("forget a sandbox"))
    }

    /// Removes a sandbox, tells of it, and remembers its id for a while; ids remembered since before `forget_before_ns` are
    /// dropped.
    pub async fn bury(
        &self,
        id: SandboxId,
        (now_ns, forget_before_ns): (u64, u64),
        reason: Option<&'static str>,
    ) -> Result<(), StoreError> {
        // A read first would make the transaction fail instead of wait when another writer is at work.
        let mut tx = self.pool.begin_with("BEGIN IMMEDIATE").await.map_err(failed("begin a burial"))?;
        let remember = "INSERT INTO deleted_sandbox (id, workspace, deleted_at) SELECT id, workspace, ? FROM sandbox
                        WHERE id = ? ON CONFLICT (id) DO NOTHING";
        sqlx::query(remember)
            .bind(to_sql(now_ns))
            .bind(id.to_string())
            .execute(&mut *tx)
            .await
            .map_err(failed("remember a deleted sandbox"))?;
        let posted = announce_end(&mut tx, id, now_ns, reason).await?;
        super::lineage::bury(&mut tx, id, now_ns).await?;
        sqlx::query("DELETE FROM sandbox WHERE id = ?")
            .bind(id.to_string())
            .execute(&mut *tx)
            .await
            .map_err(failed("delete a sandbox"))?;
        super::lineage::prune(&mut tx, id).await?;
        sqlx::query("DELETE FROM deleted_sandbox WHERE deleted_at < ?")
            .bind(to_sql(forget_before_ns))
            .execute(&mut *tx)
            .await
            .map_err(failed("drop old deleted ids"))?;
        tx.commit().await.map_err(failed("commit a burial"))?;
        self.wake(posted);
        Ok(())
    }

    /// Says whether the workspace deleted this id since the given time.
    pub async fn was_buried(&self, workspace: &WorkspaceId, id: SandboxId, since_ns: u64) -> Result<bool, StoreError> {
        sqlx::query_scalar::<_, i64>(
            "SELECT COUNT(*) FROM deleted_sandbox WHERE id = ? AND workspace = ? AND deleted_at >= ?",
        )
        .bind(id.to_string())
        .bind(&workspace.0)
        .bind(to_sql(since_ns))
        .fetch_one(&self.pool)
        .await
        .map(|count| count > 0)
        .map_err(failed("look for a deleted sandbox"))
    }
}
