//! Shows the family of a sandbox.

use pandastack_model::{Fault, SandboxId};
use pandastack_wire_fleet::Caller;

use crate::{Control, plan, store::FamilyMember};

impl Control {
    /// Returns the family of a sandbox of the caller, from the oldest member down.
    pub(crate) async fn tree(&self, caller: &Caller, id: SandboxId) -> Result<Vec<FamilyMember>, Fault> {
        let _mine = self.store.state(&caller.workspace, id).await?.ok_or_else(Fault::no_sandbox)?;
        let everybody = self.store.relatives(&caller.workspace).await?;
        plan::family(everybody, id).ok_or_else(Fault::no_sandbox)
    }
}
