//! Reconciles rows with the host. One task does it for all requests and reads the host's state each
//! time, so that an older state never overwrites a newer one. Apart from the server's start,
//! creates and deletes, no other code writes the state of a sandbox.

use pandastack_kit::trace::{self, TracePosition};
use pandastack_model::SandboxId;
use tokio::sync::oneshot;

use crate::Control;

/// A request to reconcile one row with the host. At shutdown it is dropped without a response.
pub struct ReconcileRequest {
    pub id: SandboxId,
    pub done: Option<oneshot::Sender<()>>,
    /// The trace of the request that caused it.
    pub here: Option<TracePosition>,
}

impl Control {
    /// Waits until a row has the current state of the host.
    pub(crate) async fn reconcile(&self, id: SandboxId) {
        let (done, wait) = oneshot::channel();
        if self.reconcile.send(ReconcileRequest { id, done: Some(done), here: trace::here() }).await.is_ok() {
            let _ = wait.await;
        }
    }

    /// Queues a reconciliation of a row. If the queue is full, the request is dropped, because a
    /// host event will update the row anyway.
    pub(crate) fn reconcile_soon(&self, id: SandboxId) {
        let _ = self.reconcile.try_send(ReconcileRequest { id, done: None, here: trace::here() });
    }
}
