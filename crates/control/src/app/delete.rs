//! Deletes a sandbox in any state; a repeated delete succeeds. The row is marked first and removed
//! last, so that the next start finishes an interrupted delete.

use pandastack_model::{Fault, SandboxId};
use pandastack_wire_fleet::Caller;

use crate::{Control, limits::DELETED_REMEMBERED};

impl Control {
    /// Deletes a sandbox of the caller. Succeeds also for an id that was deleted recently.
    pub(crate) async fn delete(&self, caller: Caller, id: SandboxId) -> Result<(), Fault> {
        self.need_host()?;
        let control = self.clone();
        let work = async move { control.delete_to_the_end(caller, id).await };
        self.scope.run("delete sandbox", work).await.map_err(Fault::bug)?
    }

    pub(super) async fn delete_to_the_end(&self, caller: Caller, id: SandboxId) -> Result<(), Fault> {
        let now_ns = self.clock.now_ns();
        let since_ns = now_ns.saturating_sub(DELETED_REMEMBERED.as_nanos() as u64);
        if self.store.state(&caller.workspace, id).await?.is_none() {
            let deleted = self.store.was_deleted(&caller.workspace, id, since_ns).await?;
            return if deleted { Ok(()) } else { Err(Fault::no_sandbox()) };
        }
        self.store.mark_deleting(id).await?;
        self.host.remove(id).await?;
        self.store.delete_sandbox(id, (now_ns, since_ns), Some("request")).await?;
        self.remove_abandoned_volumes().await;
        tracing::info!(sandbox = %id, "sandbox deleted");
        Ok(())
    }
}
