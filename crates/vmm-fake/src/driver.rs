//! Makes machines in memory and keeps the counters that leak checks read.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use pandastack_kit::Scope;
use pandastack_model::{ByteSize, MachineId, Tier};
use pandastack_vmm::{
    Blank, BootImage, Driver, LayerFiles, Machine, MachineProfile, MachineSpec, MachineStartError, MachineState, Power,
    SlotVolume, VolumeSlot,
};
use tokio::sync::watch;

use crate::{
    faults::{DriverCall, FaultEffect, Faults},
    guest::FakeGuest,
    machine::{DEVICES, FakeMachine, FakeMachineState, GivenSize},
};

type MakeGuest = Box<dyn Fn(MachineId) -> Arc<dyn FakeGuest> + Send + Sync>;

/// Makes fake machines. Clones share machines, fault plan and counters.
#[derive(Clone)]
pub struct FakeDriver {
    shared: Arc<FakeDriverState>,
}

/// State that machines share with their driver.
pub(crate) struct FakeDriverState {
    pub(crate) faults: Faults,
    pub(crate) scope: Scope,
    make_guest: MakeGuest,
    bodies: Mutex<HashMap<MachineId, Arc<FakeMachineState>>>,
}

impl FakeDriver {
    /// Makes a driver. The function makes the guest of each machine.
    pub fn new(make_guest: impl Fn(MachineId) -> Arc<dyn FakeGuest> + Send + Sync + 'static) -> Self {
        let (faults, scope, bodies) = (Faults::default(), Scope::new(), Mutex::default());
        Self { shared: Arc::new(FakeDriverState { faults, scope, make_guest: Box::new(make_guest), bodies }) }
    }

    /// The fault plan.
    pub fn faults(&self) -> &Faults {
        &self.shared.faults
    }

    /// Lists the machines that are alive, including those dropped without a stop.
    pub fn live(&self) -> Vec<MachineId> {
        self.shared.bodies().iter().filter(|(_, body)| body.is_alive()).map(|(id, _)| *id).collect()
    }

    /// Lists the machines that are alive and whose guests are running.
    pub fn running(&self) -> Vec<MachineId> {
        self.shared.bodies().iter().filter(|(_, body)| body.is_alive() && body.runs()).map(|(id, _)| *id).collect()
    }

    /// Counts the connections that guests still serve.
    pub fn links(&self) -> usize {
        self.shared.scope.tasks()
    }

    /// Lists the volumes in the slots of a live machine, with the disk size that the machine knows.
    pub fn attached(&self, id: MachineId) -> Vec<(SlotVolume, ByteSize)> {
        let bodies = self.shared.bodies();
        let Some(body) = bodies.get(&id).filter(|body| body.is_alive()) else { return Vec::new() };
        let port = |slot: &VolumeSlot, file: &PathBuf| SlotVolume { slot: *slot, file: file.clone() };
        body.slots().iter().map(|(slot, (file, size))| (port(slot, file), *size)).collect()
    }

    /// Lists every volume size that a live machine was given, from the attach on.
    pub fn given_sizes(&self, id: MachineId) -> Vec<GivenSize> {
        let bodies = self.shared.bodies();
        bodies.get(&id).filter(|body| body.is_alive()).map(|body| body.given_sizes().clone()).unwrap_or_default()
    }

    /// Ends a machine as if its process had been killed. Ignores an unknown machine.
    pub fn kill(&self, id: MachineId) {
        if let Some(body) = self.shared.bodies().get(&id) {
            body.die("killed by signal 9");
        }
    }

    /// Cuts every connection to a machine's guest. Ignores an unknown machine.
    pub fn hang_up(&self, id: MachineId) {
        if let Some(body) = self.shared.bodies().get(&id) {
            body.cut.send_modify(|times| *times += 1);
        }
    }

    /// Simulates a full host disk for a machine, which stops its guest, or free space again.
    /// Ignores an unknown machine.
    pub fn set_disk_space(&self, id: MachineId, has_room: bool) {
        if let Some(body) = self.shared.bodies().get(&id) {
            body.set_disk_space(has_room);
        }
    }

    /// Ends the machines whose folder is gone. Recovery does this for real machines through the
    /// process table after a crash.
    pub fn end_machines_without_folder(&self) {
        for body in self.shared.bodies().values().filter(|body| !body.run_dir.exists()) {
            body.die("ended by recovery");
        }
    }

    async fn enter(&self, step: DriverCall) -> Result<(), MachineStartError> {
        match self.shared.faults.next_fault(step).await {
            Some(FaultEffect::Fail | FaultEffect::Late) => {
                Err(MachineStartError::Load { reason: "the plan says so".to_owned() })
            }
            Some(FaultEffect::Die) => Err(MachineStartError::Died { log: "killed by the plan".to_owned() }),
            Some(FaultEffect::Hang | FaultEffect::Panic) | None => Ok(()),
        }
    }

