//! The sandboxes and layers of an operation: made before it, checked after it, and removed at the
//! end.

use pandastack_host::Ledger;
use pandastack_model::{
    ByteSize, Egress, Fault, LayerId, SandboxId, SandboxSpec, SandboxState, VolumeAccess, VolumeId, VolumeMount,
};
use pandastack_testbed::{FakeBed, spec};
use pandastack_wire_fleet::{EnsureParams, ForkParams, HostPort, IdlePolicy, LayerHold, SealParams};

use crate::SOON;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Create,
    CreateWithVolume,
    Fork,
    Seal,
    Sleep,
    SleepPaused,
    Wake,
    WakeWriter,
    Pause,
    Resume,
    SetEgress,
    SetLifecycle,
    Remove,
    RemoveSleeper,
    RemoveWithVolume,
    RemoveVolume,
}

/// The new lifecycle of a sandbox.
const OTHER: IdlePolicy = IdlePolicy { ttl_seconds: 4321, persistent: true };

impl Operation {
    /// Whether its sandbox writes a volume.
    fn writes(self) -> bool {
        matches!(self, Operation::CreateWithVolume | Operation::WakeWriter | Operation::RemoveWithVolume)
    }

    /// Whether no sandbox exists before it.
    pub fn creates(self) -> bool {
        matches!(self, Operation::Create | Operation::CreateWithVolume)
    }

    /// Whether it changes the specification of a sandbox.
    pub fn respecifies(self) -> bool {
        matches!(self, Operation::SetEgress | Operation::SetLifecycle)
    }
}

/// The resources of an operation.
pub struct Scene {
    pub operation: Operation,
    pub id: SandboxId,
    pub children: Vec<SandboxId>,
    pub layer: LayerId,
    volume: VolumeId,
}

/// The state that a host reports.
pub struct Said {
    pub sandbox: Option<SandboxState>,
    pub children: Vec<Option<SandboxState>>,
    /// Whether the requested layer is kept.
    pub layer: bool,
}

impl Scene {
    /// Makes the resources that the operation needs.
    pub async fn set(bed: &FakeBed, operation: Operation) -> Self {
        let scene = Self {
            operation,
            id: SandboxId::random(),
            children: vec![SandboxId::random(), SandboxId::random()],
            layer: LayerId::random(),
            volume: VolumeId::random(),
        };
        if operation.writes() || operation == Operation::RemoveVolume {
            bed.host.make_volume(scene.volume, ByteSize::mib(16)).await.unwrap();
        }
        if !operation.creates() {
            bed.ensure_with(scene.id, scene.mounts()).await.unwrap();
            bed.put(scene.id, "/note", "kept").await.unwrap();
        }
        match operation {
            Operation::Wake | Operation::WakeWriter | Operation::RemoveSleeper => {
                bed.host.sleep(scene.id).await.unwrap();
            }
            Operation::Resume | Operation::SleepPaused => drop(bed.host.pause(scene.id).await.unwrap()),
            _ => {}
        }
        scene
    }

    fn mounts(&self) -> Vec<VolumeMount> {
        let mount = VolumeMount { volume: self.volume, path: "/data".to_owned(), access: VolumeAccess::ReadWrite };
        if self.operation.writes() { vec![mount] } else { Vec::new() }
    }

    /// Runs the operation. A fork is done when all of its children exist.
    pub async fn act(&self, bed: &FakeBed) -> Result<(), Fault> {
        let acting = async {
            match self.operation {
                Operation::Create | Operation::CreateWithVolume => {
                    bed.ensure_with(self.id, self.mounts()).await.map(drop)
                }
                Operation::Fork => {
                    let ensure = |id: &SandboxId| EnsureParams { id: *id, generation: 1, spec: spec("mini") };
                    let children = self.children.iter().map(ensure).collect();
                    let forked = bed.host.fork(ForkParams { parent: self.id, layer: self.layer, children }).await?;
                    forked.children.into_iter().collect::<Result<Vec<_>, _>>().map(drop)
                }
                Operation::Seal => {
                    bed.host.seal(self.id, SealParams { layer: self.layer, hold: LayerHold::Kept }).await.map(drop)
                }
                Operation::Sleep | Operation::SleepPaused => bed.host.sleep(self.id).await.map(drop),
                Operation::Wake | Operation::WakeWriter => bed.host.wake(self.id).await.map(drop),
                Operation::Pause => bed.host.pause(self.id).await.map(drop),
                Operation::Resume => bed.host.resume(self.id).await.map(drop),
                Operation::SetEgress => bed.host.set_egress(self.id, Egress::Only(Vec::new())).await,
                Operation::SetLifecycle => bed.host.set_lifecycle(self.id, OTHER).await.map(drop),
                Operation::Remove | Operation::RemoveSleeper | Operation::RemoveWithVolume => {
                    bed.host.remove(self.id).await
                }
                Operation::RemoveVolume => bed.host.remove_volume(self.volume).await,
            }
        };
        tokio::time::timeout(SOON, acting).await.expect("the operation hangs")
    }

