//! Sandboxes of the stub: started, changed, sealed and forked.

use std::time::Duration;

use pandastack_model::{
    ByteSize, Fault, FaultKind, HostAction, SandboxId, SandboxOrigin, SandboxRequest, SandboxSpec, SandboxState, Tier,
    VolumeAccess, state::step,
};

use super::StubHost;
use crate::{
    EnsureParams, ForkOutcome, ForkParams, HostEvent, IdlePolicy, LayerHold, LayerView, MachineFact, MachineUsage,
    RecordedSandbox, SandboxView, SealParams, UsageCursor, UsagePage, UseKind,
};

/// Name of the stub's ledger.
const STUB_LEDGER: &str = "stub";
/// Size of a volume that comes with a layer.
const CLONE_SIZE: ByteSize = ByteSize::gib(1);

/// A running sandbox, started from a standby machine.
fn sandbox_view(id: SandboxId) -> SandboxView {
    SandboxView {
        id,
        state: SandboxState::Running,
        isolation: Tier::Fake,
        cpus: 2,
        memory_mib: 512,
        disk_mib: 1024,
        guest_ip: "10.0.0.2".into(),
        boot: Duration::from_millis(12),
        prepared: Duration::from_millis(7),
        boot_mode: "standby",
        idle: Duration::from_secs(7),
    }
}

impl StubHost {
    /// Adds a running sandbox without a request.
    pub fn add(&self, id: SandboxId) {
        self.sandboxes.lock().unwrap().insert(id, sandbox_view(id));
    }

    /// Returns the number of sandboxes.
    pub fn count(&self) -> usize {
        self.sandboxes.lock().unwrap().len()
    }

    /// Lists what was asked for the sandboxes. One without a request has default settings.
    pub(super) fn recorded_now(&self) -> Vec<RecordedSandbox> {
        let (sandboxes, ensured) = (self.sandboxes.lock().unwrap(), self.ensured.lock().unwrap());
        let lifecycles = self.lifecycles.lock().unwrap();
        let recorded = |id: &SandboxId| {
            let plain = || EnsureParams { id: *id, generation: 1, spec: SandboxSpec::of("mini".parse().unwrap()) };
            let mut ask = ensured.get(id).cloned().unwrap_or_else(plain);
            if let Some(IdlePolicy { ttl_seconds, persistent }) = lifecycles.get(id) {
                (ask.spec.ttl_seconds, ask.spec.persistent) = (*ttl_seconds, *persistent);
            }
            RecordedSandbox { ask, since_ns: None }
        };
        sandboxes.keys().map(recorded).collect()
    }

    /// Returns the state of a sandbox.
    pub fn state(&self, id: &str) -> SandboxState {
        self.sandboxes.lock().unwrap()[&id.parse().unwrap()].state.clone()
    }

    /// Changes a sandbox as the host does on its own, and sends the event.
    pub fn change(&self, id: SandboxId, change: impl FnOnce(&mut SandboxView)) -> SandboxView {
        let view = {
            let mut sandboxes = self.sandboxes.lock().unwrap();
            let view = sandboxes.get_mut(&id).unwrap();
            change(view);
            view.clone()
        };
        let cause = *self.cause.lock().unwrap();
        // Without a subscriber nobody needs the event.
        let _ = self.events.send(HostEvent::Changed { view: view.clone(), cause: cause() });
        view
    }

    /// Handles a request as the model's table of states says.
    pub(super) fn step(&self, verb: &'static str, id: SandboxId, ask: SandboxRequest) -> Result<SandboxView, Fault> {
        self.check(verb)?;
        let now = self.sandboxes.lock().unwrap().get(&id).cloned().ok_or_else(Fault::no_sandbox)?;
        let wrong =
            || Fault::new(FaultKind::Conflict, "sandbox.invalid_state", format!("the sandbox is {}", now.state));
        match step(&now.state, ask).map_err(|_| wrong())? {
            HostAction::Halt => Ok(self.change(id, |view| view.state = SandboxState::Paused)),
            HostAction::Continue => Ok(self.change(id, |view| view.state = SandboxState::Running)),
            HostAction::PutToSleep => Ok(self.change(id, |view| view.state = SandboxState::Asleep)),
            HostAction::Restore => Ok(self.change(id, |view| {
                (view.state, view.boot_mode, view.boot) = (SandboxState::Running, "wake", Duration::from_millis(34));
            })),
            _ => Ok(now),
        }
    }

