//! The states of sandboxes as the host reports them, and their deletion. A change of state and its
//! event are one transaction. The event reaches the stream after the commit.

use pandastack_database::{DatabaseRow, query, query_scalar};
use pandastack_model::{EventKind, SandboxId, SandboxState};
use pandastack_wire_fleet::{SandboxView, WorkspaceId};

use super::{
    MachineSize, StartReport, Store, StoreError,
    databases::{drop_branch, drop_database},
    failed,
    intent::{column, read_observed, read_state},
    outbox::{EndEvent, PendingEvents, announce, announce_end},
    to_sql,
    usage::{drop_subject, end_subject},
    volumes::{disown_shared, hide_copies, show_copies},
};
use crate::events::{EventDetails, LastingState};

/// The host's report on a sandbox.
#[derive(Clone, Copy, Debug)]
pub struct HostReport<'a> {
    pub view: &'a SandboxView,
    /// The state that the event announces. It is older than the view's state if the newer state
    /// has an event of its own.
    pub told: &'a SandboxState,
    pub at_ns: u64,
}

impl Store {
    /// Records that a sandbox runs. Returns false if its row is gone or it is being deleted.
    pub async fn mark_running(&self, view: &SandboxView, at_ns: u64) -> Result<bool, StoreError> {
        let (size, observed) = (MachineSize::of(view), StartReport::of(view));
        let mut tx = self.begin_for(view.id, "begin a running sandbox").await?;
        let sql = "UPDATE sandbox SET status = 'running', status_reason = NULL, cpus = ?, memory_mib = ?, disk_mib = ?,
                       guest_ip = ?, boot_ms = ?, boot_mode = ?, isolation = ? WHERE id = ? AND status <> 'stopping'";
        let done = query(sql)
            .bind(i64::from(size.cpus))
            .bind(to_sql(size.memory_mib))
            .bind(to_sql(size.disk_mib))
            .bind(&observed.guest_ip)
            .bind(to_sql(observed.boot_ms))
            .bind(&observed.boot_mode)
            .bind(&observed.isolation)
            .bind(view.id.to_string())
            .execute(&mut tx)
            .await
            .map_err(failed("record a running sandbox"))?;
        if done == 0 {
            return Ok(false);
        }
        show_copies(&mut tx, view.id, at_ns).await?;
        disown_shared(&mut tx, view.id).await?;
        let announced = announce(&mut tx, view.id, LastingState::Running, EventDetails::Boot(view), at_ns).await?;
        tx.commit().await.map_err(failed("commit a running sandbox"))?;
        self.publish(view.id, announced);
        Ok(true)
    }

    /// Records the host's report on a sandbox that has run before. Returns the kind of the event
    /// if the state is new. Rows that are `creating` or `stopping` do not change.
    pub async fn mark_state(&self, seen: HostReport<'_>) -> Result<Option<EventKind>, StoreError> {
        let HostReport { view, told, at_ns } = seen;
        let (observed, lasting) = (StartReport::of(view), LastingState::of(told));
        // The same state arrives twice: from the host's event and from the request that caused it.
        // The second time this is only a read.
        if self.is_known(seen, &observed).await? {
            return Ok(None);
        }
        let mut tx = self.begin_for(view.id, "begin a sandbox's state").await?;
        let sql = "UPDATE sandbox SET status = ?, status_reason = ?, guest_ip = ?, boot_ms = ?, boot_mode = ?,
                       isolation = ? WHERE id = ? AND status NOT IN ('creating', 'stopping')";
        let done = query(sql)
            .bind(view.state.as_str())
            .bind(view.state.reason())
            .bind(&observed.guest_ip)
            .bind(to_sql(observed.boot_ms))
            .bind(&observed.boot_mode)
            .bind(&observed.isolation)
            .bind(view.id.to_string())
            .execute(&mut tx)
            .await
            .map_err(failed("record a sandbox's state"))?;
        if done == 0 {
            return Ok(None);
        }
        let details = told.reason().map_or(EventDetails::Boot(view), |reason| EventDetails::Death { reason });
        let announced = match lasting {
            Some(now) => announce(&mut tx, view.id, now, details, at_ns).await?,
            None => PendingEvents::default(),
        };
        tx.commit().await.map_err(failed("commit a sandbox's state"))?;
        let kind = announced.kind();
        self.publish(view.id, announced);
        Ok(kind)
    }

    /// Returns whether the row already has this state and its event was announced.
    async fn is_known(&self, seen: HostReport<'_>, observed: &StartReport) -> Result<bool, StoreError> {
        let sql = "SELECT id, status, status_reason, guest_ip, boot_ms, boot_mode, isolation, announced FROM sandbox
                   WHERE id = ?";
        let row: Option<DatabaseRow> = query(sql)
            .bind(seen.view.id.to_string())
            .fetch_optional(&self.database)
            .await
            .map_err(failed("compare a sandbox's state"))?;
        let Some(row) = row else { return Ok(true) };
        let announced: Option<String> = column(&row, "announced")?;
        let announced = announced.and_then(|word| LastingState::from_name(&word));
        let news = LastingState::of(seen.told).and_then(|now| now.since(announced));
        Ok(news.is_none() && read_state(&row)? == seen.view.state && read_observed(&row)? == *observed)
    }

