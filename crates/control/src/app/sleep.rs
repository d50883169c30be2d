//! Hibernates a sandbox.

use pandastack_model::{Fault, SandboxId, SandboxState};
use pandastack_wire_fleet::Caller;

use crate::Control;

impl Control {
    /// Hibernates a sandbox: its memory and disk are saved in a layer, and its machine ends.
    pub(crate) async fn sleep(&self, caller: &Caller, id: SandboxId) -> Result<SandboxState, Fault> {
        let host = self.host.clone();
        self.change("hibernate", caller, id, async move { host.sleep(id).await }).await.map(|seen| seen.state)
    }
}
