//! Shows and changes what a sandbox may reach.

use pandastack_model::{Egress, Fault, SandboxId};
use pandastack_wire_fleet::Caller;

use crate::{Control, limits::CHANGE_MAX};

impl Control {
    /// Gives what a sandbox may reach.
    pub(crate) async fn egress(&self, caller: &Caller, id: SandboxId) -> Result<Egress, Fault> {
        let intent = self.store.find(&caller.workspace, id).await?;
        Ok(intent.ok_or_else(Fault::no_sandbox)?.spec.egress)
    }

    /// Changes it. The host comes first: if we end in between, what is shown is old but what is enforced is new.
    pub(crate) async fn set_egress(&self, caller: &Caller, id: SandboxId, egress: Egress) -> Result<Egress, Fault> {
        self.reachable(caller, id).await?;
        let control = self.clone();
        let work = async move {
            control.host.set_egress(id, egress.clone()).await?;
            control.store.set_egress(id, &egress).await?;
            Ok(egress)
        };
        self.in_time("egress", CHANGE_MAX, work).await
    }
}
