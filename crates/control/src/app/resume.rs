//! Resumes a sandbox.

use pandastack_model::{Fault, SandboxId};
use pandastack_wire_fleet::Caller;

use crate::Control;

impl Control {
    /// Resumes a paused sandbox.
    pub(crate) async fn resume(&self, caller: &Caller, id: SandboxId) -> Result<(), Fault> {
        let host = self.host.clone();
        self.change("resume", caller, id, async move { host.resume(id).await }).await.map(drop)
    }
}
