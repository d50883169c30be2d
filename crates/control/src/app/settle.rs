//! Brings rows up to date with the host. One task does it for everybody, so that an older word
//! never overwrites a newer one: it asks the host anew each time, and nobody else writes the state
//! of a sandbox that has come up.

use pandastack_kit::trace::{self, Here};
use pandastack_model::SandboxId;
use tokio::sync::oneshot;

use crate::Control;

/// Asks for one row to be compared with the host. Dropped unanswered at shutdown.
pub struct Settle {
    pub id: SandboxId,
    pub done: Option<oneshot::Sender<()>>,
    /// The request that it is for.
    pub here: Option<Here>,
}

impl Control {
    /// Waits until a row says what the host says now.
    pub(crate) async fn settle(&self, id: SandboxId) {
        let (done, wait) = oneshot::channel();
        if self.settle.send(Settle { id, done: Some(done), here: trace::here() }).await.is_ok() {
            let _ = wait.await;
        }
    }

    /// Lets a row be compared soon. If the queue is full, so many others are that an event will
    /// come anyway.
    pub(crate) fn settle_soon(&self, id: SandboxId) {
        let _ = self.settle.try_send(Settle { id, done: None, here: trace::here() });
    }
}