    /// Reads a layer and returns its memory.
    async fn load(&self, spec: &MachineSpec, layer: &LayerFiles) -> Result<Vec<u8>, MachineStartError> {
        self.enter(DriverCall::Restore).await?;
        let read = |path: &Path| {
            fs::read(path)
                .map_err(|cause| MachineStartError::Load { reason: format!("read {}: {cause}", path.display()) })
        };
        if !read(&layer.dev)?.starts_with(DEVICES) {
            return Err(MachineStartError::Load { reason: "the saved state does not match this machine".to_owned() });
        }
        fs::metadata(&spec.disk)
            .map_err(|cause| MachineStartError::Load { reason: format!("open {}: {cause}", spec.disk.display()) })?;
        read(&layer.mem)
    }

    fn make(&self, spec: &MachineSpec, power: Power) -> FakeMachine {
        let body = Arc::new(FakeMachineState::new(spec, power, (self.shared.make_guest)(spec.id)));
        self.shared.bodies().insert(spec.id, body.clone());
        FakeMachine { body, shared: self.shared.clone() }
    }
}

impl FakeDriverState {
    pub(crate) fn forget(&self, id: MachineId) {
        self.bodies().remove(&id);
    }

    fn bodies(&self) -> MutexGuard<'_, HashMap<MachineId, Arc<FakeMachineState>>> {
        self.bodies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Driver for FakeDriver {
    fn tier(&self) -> Tier {
        Tier::Fake
    }

    fn profile(&self) -> MachineProfile {
        MachineProfile {
            driver: "fake".to_owned(),
            runtime: "memory".to_owned(),
            machine_type: "fake".to_owned(),
            cpu_profile: "none".to_owned(),
            tsc_khz: None,
        }
    }

    async fn boot(&self, spec: MachineSpec, image: BootImage) -> Result<Box<dyn Machine>, MachineStartError> {
        self.enter(DriverCall::Boot).await?;
        let mem = fs::File::create(&image.mem).map_err(MachineStartError::Spawn)?;
        mem.set_len(spec.memory.get()).map_err(MachineStartError::Spawn)?;
        Ok(Box::new(self.make(&spec, Power::Running)))
    }

    async fn restore(&self, spec: MachineSpec, layer: &LayerFiles) -> Result<Box<dyn Machine>, MachineStartError> {
        let memory = self.load(&spec, layer).await?;
        let machine = self.make(&spec, Power::Paused);
        machine.body.guest.remember(&memory);
        Ok(Box::new(machine))
    }

    async fn blank(&self, spec: MachineSpec) -> Result<Option<Box<dyn Blank>>, MachineStartError> {
        self.enter(DriverCall::Blank).await?;
        Ok(Some(Box::new(FakeBlank { machine: self.make(&spec, Power::Paused), driver: self.clone(), spec })))
    }

    async fn adopt(&self, spec: MachineSpec, _pid: Option<u32>) -> Result<Box<dyn Machine>, MachineStartError> {
        self.enter(DriverCall::Adopt).await?;
        let body = self.shared.bodies().get(&spec.id).filter(|body| body.is_alive()).cloned();
        let body = body.ok_or(MachineStartError::Stranger { pid: 0 })?;
        Ok(Box::new(FakeMachine { body, shared: self.shared.clone() }))
    }
}

/// A machine in memory that waits for its layer.
struct FakeBlank {
    machine: FakeMachine,
    driver: FakeDriver,
    spec: MachineSpec,
}

#[async_trait]
impl Blank for FakeBlank {
    fn pid(&self) -> Option<u32> {
        self.machine.pid()
    }

    fn watch(&self) -> watch::Receiver<MachineState> {
        self.machine.watch()
    }

    async fn restore(self: Box<Self>, layer: &LayerFiles) -> Result<Box<dyn Machine>, MachineStartError> {
        let loaded = self.driver.load(&self.spec, layer).await;
        let dead = match &*self.machine.watch().borrow() {
            MachineState::Alive => None,
            MachineState::Dead { reason } => Some(MachineStartError::Died { log: reason.clone() }),
        };
        match dead.map_or(loaded, Err) {
            Ok(memory) => {
                self.machine.body.guest.remember(&memory);
                Ok(Box::new(self.machine))
            }
            Err(error) => {
                self.machine.stop().await;
                Err(error)
            }
        }
    }

    async fn stop(&self) {
        self.machine.stop().await;
    }
}
