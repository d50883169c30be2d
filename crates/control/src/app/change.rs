//! Shared by pause, resume, hibernate and wake: check the caller, call the host, update the row,
//! and respond within a timeout.

use std::{future::Future, time::Duration};

use pandastack_model::{Fault, FaultKind, SandboxId};
use pandastack_wire_fleet::{Caller, SandboxView};

use crate::{Control, limits::CHANGE_MAX};

impl Control {
    /// Changes a sandbox of the caller. The change runs to its end even if the caller disconnects
    /// or the timeout passes.
    pub(super) async fn change<F>(
        &self,
        name: &'static str,
        caller: &Caller,
        id: SandboxId,
        ask: F,
    ) -> Result<SandboxView, Fault>
    where
        F: Future<Output = Result<SandboxView, Fault>> + Send + 'static,
    {
        self.need_host()?;
        self.reachable(caller, id).await?;
        let control = self.clone();
        let work = async move {
            let seen = ask.await?;
            control.reconcile(id).await;
            Ok(seen)
        };
        self.in_time(name, CHANGE_MAX, work).await
    }

    /// Runs work to its end, but returns a fault after a timeout.
    pub(super) async fn in_time<F, T>(&self, name: &'static str, time: Duration, work: F) -> Result<T, Fault>
    where
        F: Future<Output = Result<T, Fault>> + Send + 'static,
        T: Send + 'static,
    {
        match tokio::time::timeout(time, self.scope.run(name, work)).await {
            Ok(done) => done.map_err(Fault::bug)?,
            Err(_) => {
                let text = format!(
                    "timeout: {name} takes longer than {}s and continues in the background; check the state later",
                    time.as_secs()
                );
                Err(Fault::new(FaultKind::Timeout, "sandbox.slow", text))
            }
        }
    }
}
