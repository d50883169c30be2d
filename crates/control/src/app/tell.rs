//! Tells of something that is no state: into the memory of a sandbox's events, and to who subscribed to them.

use pandastack_model::SandboxId;
use serde_json::Value;

use crate::{
    Control,
    store::{News, StoreError},
};

impl Control {
    /// Tells that something happened to a sandbox just now.
    pub(crate) async fn tell(&self, id: SandboxId, kind: &'static str, payload: Value) -> Result<(), StoreError> {
        let at_ns = self.clock.now_ns();
        self.events.record(id, at_ns, kind, payload.clone());
        self.store.tell(id, &News { kind, at_ns, payload }).await
    }
}
