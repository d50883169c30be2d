//! Records an event that is no change of state: in the sandbox's event stream, and for webhooks
//! that subscribed to it.

use pandastack_model::{EventKind, SandboxId};
use serde_json::Value;

use crate::{Control, events::SandboxEvent, store::StoreError};

impl Control {
    /// Records that something happened to a sandbox just now.
    pub(crate) async fn tell(&self, id: SandboxId, kind: EventKind, payload: Value) -> Result<(), StoreError> {
        self.store.tell(id, SandboxEvent::new(kind, self.clock.now_ns(), payload)).await
    }

    /// Does the same where nobody waits for the outcome.
    pub(crate) async fn tell_or_log(&self, id: SandboxId, kind: EventKind, payload: Value) {
        if let Err(error) = self.tell(id, kind, payload).await {
            tracing::error!(sandbox = %id, %kind, %error, "an event could not be queued for webhooks");
        }
    }
}
