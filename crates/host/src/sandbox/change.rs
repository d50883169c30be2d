//! Carries out requests to a sandbox's driver: pause, resume, seal, sleep, wake, new terms. `step`
//! decides; this file acts.

use std::time::{Duration, Instant};

use pandastack_layers::{Durability, Layer};
use pandastack_model::{
    Egress, ExecDefaults, Fault, FaultKind, HostAction, LayerId, SandboxRefusal, SandboxRequest, SandboxSpec,
    SandboxState, state::step,
};
use pandastack_vmm::{Machine, MachineState, VolumeSlot};
use pandastack_wire_fleet::{HostEvent, IdlePolicy, LayerHold, LayerView, SandboxView, SealParams};

use super::{
    driver::{DriverRequest, OwnedSandbox, SandboxForm, cause},
    fault::{launch_fault, refusal_fault, seal_fault},
    identity::set_clock,
    launch::{self, LaunchTarget, death},
    seal::{AfterSeal, SealOutcome, SealPlan, go_on, pause_again, seal},
};
use crate::{
    ledger::{LedgerError, SandboxRecord},
    volumes::{SealedVolumes, VolumeGrowth},
};

/// Time limit for setting a guest's clock.
const CLOCK_DEADLINE: Duration = Duration::from_secs(5);

