//! What others may see of a sandbox: the last value of a watch channel, written by its driver only.

use std::time::Duration;

use pandastack_layers::Manifest;
use pandastack_model::{Fault, SandboxId, SandboxState, Tier};
use pandastack_wire_fleet::SandboxView;

use crate::{guest::Session, net::GUEST};

/// A sandbox at one moment.
#[derive(Clone)]
pub struct Condition {
    pub view: SandboxView,
    /// The link, while the guest answers.
    pub session: Option<Session>,
    /// Why the launch failed, if it did; the sandbox is gone then.
    pub refused: Option<Fault>,
}

impl Condition {
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
            boot_mode: "cold",
            idle: Duration::ZERO,
        };
        Self { view, session: None, refused: None }
    }

    /// Describes it once its guest answers.
    pub fn running(mut self, manifest: &Manifest, session: Session, boot: Duration, boot_mode: &'static str) -> Self {
        self.view.state = SandboxState::Running;
        self.view.cpus = manifest.cpus;
        self.view.memory_mib = manifest.memory.as_mib();
        self.view.disk_mib = manifest.disk.as_mib();
        (self.view.boot, self.view.boot_mode) = (boot, boot_mode);
        self.session = Some(session);
        self
    }

    /// Describes it once its machine is dead.
    pub fn failed(mut self, reason: String) -> Self {
        self.view.state = SandboxState::Failed { reason };
        self.session = None;
        self
    }

    /// Describes it while it is taken down.
    pub fn stopping(mut self) -> Self {
        self.view.state = SandboxState::Stopping;
        self.session = None;
        self
    }
}
