//! Hibernates a sandbox.

use pandastack_model::{Fault, SandboxId, SandboxState};
use pandastack_wire_fleet::Caller;

use crate::Control;

impl Control {
    /// Hibernates a sandbox: its memory and disk are saved in a layer, and its machine ends.
    pub(crate) async fn sleep(&self, caller: &Caller, id: SandboxId) -> Result<SandboxState, Fault> {
        self.archive_before_sleep(caller, id).await?;
        let (host, meters) = (self.host.clone(), self.usage.meters.clone());
        // A success is counted with the new state, like one that nobody asked for.
        let ask = async move { host.sleep(id).await.inspect_err(|_| meters.hibernation_failed()) };
        self.change("hibernate", caller, id, ask).await.map(|seen| seen.state)
    }
}
