//! Ends a sandbox: on request, when idle, when its machine dies, or with its host.

use pandastack_model::{Fault, FaultKind, SandboxState};
use pandastack_wire_fleet::{HostEvent, RemovedBy};

use super::{
    driver::{OwnedSandbox, SandboxForm, cause},
    shutdown::ShutdownMode,
};
use crate::ledger::SandboxRecord;

impl OwnedSandbox<'_> {
    /// Marks a sandbox as failed and releases its machine. The reason stays visible until the owner
    /// removes the sandbox.
    pub(super) async fn fail(&mut self, reason: String) {
        tracing::info!(sandbox = %self.id, reason, "sandbox failed");
        let living = match std::mem::replace(&mut self.body, SandboxForm::Dead) {
            SandboxForm::Living(living) => Some(living),
            SandboxForm::Asleep(_) => None,
            SandboxForm::Dead => return,
        };
        if let Some(living) = &living {
            // The link of a killed machine stays silent instead of breaking. Close it, so that
            // callers stop waiting on it.
            living.session.close();
        }
        let failed = SandboxState::Failed { reason: reason.clone() };
        self.tell.send_modify(|now| now.without(failed.clone()));
        self.log(
            self.context.ledger.record(self.id, &SandboxRecord { state: failed, layer: None, secret: None }).await,
        );
        let _ = self.events.send(HostEvent::Failed { id: self.id, reason });
        if let Some(living) = living {
            self.keep_console().await;
            living.undo.unwind().await;
        }
        self.release_volumes().await;
        self.context.collect_layers().await;
    }

    /// Removes the sandbox and everything it held. If the removal cannot be recorded, the sandbox
    /// stays as it is: the next start would bring it back.
    pub(super) async fn take_down(&mut self, why: RemovedBy) -> Result<(), Fault> {
        // Recorded first: after a crash the next start finishes the removal. The line of a sleeping
        // sandbox still names its layer: if only the ledger's answer is lost, it sleeps on in it.
        if let Err(error) = self.record_state(SandboxState::Stopping).await {
            tracing::error!(sandbox = %self.id, %error, "could not remove a sandbox: the ledger cannot be written");
            // The line may have been written despite the error.
            let before = self.tell.borrow().view.state.clone();
            self.log(self.record_state(before).await);
            return Err(unwritten());
        }
        self.tell.send_modify(|now| now.without(SandboxState::Stopping));
        match std::mem::replace(&mut self.body, SandboxForm::Dead) {
            SandboxForm::Living(living) => {
                living.claim.flush(&*living.machine, &living.session).await;
                living.session.close();
                living.undo.unwind().await;
            }
            // Still protected if a wake failed and that could not be recorded.
            SandboxForm::Asleep(layer) => self.context.unprotect_layer(layer),
            SandboxForm::Dead => {}
        }
        self.forget().await;
        tracing::info!(sandbox = %self.id, ?why, "sandbox removed");
        let _ = self.events.send(HostEvent::Removed { id: self.id, why, cause: cause() });
        Ok(())
    }

    /// Refuses new uses from now on. Returns false, without an effect, if the sandbox is in use.
    pub(super) fn retire(&self) -> bool {
        match &self.body {
            SandboxForm::Living(living) => living.session.activity().retire_if_unused(),
            SandboxForm::Asleep(_) | SandboxForm::Dead => true,
        }
    }

    /// Accepts uses again, and restarts the idle time.
    pub(super) fn restart_idle_time(&self) {
        if let SandboxForm::Living(living) = &self.body {
            living.session.activity().unretire();
            living.session.activity().touch();
            // Wakes the callers that found it retired and wait for a change.
            self.tell.send_modify(|_| {});
        }
    }

    /// Ends the driver at shutdown, as the host decided.
    pub(super) async fn leave(&mut self) {
        match self.context.closing.leave() {
            ShutdownMode::Remove => {
                if self.take_down(RemovedBy::Request).await.is_err() {
                    self.leave_running();
                }
            }
            ShutdownMode::Running => self.leave_running(),
            ShutdownMode::Sleep => {
                if matches!(self.body, SandboxForm::Living(_)) && self.fall_asleep().await.is_err() {
                    // Better left running for the next process than lost.
                    tracing::warn!(sandbox = %self.id, "could not hibernate a sandbox; its machine keeps running");
                }
                if let SandboxForm::Living(living) = std::mem::replace(&mut self.body, SandboxForm::Dead) {
                    living.undo.forget();
                }
            }
        }
    }

    /// Leaves the machine, if there is one, to the next process.
    fn leave_running(&mut self) {
        if let SandboxForm::Living(living) = std::mem::replace(&mut self.body, SandboxForm::Dead) {
            living.session.close();
            living.undo.forget();
        }
    }

    /// Removes the sandbox from the ledger, with everything that only it used.
    pub(super) async fn forget(&self) {
        self.release_volumes().await;
        let (consoles, id) = (self.context.consoles.clone(), self.id);
        let _ = self.context.scope.block("forget console", move || consoles.forget(id)).await;
        self.log(self.context.ledger.sandbox_gone(self.id).await);
        self.context.collect_layers().await;
    }

    /// Saves the end of the machine's console before its folder is removed.
    pub(super) async fn keep_console(&self) {
        let (consoles, id) = (self.context.consoles.clone(), self.id);
        match self.context.scope.block("keep console", move || consoles.keep(id)).await {
            Ok(Ok(())) | Err(_) => {}
            Ok(Err(error)) => tracing::warn!(sandbox = %self.id, %error, "could not keep a console"),
        }
    }

    /// Releases the sandbox's volumes. Its machine must be gone.
    async fn release_volumes(&self) {
        if !self.spec.volumes.is_empty()
            && let Err(error) = self.context.volumes.release(self.id).await
        {
            tracing::error!(sandbox = %self.id, %error, "could not release the volumes of a sandbox");
        }
    }
}

fn unwritten() -> Fault {
    let text = "the host cannot write to its ledger, so the sandbox was not changed; the disk of the host may be \
                full; try again later";
    Fault::new(FaultKind::Storage, "host.storage", text)
}