    /// Records that the sandbox's machine is dead. A sandbox that is being deleted stays so: its
    /// delete goes on after a restart.
    pub async fn mark_failed(&self, id: SandboxId, reason: &str, at_ns: u64) -> Result<(), StoreError> {
        let mut tx = self.begin_for(id, "begin a failed sandbox").await?;
        let sql = "UPDATE sandbox SET status = 'failed', status_reason = ? WHERE id = ? AND status <> 'stopping'";
        let done = query(sql)
            .bind(reason)
            .bind(id.to_string())
            .execute(&mut tx)
            .await
            .map_err(failed("record a failed sandbox"))?;
        if done == 0 {
            return Ok(());
        }
        let announced = announce(&mut tx, id, LastingState::Dead, EventDetails::Death { reason }, at_ns).await?;
        tx.commit().await.map_err(failed("commit a failed sandbox"))?;
        self.publish(id, announced);
        Ok(())
    }

    /// Marks a sandbox for deletion. The next start finishes the delete if it is interrupted.
    pub async fn mark_deleting(&self, id: SandboxId) -> Result<(), StoreError> {
        query("UPDATE sandbox SET status = 'stopping' WHERE id = ?")
            .bind(id.to_string())
            .execute(&self.database)
            .await
            .map(drop)
            .map_err(failed("record a delete"))
    }

    /// Removes an intent that never became a sandbox.
    pub async fn forget(&self, id: SandboxId) -> Result<(), StoreError> {
        let mut tx = self.begin_for(id, "begin to forget a sandbox").await?;
        query("DELETE FROM sandbox WHERE id = ?")
            .bind(id.to_string())
            .execute(&mut tx)
            .await
            .map_err(failed("delete a sandbox's row"))?;
        drop_subject(&mut tx, &id.to_string()).await?;
        hide_copies(&mut tx, id).await?;
        drop_branch(&mut tx, id).await?;
        tx.commit().await.map_err(failed("commit a forgotten sandbox"))
    }

    /// Removes a sandbox, ends its events, and remembers its id. Ids that were deleted before
    /// `forget_before_ns` are forgotten.
    pub async fn delete_sandbox(
        &self,
        id: SandboxId,
        (now_ns, forget_before_ns): (u64, u64),
        reason: Option<&'static str>,
    ) -> Result<(), StoreError> {
        // Take the write lock at once: a transaction that reads first fails, instead of waiting,
        // while another writer is active.
        let mut tx = self.begin_for(id, "begin a delete").await?;
        let remember = "INSERT INTO deleted_sandbox (id, workspace, deleted_at) SELECT id, workspace, ? FROM sandbox
                        WHERE id = ? ON CONFLICT (id) DO NOTHING";
        query(remember)
            .bind(to_sql(now_ns))
            .bind(id.to_string())
            .execute(&mut tx)
            .await
            .map_err(failed("record a deleted sandbox"))?;
        let EndEvent { event, posted, home } = announce_end(&mut tx, id, now_ns, reason).await?;
        super::lineage::keep_ancestor(&mut tx, id, now_ns).await?;
        query("DELETE FROM sandbox WHERE id = ?")
            .bind(id.to_string())
            .execute(&mut tx)
            .await
            .map_err(failed("delete a sandbox"))?;
        super::lineage::prune(&mut tx, id).await?;
        hide_copies(&mut tx, id).await?;
        drop_database(&mut tx, id).await?;
        end_subject(&mut tx, &id.to_string(), now_ns).await?;
        query("DELETE FROM deleted_sandbox WHERE deleted_at < ?")
            .bind(to_sql(forget_before_ns))
            .execute(&mut tx)
            .await
            .map_err(failed("delete old ids of deleted sandboxes"))?;
        tx.commit().await.map_err(failed("commit a delete"))?;
        self.wake(posted);
        self.tell_workspace(home.as_ref(), id, &event);
        self.events.end(id, event);
        Ok(())
    }

    /// Returns whether the workspace deleted this id since the given time.
    pub async fn was_deleted(&self, workspace: &WorkspaceId, id: SandboxId, since_ns: u64) -> Result<bool, StoreError> {
        query_scalar::<i64>("SELECT COUNT(*) FROM deleted_sandbox WHERE id = ? AND workspace = ? AND deleted_at >= ?")
            .bind(id.to_string())
            .bind(&workspace.0)
            .bind(to_sql(since_ns))
            .fetch_one(&self.database)
            .await
            .map(|count| count > 0)
            .map_err(failed("look for a deleted sandbox"))
    }
}
