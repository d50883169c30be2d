//! What others see of a sandbox: the last value of a watch channel, which only its driver and its
//! supervisor write.

use std::time::{Duration, Instant};

use pandastack_layers::Manifest;
use pandastack_model::{ExecDefaults, Fault, SandboxId, SandboxState, Tier};
use pandastack_wire_fleet::SandboxView;

use super::{SlotHandle, living::LivingMachine};
use crate::{guest::GuestSession, net::GUEST};

/// The published state of a sandbox.
#[derive(Clone)]
pub struct PublishedState {
    pub view: SandboxView,
    /// The link to the guest, while there is a machine.
    pub session: Option<GuestSession>,
    /// The machine's network slot, while there is a link.
    pub slot: Option<SlotHandle>,
    /// The process of its machine, while it has one.
    pub pid: Option<u32>,
    /// When the guest answered first. Unknown if an earlier process started the machine.
    pub since: Option<Instant>,
    /// Exec defaults of the layer below.
    pub defaults: ExecDefaults,
    /// Why the sandbox ended: its launch failed or its driver panicked.
    pub refused: Option<Fault>,
}

impl PublishedState {
    /// Describes a sandbox whose machine is being made.
    pub fn creating(id: SandboxId, isolation: Tier) -> Self {
        let view = SandboxView {
            id,
            state: SandboxState::Creating,
            isolation,
            cpus: 0,
            memory_mib: 0,
            disk_mib: 0,
            guest_ip: GUEST.to_string(),
            boot: Duration::ZERO,
            prepared: Duration::ZERO,
            boot_mode: "cold",
            idle: Duration::ZERO,
        };
        let defaults = ExecDefaults::default();
        Self { view, session: None, slot: None, pid: None, since: None, defaults, refused: None }
    }

    /// Returns the view with the current idle time, in whole seconds.
    pub fn seen(&self) -> SandboxView {
        let idle = self.session.as_ref().map_or(Duration::ZERO, |session| session.activity().idle());
        let idle = Duration::from_secs(idle.as_secs());
        SandboxView { idle, ..self.view.clone() }
    }

    /// Describes a sandbox with a machine, running or paused.
    pub fn living(&mut self, living: &LivingMachine, state: SandboxState) {
        self.sized(&living.layer.manifest);
        self.view.state = state;
        (self.view.boot, self.view.boot_mode) = (living.boot, living.boot_mode);
        self.view.prepared = living.prepared;
        (self.pid, self.since) = (living.machine.pid(), living.since);
        self.session = Some(living.session.clone());
        self.slot = Some(living.slot.clone());
        self.defaults = defaults_of(&living.layer.manifest);
    }

    /// Describes a sleeping sandbox.
    pub fn asleep(&mut self, manifest: &Manifest) {
        self.sized(manifest);
        self.without(SandboxState::Asleep);
    }

    /// Describes a sandbox that cannot be used, and clears its link, slot and process.
    pub fn without(&mut self, state: SandboxState) {
        self.view.state = state;
        (self.session, self.slot) = (None, None);
        (self.pid, self.since) = (None, None);
    }

    fn sized(&mut self, manifest: &Manifest) {
        self.view.cpus = manifest.cpus;
        self.view.memory_mib = manifest.memory.as_mib();
        self.view.disk_mib = manifest.disk.as_mib();
    }
}

/// Exec defaults of everything that is made from a layer.
pub fn defaults_of(manifest: &Manifest) -> ExecDefaults {
    manifest.defaults.clone().map(ExecDefaults::from).unwrap_or_default()
}