    /// The expected state of the sandbox after the operation. A writer that was not woken may also
    /// have failed.
    pub fn expected(&self, done: bool) -> Option<SandboxState> {
        use Operation::*;
        match (self.operation, done) {
            (Create | CreateWithVolume, false) | (Remove | RemoveSleeper | RemoveWithVolume, true) => None,
            (Create | CreateWithVolume | Wake | WakeWriter | Resume, true)
            | (Sleep | Pause | Remove | RemoveWithVolume, false)
            | (Fork | Seal | SetEgress | SetLifecycle | RemoveVolume, _) => Some(SandboxState::Running),
            (Sleep | SleepPaused, true) | (Wake | WakeWriter | RemoveSleeper, false) => Some(SandboxState::Asleep),
            (Pause, true) | (Resume | SleepPaused, false) => Some(SandboxState::Paused),
        }
    }

    /// Checks that everything is as reported. Wakes no sandbox.
    pub async fn check(&self, bed: &FakeBed, said: &Said) {
        assert_eq!(bed.state(self.id).await, said.sandbox);
        for (child, state) in self.children.iter().zip(&said.children) {
            assert_eq!(bed.state(*child).await, *state);
            if *state == Some(SandboxState::Running) {
                assert_eq!(bed.text(*child, "/note").await.unwrap(), "kept");
            }
        }
        if said.sandbox == Some(SandboxState::Running) && !self.operation.creates() {
            assert_eq!(bed.text(self.id, "/note").await.unwrap(), "kept");
        }
        let count = |wanted: &[SandboxState]| {
            said.children.iter().chain([&said.sandbox]).flatten().filter(|state| wanted.contains(state)).count()
        };
        let machines = count(&[SandboxState::Running, SandboxState::Paused]);
        assert_eq!(bed.driver.live().len(), machines, "a machine for each that has one, and no other");
        assert_eq!(bed.driver.running().len(), count(&[SandboxState::Running]), "who is paused stands still");
        assert_eq!(bed.layers.contains(self.layer), said.layer || said.children.iter().any(Option::is_some));
        // The audit releases what a removal could not.
        if self.operation.writes() && self.operation != Operation::RemoveWithVolume {
            let has_it = matches!(said.sandbox, Some(SandboxState::Running | SandboxState::Asleep));
            assert_eq!(self.users(bed).await.contains(&self.id), has_it, "{:?}", said.sandbox);
        }
    }

    async fn users(&self, bed: &FakeBed) -> Vec<SandboxId> {
        let volumes = bed.host.volumes().await.unwrap();
        volumes.into_iter().find(|view| view.volume == self.volume).expect("the volume is here").users
    }

    /// Checks that a sandbox has the reported specification, in the ledger and in its task, which
    /// writes the whole specification at every change.
    pub async fn is_on_terms(&self, bed: &FakeBed, ledger: &Ledger, done: bool) {
        let SandboxSpec { ttl_seconds, persistent, egress, .. } = spec("mini");
        let before = IdlePolicy { ttl_seconds, persistent };
        let (terms, rules) = match (done, self.operation) {
            (true, Operation::SetEgress) => (before, Egress::Only(Vec::new())),
            (true, Operation::SetLifecycle) => (OTHER, egress),
            _ => (before, egress),
        };
        let written = async || {
            let rows = ledger.sandboxes().await.unwrap();
            let spec = rows.into_iter().find(|row| row.id == self.id).expect("it is on the ledger").spec;
            (IdlePolicy { ttl_seconds: spec.ttl_seconds, persistent: spec.persistent }, spec.egress)
        };
        assert_eq!(written().await, (terms, rules.clone()));
        match self.operation {
            Operation::SetEgress => drop(bed.host.set_lifecycle(self.id, terms).await.unwrap()),
            _ => bed.host.set_egress(self.id, rules.clone()).await.unwrap(),
        }
        assert_eq!(written().await, (terms, rules));
    }

    /// Removes everything that is left.
    pub async fn strike(&self, bed: &FakeBed) {
        for id in self.children.iter().chain([&self.id]) {
            bed.host.remove(*id).await.unwrap();
            assert_eq!(bed.state(*id).await, None);
        }
        bed.host.release(self.layer).await.unwrap();
        if self.operation.writes() {
            bed.host.audit().await.unwrap();
            assert_eq!(self.users(bed).await, []);
        }
        bed.host.remove_volume(self.volume).await.unwrap();
        assert!(bed.host.volumes().await.unwrap().is_empty());
    }
}
