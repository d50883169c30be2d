//! Pauses a sandbox.

use pandastack_model::{Fault, SandboxId};
use pandastack_wire_fleet::Caller;

use crate::Control;

impl Control {
    /// Pauses a sandbox: its CPUs stop, its memory stays.
    pub(crate) async fn pause(&self, caller: &Caller, id: SandboxId) -> Result<(), Fault> {
        let host = self.host.clone();
        self.change("pause", caller, id, async move { host.pause(id).await }).await.map(drop)
    }
}
