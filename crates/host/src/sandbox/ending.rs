//! How a sandbox ends: by request, out of idleness, by the death of its machine, or with its host.

use pandastack_model::{Fault, FaultKind, SandboxState};
use pandastack_wire_fleet::{HostEvent, RemovedBy};

use super::{
    closing::Leave,
    driver::{Body, Owned, cause},
};
use crate::ledger::Record;

impl Owned<'_> {
    /// Gives up a sandbox whose machine is dead or must not go on. What it was is told until its
    /// owner removes it.
    pub(super) async fn fail(&mut self, reason: String) {
        tracing::info!(sandbox = %self.id, reason, "sandbox failed");
        let living = match std::mem::replace(&mut self.body, Body::Dead) {
            Body::Living(living) => Some(living),
            Body::Asleep(_) => None,
            Body::Dead => return,
        };
        if let Some(living) = &living {
            // The link of a killed machine stays silent instead of breaking: end it, and with it
            // what waits on it.
            living.session.close();
        }
        let failed = SandboxState::Failed { reason: reason.clone() };
        self.tell.send_modify(|now| now.without(failed.clone()));
        self.log(self.context.ledger.record(self.id, &Record { state: failed, layer: None, secret: None }).await);
        let _ = self.events.send(HostEvent::Failed { id: self.id, reason });
        if let Some(living) = living {
            self.keep_console().await;
            living.undo.unwind().await;
        }
        self.let_go_volumes().await;
        self.context.collect_layers().await;
    }

    /// Removes the sandbox and everything it held. One whose end cannot be written down stays as it
    /// is: the next start would find it on the ledger and bring it back.
    pub(super) async fn take_down(&mut self, why: RemovedBy) -> Result<(), Fault> {
        // Written down first: a crash from here on is finished by the next start. The line of a
        // sleeper still names its layer: if only the answer is lost, it sleeps on in that.
        if let Err(error) = self.write_down(SandboxState::Stopping).await {
            tracing::error!(sandbox = %self.id, %error, "not removed: the ledger cannot be written");
            // The line may have been written all the same.
            let before = self.tell.borrow().view.state.clone();
            self.log(self.write_down(before).await);
            return Err(unwritten());
        }
        self.tell.send_modify(|now| now.without(SandboxState::Stopping));
        match std::mem::replace(&mut self.body, Body::Dead) {
            Body::Living(living) => {
                living.claim.flush(&*living.machine, &living.session).await;
                living.session.close();
                living.undo.unwind().await;
            }
            // Still in hand if a wake failed that could not be written down.
            Body::Asleep(layer) => self.context.unprotect_layer(layer),
            Body::Dead => {}
        }
        self.forget().await;
        tracing::info!(sandbox = %self.id, ?why, "sandbox removed");
        let _ = self.events.send(HostEvent::Removed { id: self.id, why, cause: cause() });
        Ok(())
    }

    /// Takes no more uses, unless there is one in this moment.
    pub(super) fn retire(&self) -> bool {
        match &self.body {
            Body::Living(living) => living.session.activity().retire_if_unused(),
            Body::Asleep(_) | Body::Dead => true,
        }
    }

    /// Takes uses again, and begins another idle time.
    pub(super) fn put_off(&self) {
        if let Body::Living(living) = &self.body {
            living.session.activity().unretire();
            living.session.activity().touch();
            // Who found it retired waits for news.
            self.tell.send_modify(|_| {});
        }
    }

    /// Ends with the process: as the host decided.
    pub(super) async fn leave(&mut self) {
        match self.context.closing.leave() {
            Leave::Remove => {
                if self.take_down(RemovedBy::Request).await.is_err() {
                    self.leave_running();
                }
            }
            Leave::Running => self.leave_running(),
            Leave::Sleep => {
                if matches!(self.body, Body::Living(_)) && self.fall_asleep().await.is_err() {
                    // Rather left running for the next process than lost.
                    tracing::warn!(sandbox = %self.id, "not put to sleep; its machine is left running");
                }
                if let Body::Living(living) = std::mem::replace(&mut self.body, Body::Dead) {
                    living.undo.forget();
                }
            }
        }
    }

    /// Leaves the machine, if there is one, to the next process.
    fn leave_running(&mut self) {
        if let Body::Living(living) = std::mem::replace(&mut self.body, Body::Dead) {
            living.session.close();
            living.undo.forget();
        }
    }

    /// Takes the sandbox off the ledger, and with it what only it used.
    pub(super) async fn forget(&self) {
        self.let_go_volumes().await;
        let (consoles, id) = (self.context.consoles.clone(), self.id);
        let _ = self.context.scope.block("forget console", move || consoles.forget(id)).await;
        self.log(self.context.ledger.sandbox_gone(self.id).await);
        self.context.collect_layers().await;
    }

    /// Keeps the end of the machine's console: its folder is about to go.
    pub(super) async fn keep_console(&self) {
        let (consoles, id) = (self.context.consoles.clone(), self.id);
        match self.context.scope.block("keep console", move || consoles.keep(id)).await {
            Ok(Ok(())) | Err(_) => {}
            Ok(Err(error)) => tracing::warn!(sandbox = %self.id, %error, "console not kept"),
        }
    }

    /// Lets the sandbox's volumes go: its machine is gone.
    async fn let_go_volumes(&self) {
        if !self.spec.volumes.is_empty()
            && let Err(error) = self.context.volumes.release_layer(self.id).await
        {
            tracing::error!(sandbox = %self.id, %error, "volumes not let go");
        }
    }
}

fn unwritten() -> Fault {
    let text = "the host cannot write to its ledger, so the sandbox was left as it is; its disk may be full: try again";
    Fault::new(FaultKind::Storage, "host.storage", text)
}
