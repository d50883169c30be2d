//! Wakes a sandbox.

use pandastack_model::{Fault, SandboxId, SandboxState};
use pandastack_wire_fleet::Caller;

use crate::Control;

impl Control {
    /// Makes a sandbox run that is asleep, paused or already running.
    pub(crate) async fn wake(&self, caller: &Caller, id: SandboxId) -> Result<SandboxState, Fault> {
        let host = self.host.clone();
        self.change("wake", caller, id, async move { host.wake(id).await }).await.map(|seen| seen.state)
    }
}
