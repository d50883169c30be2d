//! Requests with an idempotency key that create something. The result is recorded before it is
//! made. The next start removes it if no response was given.

use pandastack_door::IdempotencyKey;
use pandastack_model::{Fault, LayerId, SandboxId, VolumeId, WebhookId};
use pandastack_wire_fleet::{Caller, WorkspaceId};

use crate::{Control, limits::DELETED_REMEMBERED, store::ResourceKind};

impl Control {
    /// Records what the caller's request is about to make, if it has an idempotency key.
    pub(crate) async fn note_made(&self, caller: &Caller, made: ResourceKind, ids: &[String]) -> Result<(), Fault> {
        let Some(key) = &caller.attempt else { return Ok(()) };
        let attempt = IdempotencyKey { workspace: caller.workspace.clone(), key: key.to_string() };
        Ok(self.store.note_made(&attempt, made, ids).await?)
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
                Ok(self.store.delete_sandbox(id, (now_ns, since_ns), Some("request")).await?)
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
