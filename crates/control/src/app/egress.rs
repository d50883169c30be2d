//! Shows and changes the egress rules of a sandbox.

use pandastack_model::{Egress, Fault, SandboxId};
use pandastack_wire_fleet::Caller;

use crate::{Control, limits::CHANGE_MAX};

impl Control {
    /// Returns the egress rules of a sandbox.
    pub(crate) async fn egress(&self, caller: &Caller, id: SandboxId) -> Result<Egress, Fault> {
        let intent = self.store.find(&caller.workspace, id).await?;
        Ok(intent.ok_or_else(Fault::no_sandbox)?.spec.egress)
    }

    /// Changes the egress rules of a sandbox.
    pub(crate) async fn set_egress(&self, caller: &Caller, id: SandboxId, egress: Egress) -> Result<Egress, Fault> {
        self.need_host()?;
        self.reachable(caller, id).await?;
        let control = self.clone();
        let work = async move {
            control.change_egress(id, egress.clone()).await?;
            Ok(egress)
        };
        self.in_time("egress", CHANGE_MAX, work).await
    }
}
