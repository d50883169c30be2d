//! Checks whether a caller may use a sandbox.

use pandastack_model::{Fault, FaultKind, SandboxId, SandboxState};
use pandastack_wire_fleet::Caller;

use crate::Control;

impl Control {
    /// Checks that the sandbox belongs to the caller's workspace and can be used. A sandbox of
    /// another tenant looks like a missing one.
    pub(crate) async fn reachable(&self, caller: &Caller, id: SandboxId) -> Result<(), Fault> {
        let state = self.store.state(&caller.workspace, id).await?;
        if state == Some(SandboxState::Asleep) {
            self.check_wake(&caller.workspace, id).await?;
        }
        usable(state)
    }

    /// Checks that the sandbox exists, in any workspace: its preview name alone gives access.
    pub(crate) async fn reachable_by_anyone(&self, id: SandboxId) -> Result<(), Fault> {
        let state = self.store.public_state(id).await?;
        if state == Some(SandboxState::Asleep)
            && let Some((workspace, _)) = self.store.owner(id).await?
        {
            self.check_wake(&workspace, id).await?;
        }
        usable(state)
    }
}

fn usable(state: Option<SandboxState>) -> Result<(), Fault> {
    match state {
        None => Err(Fault::no_sandbox()),
        Some(SandboxState::Failed { reason }) => {
            let text = format!("the sandbox has failed ({reason}); delete it and create another");
            Err(Fault::new(FaultKind::Conflict, "sandbox.failed", text))
        }
        // In all other states the host decides: it wakes the sandbox, waits or refuses.
        Some(_) => Ok(()),
    }
}
