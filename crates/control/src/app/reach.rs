//! Says whether a caller may reach a sandbox.

use pandastack_model::{Fault, FaultKind, SandboxId, SandboxState};
use pandastack_wire_fleet::Caller;

use crate::Control;

impl Control {
    /// Passes if the sandbox is the caller's and can be used. Another tenant's looks like one that
    /// never was.
    pub(crate) async fn reachable(&self, caller: &Caller, id: SandboxId) -> Result<(), Fault> {
        usable(self.store.state(&caller.workspace, id).await?)
    }

    /// Passes if there is such a sandbox, whosever it is: who knows its preview name may reach it.
    pub(crate) async fn reachable_by_anyone(&self, id: SandboxId) -> Result<(), Fault> {
        usable(self.store.any_state(id).await?)
    }
}

fn usable(state: Option<SandboxState>) -> Result<(), Fault> {
    match state {
        None => Err(Fault::no_sandbox()),
        Some(SandboxState::Failed { reason }) => {
            let text = format!("the sandbox has failed ({reason}); delete it and create another");
            Err(Fault::new(FaultKind::Conflict, "sandbox.failed", text))
        }
        // Whatever else it is, the host knows better than this row: it wakes, waits or refuses.
        Some(_) => Ok(()),
    }
}
