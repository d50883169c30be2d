//! Shows where a sandbox stands in its family.

use pandastack_model::{Fault, SandboxId};
use pandastack_wire_fleet::Caller;

use crate::{Control, plan, store::Relative};

impl Control {
    /// Gives ancestors, siblings and descendants of a sandbox of the caller's, from the oldest
    /// down.
    pub(crate) async fn tree(&self, caller: &Caller, id: SandboxId) -> Result<Vec<Relative>, Fault> {
        let _mine = self.store.state(&caller.workspace, id).await?.ok_or_else(Fault::no_sandbox)?;
        let everybody = self.store.relatives(&caller.workspace).await?;
        plan::family(everybody, id).ok_or_else(Fault::no_sandbox)
    }
}