impl OwnedSandbox<'_> {
    /// Carries a request out and answers it. `since` is when the caller started waiting. The work
    /// is done even if the caller has left, except a wake: the next caller asks again.
    pub(super) async fn answer(&mut self, request: DriverRequest, since: Instant) {
        match request {
            DriverRequest::Remove(..) => unreachable!("removal ends the driver and is handled there"),
            DriverRequest::Pause(reply) => drop(reply.send(self.change(SandboxRequest::Pause, since).await)),
            DriverRequest::Resume(reply) => drop(reply.send(self.change(SandboxRequest::Resume, since).await)),
            DriverRequest::Sleep(reply) => drop(reply.send(self.change(SandboxRequest::Sleep, since).await)),
            DriverRequest::Wake(reply) if reply.is_closed() => {}
            DriverRequest::Wake(reply) => drop(reply.send(self.change(SandboxRequest::Wake, since).await)),
            DriverRequest::Seal(ask, defaults, reply) => {
                drop(reply.send(self.seal(ask, defaults, since).await));
                // Many short pauses would add up to a late clock. The caller does not wait for
                // this.
                if self.tell.borrow().view.state == SandboxState::Running {
                    self.set_clock().await;
                }
            }
            DriverRequest::SetEgress(egress, reply) => drop(reply.send(self.set_egress(egress).await)),
            DriverRequest::VolumeGrown(growth, reply) => drop(reply.send(self.volume_grown(growth).await)),
            DriverRequest::SetLifecycle(terms, reply) => drop(reply.send(self.set_lifecycle(terms).await)),
        }
    }

    async fn change(&mut self, ask: SandboxRequest, since: Instant) -> Result<SandboxView, Fault> {
        match self.decide(ask)? {
            HostAction::Stay => {}
            HostAction::Halt => self.halt().await?,
            HostAction::Continue => self.go_on().await?,
            HostAction::PutToSleep => self.fall_asleep().await?,
            HostAction::Restore => self.wake_for(since).await?,
            HostAction::Join | HostAction::Serve | HostAction::Seal | HostAction::TakeDown => {
                return Err(Fault::bug("unexpected step of a state change"));
            }
        }
        Ok(self.tell.borrow().seen())
    }

    fn decide(&self, ask: SandboxRequest) -> Result<HostAction, Fault> {
        let state = self.tell.borrow().view.state.clone();
        step(&state, ask).map_err(|refusal| refusal_fault(refusal, &state))
    }

    async fn halt(&mut self) -> Result<(), Fault> {
        let SandboxForm::Living(living) = &self.body else { return Err(Fault::bug("nothing to pause")) };
        if let Err(error) = living.machine.pause().await {
            // The machine may have paused despite the error.
            go_on(&*living.machine).await.map_err(machine_fault)?;
            self.set_clock().await;
            return Err(machine_fault(error));
        }
        living.session.activity().touch();
        if let Err(error) = self.record_state(SandboxState::Paused).await {
            // The next start would resume the guest, so the pause is undone. The line may have been
            // written despite the error.
            go_on(&*living.machine).await.map_err(machine_fault)?;
            self.log(self.record_state(SandboxState::Running).await);
            self.set_clock().await;
            return Err(error.into());
        }
        self.settle(SandboxState::Paused);
        Ok(())
    }

    async fn go_on(&mut self) -> Result<(), Fault> {
        let SandboxForm::Living(living) = &self.body else { return Err(Fault::bug("nothing to resume")) };
        let claim = self.context.volumes.held(self.id).await?;
        // Recorded before it runs: otherwise the next start would pause it again.
        if let Err(error) = self.record_state(SandboxState::Running).await {
            self.log(self.record_state(SandboxState::Paused).await);
            return Err(error.into());
        }
        if let Err(error) = living.machine.resume().await {
            // The machine may have resumed despite the error.
            self.halt_again(&*living.machine).await;
            self.log(self.record_state(SandboxState::Paused).await);
            return Err(machine_fault(error));
        }
        living.session.activity().touch();
        self.set_clock().await;
        // A volume may have grown while the guest was paused.
        if let Err(fault) = claim.grow_in_guest(&*living.machine, &living.session).await {
            tracing::warn!(sandbox = %self.id, %fault, "could not extend the file system of a grown volume");
        }
        self.settle(SandboxState::Running);
        Ok(())
    }

    /// Pauses a guest again that its owner has paused.
    async fn halt_again(&self, machine: &dyn Machine) {
        if let Err(error) = pause_again(machine).await
            && *machine.watch().borrow() == MachineState::Alive
        {
            tracing::error!(sandbox = %self.id, %error, "could not pause a sandbox again; it is running");
        }
    }

    /// Sets a guest's clock after a pause, because the clock stopped too. A failure is only logged.
    pub(super) async fn set_clock(&self) {
        let SandboxForm::Living(living) = &self.body else { return };
        let told = async {
            let set = set_clock(&living.session, living.secret.reveal(), self.context.settings.clock_exchange_max);
            match tokio::time::timeout(CLOCK_DEADLINE, set).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!(sandbox = %self.id, %error, "could not set the guest's clock"),
                Err(_) => tracing::warn!(sandbox = %self.id, "could not set the guest's clock in time"),
            }
        };
        tokio::select! {
            () = told => {}
            _ = death(&*living.machine) => {}
            () = self.given_up.cancelled() => {}
        }
    }

    /// Records a new state of the sandbox in the ledger.
    pub(super) async fn record_state(&self, state: SandboxState) -> Result<(), LedgerError> {
        let (layer, secret) = match &self.body {
            SandboxForm::Living(living) => (None, Some(living.secret.reveal().clone())),
            SandboxForm::Asleep(layer) => (Some(*layer), None),
            SandboxForm::Dead => (None, None),
        };
        self.context.ledger.record(self.id, &SandboxRecord { state, layer, secret }).await
    }

    /// Publishes a new state and sends an event.
    fn settle(&mut self, state: SandboxState) {
        self.tell.send_modify(|now| now.view.state = state);
        self.announce();
    }

    fn announce(&self) {
        let _ = self.events.send(HostEvent::Changed { view: self.tell.borrow().seen(), cause: cause() });
    }

    async fn volume_grown(&mut self, growth: VolumeGrowth) -> Result<(), Fault> {
        match &self.body {
            SandboxForm::Living(living) if self.tell.borrow().view.state == SandboxState::Running => {
                growth.tell(&*living.machine, &living.session).await
            }
            // A sandbox that resumes or wakes later reads the size then.
            SandboxForm::Living(_) | SandboxForm::Asleep(_) | SandboxForm::Dead => Ok(()),
        }
    }

    async fn seal(
        &mut self,
        ask: SealParams,
        defaults: Option<ExecDefaults>,
        since: Instant,
    ) -> Result<LayerView, Fault> {
        if let Some(view) = self.sealed_before(ask).await? {
            return Ok(view);
        }
        if self.decide(SandboxRequest::Seal)? == HostAction::Restore {
            self.wake_for(since).await?;
        }
        let SandboxForm::Living(living) = &self.body else { return Err(Fault::bug("nothing to seal")) };
        let (durability, volumes) = match ask.hold {
            // A volume that is only read may be gone when a sandbox starts from the layer.
            LayerHold::Kept => (Durability::Now, SealedVolumes::All),
            LayerHold::Passing => (Durability::Later, SealedVolumes::Written),
        };
        // Protected before it exists, so that it is not collected between its seal and its first
        // use.
        self.context.protect_layer(ask.layer);
        let then = AfterSeal::GoOn;
        let plan = SealPlan { layer: ask.layer, source: self.id, durability, then, volumes, defaults };
        let sealed = seal(&self.context, living, plan).await;
        let SealOutcome { layer, pause, own } = match sealed {
            Ok(sealed) => sealed,
            Err(error) => {
                self.context.release_layer(ask.layer).await;
                return Err(seal_fault(error));
            }
        };
        match ask.hold {
            LayerHold::Kept => {
                let kept = self.context.ledger.keep(ask.layer).await;
                self.context.release_layer(ask.layer).await;
                kept?;
            }
            LayerHold::Passing => self.context.flush_later(layer),
        }
        tracing::info!(sandbox = %self.id, layer = %ask.layer, pause_ms = pause.as_millis() as u64, "sealed");
        Ok(LayerView { layer: ask.layer, own, pause })
    }

    /// Answers a repeated seal request with the layer that exists already.
    async fn sealed_before(&self, ask: SealParams) -> Result<Option<LayerView>, Fault> {
        let layer = ask.layer;
        let Some(row) = self.context.ledger.layer(layer).await? else { return Ok(None) };
        if row.source != self.id {
            return Err(Fault::new(FaultKind::Conflict, "layer.exists", "this layer was created from another sandbox"));
        }
        // A failed attempt may have left a ledger line without a layer.
        let (store, scope) = (self.context.layers.clone(), self.context.scope.clone());
        let opened = scope.block("open layer", move || store.open_layer(layer)).await.map_err(Fault::bug)?;
        let Ok(opened) = opened else { return Ok(None) };
        match (ask.hold, row.hold) {
            (LayerHold::Kept, LayerHold::Kept) => {}
            (LayerHold::Kept, LayerHold::Passing) => {
                check_images(&opened)?;
                let flushed = scope.block("flush layer", move || opened.flush()).await.map_err(Fault::bug)?;
                flushed.map_err(Fault::bug)?;
                self.context.ledger.keep(layer).await?;
            }
            (LayerHold::Passing, _) => self.context.protect_layer(layer),
        }
        Ok(Some(LayerView { layer, own: pandastack_model::ByteSize::new(0), pause: std::time::Duration::ZERO }))
    }

    /// Puts an idle sandbox to sleep, unless a new use has begun.
    pub(super) async fn rest(&mut self) {
        let SandboxForm::Living(living) = &self.body else { return };
        if !living.session.activity().retire_if_unused() {
            return;
        }
        if let Err(fault) = self.fall_asleep().await {
            tracing::warn!(sandbox = %self.id, %fault, "could not hibernate an idle sandbox; it keeps running");
            if let SandboxForm::Living(living) = &self.body {
                // Restart the idle time, so that the next attempt does not follow at once.
                living.session.activity().touch();
            }
        }
    }

    /// Seals the machine and releases it. Nothing is released before the layer is durable and the
    /// ledger records it. An earlier failure leaves the machine as it was.
    pub(super) async fn fall_asleep(&mut self) -> Result<(), Fault> {
        let before = self.tell.borrow().view.state.clone();
        let SandboxForm::Living(living) = &self.body else { return Err(Fault::bug("nothing to hibernate")) };
        living.session.activity().retire();
        self.tell.send_modify(|now| now.without(SandboxState::FallingAsleep));
        let layer = LayerId::random();
        self.context.protect_layer(layer);
        let outcome = self.seal_for_sleep(layer, &before).await;
        if outcome.is_ok() {
            // The sandbox is now its layer. The rest is cleanup.
            if let SandboxForm::Living(living) = std::mem::replace(&mut self.body, SandboxForm::Asleep(layer)) {
                living.session.close();
                self.keep_console().await;
                living.undo.unwind().await;
            }
            self.tell.send_modify(|now| now.without(SandboxState::Asleep));
            self.announce();
        } else if let SandboxForm::Living(living) = &self.body {
            living.session.activity().unretire();
            let paused = before == SandboxState::Paused;
            self.tell.send_modify(|now| now.living(living, before));
            if !paused {
                self.set_clock().await;
            }
        }
        self.context.release_layer(layer).await;
        outcome
    }

    async fn seal_for_sleep(&self, layer: LayerId, before: &SandboxState) -> Result<(), Fault> {
        let SandboxForm::Living(living) = &self.body else { return Err(Fault::bug("nothing to hibernate")) };
        let (durability, then) = (Durability::Now, AfterSeal::StayPaused);
        let volumes = SealedVolumes::None;
        let plan = SealPlan { layer, source: self.id, durability, then, volumes, defaults: None };
        // A sleeping sandbox may be deleted without waking, so its writes must reach its volumes
        // now. A paused guest runs for this.
        living.claim.flush(&*living.machine, &living.session).await;
        let sealed = seal(&self.context, living, plan).await;
        let halted_again = async || {
            // A failed seal resumes the guest. One that its owner had paused is paused again.
            living.claim.unflush(&living.session).await;
            if *before == SandboxState::Paused {
                self.halt_again(&*living.machine).await;
            }
        };
        let sealed = match sealed {
            Ok(sealed) => sealed,
            Err(error) => {
                halted_again().await;
                return Err(seal_fault(error));
            }
        };
        let secret = Some(living.secret.reveal().clone());
        let asleep = SandboxRecord { state: SandboxState::Asleep, layer: Some(layer), secret };
        if let Err(error) = self.context.ledger.record_durably(self.id, &asleep).await {
            // The line may have been written despite the error. A running sandbox must not be
            // recorded as asleep.
            let awake = SandboxRecord { state: before.clone(), layer: None, ..asleep };
            self.log(self.context.ledger.record(self.id, &awake).await);
            go_on(&*living.machine).await.map_err(machine_fault)?;
            halted_again().await;
            return Err(error.into());
        }
        tracing::info!(sandbox = %self.id, own = %sealed.own, ms = sealed.pause.as_millis() as u64, "hibernated");
        // During shutdown the disk is left to the other seals.
        if !self.context.is_crowded() && !self.context.scope.token().is_cancelled() {
            // Read the pages that the guest needs first into the page cache, so that an early wake
            // need not wait for the disk. The kernel evicts them before pages in use.
            self.context.read_ahead(sealed.layer.files.clone());
        }
        Ok(())
    }

    /// Wakes the sandbox. A caller that started waiting before the last attempt failed gets that
    /// attempt's fault: a guest that never answers must not be waited for once per caller.
    async fn wake_for(&mut self, since: Instant) -> Result<(), Fault> {
        if let Some((ended, fault)) = &self.unwoken
            && since < *ended
        {
            return Err(fault.clone());
        }
        let SandboxForm::Asleep(layer) = self.body else { return Err(Fault::bug("nothing to wake")) };
        // Protected, so that it is not collected between two ledger writes, or because one of them
        // fails.
        self.context.protect_layer(layer);
        let woken = self.wake(layer).await;
        match self.body {
            SandboxForm::Living(_) => {
                self.is_unwritten = false;
                self.context.unprotect_layer(layer);
            }
            // The ledger line may not name the layer, so the layer stays protected.
            SandboxForm::Asleep(_) if self.is_unwritten => {}
            SandboxForm::Asleep(_) | SandboxForm::Dead => self.context.release_layer(layer).await,
        }
        // An attempt that a removal cancelled says nothing about the next one: the removal may be
        // refused.
        let failed = woken.as_ref().err().filter(|_| !self.given_up.is_cancelled());
        self.unwoken = failed.map(|fault| (Instant::now(), fault.clone()));
        woken
    }

    /// Restores the machine from the layer the sandbox sleeps in. A failure leaves it asleep,
    /// unless its guest may have written to a volume by then.
    async fn wake(&mut self, layer: LayerId) -> Result<(), Fault> {
        self.tell.send_modify(|now| now.without(SandboxState::Waking));
        let claim = match self.context.volumes.held(self.id).await {
            Ok(claim) => claim,
            Err(fault) => {
                self.tell.send_modify(|now| now.without(SandboxState::Asleep));
                return Err(fault);
            }
        };
        let (id, spec, given_up) = (self.id, &self.spec, &self.given_up.token());
        let wanted = LaunchTarget { id, spec, claim: &claim, given_up, no_return: false.into() };
        let woken = launch::wake(&self.context, &self.standby, layer, &wanted).await;
        match woken {
            Ok(living) => match self.record_and_publish(living, "woke").await {
                Ok(()) => {
                    self.announce();
                    Ok(())
                }
                Err((living, fault)) => {
                    if !claim.writes() {
                        // The line may have been written despite the error, and it does not name
                        // the layer to wake from. Record the sleep again.
                        self.sleep_on().await;
                    }
                    living.undo.unwind().await;
                    if claim.writes() {
                        let reason = "the sandbox woke, but the host could not record it".to_owned();
                        self.fail(reason.clone()).await;
                        // A retry is useless: the sandbox has failed for good.
                        let failed = refusal_fault(SandboxRefusal::Dead, &SandboxState::Failed { reason });
                        return Err(fault.detail.into_iter().fold(failed, Fault::with_detail));
                    }
                    self.tell.send_modify(|now| now.without(SandboxState::Asleep));
                    Err(fault)
                }
            },
            Err(error) => {
                let lost = wanted.no_return.into_inner().then(|| {
                    format!("the wake failed after the guest may already have written to its volumes: {error}")
                });
                if let Some(reason) = lost.clone() {
                    self.fail(reason).await;
                } else {
                    if claim.writes() {
                        // The ledger may already say that the wake is final, although the guest
                        // never ran.
                        self.sleep_on().await;
                    }
                    self.tell.send_modify(|now| now.without(SandboxState::Asleep));
                }
                let fault = launch_fault(error, &self.spec);
                // A retry is useless if the sandbox was removed meanwhile or has failed for good.
                if self.given_up.is_cancelled() {
                    return Err(fault);
                }
                if let Some(reason) = lost {
                    return Err(refusal_fault(SandboxRefusal::Dead, &SandboxState::Failed { reason }));
                }
                tracing::warn!(sandbox = %self.id, %fault, "could not wake a sandbox");
                // The owner can fix this: hibernate another sandbox.
                if fault.kind == FaultKind::Quota {
                    return Err(fault);
                }
                // The sandbox exists, so any shortage is reported as unavailable, not as the
                // caller's error.
                let text = format!("auto-wake: {}", fault.text);
                let woken = Fault::new(FaultKind::Unavailable, "sandbox.wake_failed", text);
                Err(fault.detail.into_iter().fold(woken, Fault::with_detail))
            }
        }
    }

    /// Records that a sandbox that could not be woken is still asleep, over any line written
    /// meanwhile.
    async fn sleep_on(&mut self) {
        let written = self.record_state(SandboxState::Asleep).await;
        self.is_unwritten = written.is_err();
        self.log(written);
    }

    async fn set_egress(&mut self, egress: Egress) -> Result<(), Fault> {
        self.respecify(SandboxSpec { egress, ..self.spec.clone() }).await
    }

    async fn set_lifecycle(&mut self, terms: IdlePolicy) -> Result<SandboxView, Fault> {
        let IdlePolicy { ttl_seconds, persistent } = terms;
        self.respecify(SandboxSpec { ttl_seconds, persistent, ..self.spec.clone() }).await?;
        Ok(self.tell.borrow().seen())
    }

    /// Applies new terms to a sandbox, all of them or none.
    async fn respecify(&mut self, new: SandboxSpec) -> Result<(), Fault> {
        // Recorded first: after a crash the next start applies the new terms, and a failed write
        // leaves the guest unchanged.
        let written = self.context.ledger.update_spec(self.id, &new).await.map_err(Fault::from);
        let set = match written {
            Ok(()) => self.restrict(&new.egress).await,
            Err(fault) => Err(fault),
        };
        match set {
            Ok(()) => self.spec = new,
            Err(fault) => {
                // The line may have been written despite the error. A change that failed must not
                // take effect at the next start.
                self.log(self.context.ledger.update_spec(self.id, &self.spec).await);
                if let Err(error) = self.restrict(&self.spec.egress).await {
                    tracing::error!(sandbox = %self.id, %error, "could not restore the network rules");
                }
                return Err(fault);
            }
        }
        Ok(())
    }

    /// Applies egress rules to a guest that has a machine.
    async fn restrict(&self, egress: &Egress) -> Result<(), Fault> {
        let SandboxForm::Living(living) = &self.body else { return Ok(()) };
        match &*living.slot.lock().await {
            Some(slot) => slot.set_egress(egress).await.map_err(Fault::bug),
            None => Ok(()),
        }
    }
}

fn machine_fault(error: pandastack_vmm::MachineError) -> Fault {
    Fault::new(FaultKind::Unavailable, "machine.refused", "the sandbox's machine did not carry out a command")
        .with_detail(error)
}

/// Refuses to keep the layer of a fork whose images of volumes were removed after its children had
/// their clones.
fn check_images(layer: &Layer) -> Result<(), Fault> {
    let slots =
        VolumeSlot::all().filter(|slot| layer.manifest.volumes.iter().any(|image| image.slot == slot.to_string()));
    let mut images = slots.map(|slot| layer.files.volume(slot));
    if images.all(|image| image.exists()) {
        return Ok(());
    }
    let text = "the layer of this fork no longer has its volumes; take a new snapshot of the sandbox";
    Err(Fault::new(FaultKind::Conflict, "layer.no_volumes", text))
}
