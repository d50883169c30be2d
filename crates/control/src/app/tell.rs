//! Records an event that is not a change of state, in the sandbox's event stream and for subscribed
//! webhooks.

use pandastack_model::{EventKind, SandboxId};
use serde_json::Value;

use crate::{Control, events::SandboxEvent, store::StoreError};

impl Control {
    /// Records an event of a sandbox with the current time.
    pub(crate) async fn tell(&self, id: SandboxId, kind: EventKind, payload: Value) -> Result<(), StoreError> {
        self.store.tell(id, SandboxEvent::new(kind, self.clock.now_ns(), payload)).await
    }

    /// Like `tell`, but logs an error instead of returning it.
    pub(crate) async fn tell_or_log(&self, id: SandboxId, kind: EventKind, payload: Value) {
        if let Err(error) = self.tell(id, kind, payload).await {
            tracing::error!(sandbox = %id, %kind, %error, "could not queue an event for webhooks");
        }
    }
}
