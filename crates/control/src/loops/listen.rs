//! Writes down what happens to sandboxes unasked.

use pandastack_wire_fleet::HostEvent;
use tokio::sync::broadcast::{self, error::RecvError};

use crate::{Control, limits::DELETED_REMEMBERED, loops::failures, store::StoreError};

/// Follows the host's events until shutdown.
pub async fn listen(control: Control, mut events: broadcast::Receiver<HostEvent>) {
    let token = control.scope.token();
    loop {
        // Shutdown first: a host that is closing removes machines, which is no wish to delete anybody's sandbox.
        let event = tokio::select! {
            biased;
            () = token.cancelled() => return,
            event = events.recv() => event,
        };
        let written = match event {
            Ok(event) => apply(&control, event).await,
            Err(RecvError::Lagged(_)) => catch_up(&control).await,
            Err(RecvError::Closed) => return,
        };
        if let Err(error) = written {
            tracing::error!(%error, cause = ?std::error::Error::source(&error), "a host event could not be recorded");
        }
    }
}

async fn apply(control: &Control, event: HostEvent) -> Result<(), StoreError> {
    match event {
        HostEvent::Failed { id, reason } => {
            tracing::info!(sandbox = %id, %reason, "sandbox failed");
            control.store.mark_failed(id, &reason).await
        }
        HostEvent::Changed { .. } | HostEvent::Denied { .. } => Ok(()),
        HostEvent::Removed { id, .. } => {
            let now_ns = control.clock.now_ns();
            let since_ns = now_ns.saturating_sub(DELETED_REMEMBERED.as_nanos() as u64);
            control.store.bury(id, now_ns, since_ns).await
        }
    }
}

/// Events were missed. The host's own word on each sandbox says what they were; `creating` rows belong to their creators.
async fn catch_up(control: &Control) -> Result<(), StoreError> {
    tracing::warn!("host events were missed; comparing everything");
    failures(control).await
}
