//! Requests with an idempotency key that create something. The result is recorded before it is
//! made. If the server ends before it responds, its next start removes the result, or another
//! server does.

use pandastack_door::IdempotencyKey;
use pandastack_model::{Fault, FaultKind, LayerId, SandboxId, VolumeId, WebhookId};
use pandastack_wire_fleet::{Caller, WorkspaceId};

use crate::{
    Control,
    limits::{DELETED_REMEMBERED, SERVER_LEASE, SERVER_LEASE_KEPT},
    loops,
    store::{LeaseTerm, ResourceKind},
};

impl Control {
    /// Records what the caller's request is about to make, if it has an idempotency key.
    pub(crate) async fn note_made(&self, caller: &Caller, made: ResourceKind, ids: &[String]) -> Result<(), Fault> {
        let Some(key) = &caller.attempt else { return Ok(()) };
        let attempt = IdempotencyKey { workspace: caller.workspace.clone(), key: key.to_string() };
        if self.store.note_made(&attempt, made, ids).await? { Ok(()) } else { Err(taken_over()) }
    }

    /// Shows the other servers that this one runs.
    pub async fn renew_server_lease(&self) -> Result<(), Fault> {
        let term = LeaseTerm::new(self.clock.now_ns(), SERVER_LEASE);
        Ok(self.store.take_lease(&self.store.server_lease(), term).await.map(drop)?)
    }

    /// Looks once for servers that have ended, and finishes the requests of those that were seen
    /// ended several times. Call it at intervals in which a running server renews its lease.
    pub async fn finish_for_ended(&self) -> Result<(), Fault> {
        let now_ns = self.clock.now_ns();
        let found = self.store.ended_servers(now_ns).await?;
        for server in self.locks.ended.surely(found) {
            loops::take_back(self, &server).await?;
        }
        Ok(self.store.prune_server_leases(now_ns.saturating_sub(SERVER_LEASE_KEPT.as_nanos() as u64)).await?)
    }

    /// Removes a result that no caller knows of. A missing result is not an error.
    pub(crate) async fn take_back_made(
        &self,
        workspace: &WorkspaceId,
        made: ResourceKind,
        id: &str,
    ) -> Result<(), Fault> {
        match made {
            ResourceKind::Sandbox => {
                let id: SandboxId = id.parse().map_err(Fault::bug)?;
                self.store.mark_deleting(id).await?;
                self.host.remove(id).await?;
                let now_ns = self.clock.now_ns();
                let since_ns = now_ns.saturating_sub(DELETED_REMEMBERED.as_nanos() as u64);
                self.store.delete_sandbox(id, (now_ns, since_ns), Some("request")).await?;
                self.remove_abandoned_volumes().await;
                Ok(())
            }
            ResourceKind::Snapshot => self.give_up(id.parse::<LayerId>().map_err(Fault::bug)?).await,
            ResourceKind::Volume => self.remove_volume_disk(id.parse::<VolumeId>().map_err(Fault::bug)?).await,
            ResourceKind::Webhook => {
                let id = id.parse::<WebhookId>().map_err(Fault::bug)?;
                Ok(self.store.drop_webhook(workspace, id).await.map(drop)?)
            }
            // A build that was interrupted by a shutdown has failed, which frees its name.
            ResourceKind::Build | ResourceKind::InGuest => Ok(()),
        }
    }
}

/// The fault of a request that another server has given up for this one.
pub(crate) fn taken_over() -> Fault {
    let text = "the server was cut off from its database for too long, so the response to this request is lost; check \
                the result before you try again";
    Fault::new(FaultKind::Conflict, "idempotency.answer_lost", text)
}