    /// Prepares a sandbox to serve a request to its guest. Wakes it if it sleeps.
    pub(super) fn serve(&self, verb: &'static str, id: SandboxId) -> Result<(), Fault> {
        self.step(verb, id, SandboxRequest::Use).map(drop)
    }

    /// Prepares a sandbox like `serve`, but wakes it for a client only.
    pub(super) fn serve_as(&self, verb: &'static str, id: SandboxId, by: UseKind) -> Result<(), Fault> {
        let state = self.sandboxes.lock().unwrap().get(&id).map(|view| view.state.clone());
        match (by, state) {
            (UseKind::Platform, Some(SandboxState::Asleep)) => Err(UseKind::asleep()),
            _ => self.serve(verb, id),
        }
    }

    pub(super) fn start(&self, ask: EnsureParams, boot_mode: &'static str) -> Result<SandboxView, Fault> {
        for mount in &ask.spec.volumes {
            let users = self.volume_users(mount.volume);
            let alone = mount.access == VolumeAccess::ReadWrite;
            if users.iter().any(|(_, access)| alone || *access == VolumeAccess::ReadWrite) {
                return Err(Fault::new(FaultKind::Conflict, "volume.in_use", "the volume has a writer"));
            }
        }
        if ask.spec.origin != SandboxOrigin::Template {
            // The layer has images of the volumes that do not exist.
            let mut volumes = self.volumes.lock().unwrap();
            for mount in &ask.spec.volumes {
                volumes.entry(mount.volume).or_insert(CLONE_SIZE);
            }
        }
        let view = SandboxView { boot_mode, isolation: *self.tier.lock().unwrap(), ..sandbox_view(ask.id) };
        self.sandboxes.lock().unwrap().insert(ask.id, view.clone());
        self.ensured.lock().unwrap().insert(ask.id, ask);
        Ok(view)
    }

    pub(super) fn seal_now(&self, id: SandboxId, ask: SealParams) -> Result<LayerView, Fault> {
        self.step("seal", id, SandboxRequest::Seal)?;
        self.layers.lock().unwrap().insert(ask.layer, ask.hold);
        self.seal_processes(id, ask.layer);
        Ok(LayerView { layer: ask.layer, own: ByteSize::mib(24), pause: Duration::from_millis(5) })
    }

    pub(super) fn fork_now(&self, ask: ForkParams) -> Result<ForkOutcome, Fault> {
        let layer = self.seal_now(ask.parent, SealParams { layer: ask.layer, hold: LayerHold::Passing })?;
        let mut failing = self.take_failing_children();
        let start = |(index, child)| failing.remove(&index).map_or_else(|| self.start(child, "fork"), Err);
        Ok(ForkOutcome { layer, children: ask.children.into_iter().enumerate().map(start).collect() })
    }

    /// The revision of a fact is its place in the list, from 1.
    pub(super) fn usage_page(&self, after: &UsageCursor, most: usize) -> UsagePage {
        let facts = self.machine_facts.lock().unwrap();
        let begin = if after.ledger == STUB_LEDGER { (after.revision as usize).min(facts.len()) } else { 0 };
        let page: Vec<MachineFact> = facts[begin..].iter().take(most).copied().collect();
        let read = begin + page.len();
        let cursor = UsageCursor { ledger: STUB_LEDGER.to_owned(), revision: read as u64 };
        UsagePage { facts: page, cursor, more: read < facts.len() }
    }

    pub(super) fn usage_now(&self, id: SandboxId) -> Result<Option<MachineUsage>, Fault> {
        let sandboxes = self.sandboxes.lock().unwrap();
        let view = sandboxes.get(&id).ok_or_else(Fault::no_sandbox)?;
        let usage = MachineUsage {
            id,
            pid: 77,
            up: Duration::from_secs(9),
            cpu: Duration::from_secs(1),
            resident: ByteSize::mib(10),
            mapped: ByteSize::mib(20),
            threads: 4,
        };
        Ok((view.state == SandboxState::Running).then_some(usage))
    }
}
