//! One machine in memory: alive or dead, running or paused, and the guest behind it.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use pandastack_model::{Bytes, MachineId};
use pandastack_vmm::{
    Link, Machine, MachineError, MachineSpec, MachineState, MemoryDelta, MemoryUse, Power, Run, VolumePort, VolumeSlot,
};
use tokio::sync::watch;

use crate::{
    driver::Shared,
    faults::{Step, Trouble},
    guest::{FakeGuest, LINK_BYTES, run_powered},
};

/// First line of a device state file; anything else is garbage.
pub(crate) const DEVICES: &[u8] = b"fake devices 1\n";

/// What the driver keeps of a machine, so that it can be killed from outside.
pub(crate) struct Body {
    id: MachineId,
    pub(crate) run_dir: PathBuf,
    state: watch::Sender<MachineState>,
    power: watch::Sender<Power>,
    /// How often its connections were cut.
    pub(crate) cut: watch::Sender<u64>,
    pub(crate) guest: Arc<dyn FakeGuest>,
    slots: Mutex<Slots>,
    told: Mutex<Vec<Told>>,
}

/// A size that a machine was told of a volume, and the one that the volume's file had at that moment. A real machine makes the file as
/// large as it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    pub size: Bytes,
    pub present: Bytes,
}

/// What is in the slots, and how large the machine knows it to be.
pub(crate) type Slots = BTreeMap<VolumeSlot, (PathBuf, Bytes)>;

impl Body {
    pub(crate) fn new(spec: &MachineSpec, power: Power, guest: Arc<dyn FakeGuest>) -> Self {
        let (state, power) = (watch::Sender::new(MachineState::Alive), watch::Sender::new(power));
        Self {
            id: spec.id,
            run_dir: spec.run_dir.clone(),
            state,
            power,
            cut: watch::Sender::new(0),
            guest,
            slots: Mutex::default(),
            told: Mutex::default(),
        }
    }

    pub(crate) fn is_alive(&self) -> bool {
        *self.state.borrow() == MachineState::Alive
    }

    /// Ends the machine, if it still lives. Its guest never runs again.
    pub(crate) fn die(&self, reason: &str) {
        self.power.send_replace(Power::Paused);
        self.state.send_if_modified(|state| {
            let alive = *state == MachineState::Alive;
            if alive {
                *state = MachineState::Dead { reason: reason.to_owned() };
            }
            alive
        });
    }

    pub(crate) fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every size that the machine was told of, in that order.
    pub(crate) fn told(&self) -> MutexGuard<'_, Vec<Told>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_alive(&self) -> Result<(), MachineError> {
        match &*self.state.borrow() {
            MachineState::Alive => Ok(()),
            MachineState::Dead { reason } => Err(MachineError::Dead { reason: reason.clone() }),
        }
    }
}

pub(crate) struct FakeMachine {
    pub(crate) body: Arc<Body>,
    pub(crate) shared: Arc<Shared>,
}

impl FakeMachine {
    /// Counts the call, carries out what the plan has for it, and refuses if the machine is dead.
    async fn enter(&self, step: Step, command: &str) -> Result<(), MachineError> {
        match self.shared.faults.strike(step).await {
            Some(Trouble::Fail) => {
                let (command, reason) = (command.to_owned(), "the plan says so".to_owned());
                return Err(MachineError::Refused { command, reason });
            }
            Some(Trouble::Die) => self.body.die("killed by the plan"),
            Some(Trouble::Hang | Trouble::Panic) | None => {}
        }
        self.body.check_alive()
    }

    fn check_paused(&self, command: &str) -> Result<(), MachineError> {
        match *self.body.power.borrow() {
            Power::Paused => Ok(()),
            Power::Running => {
                let (command, reason) = (command.to_owned(), "the machine runs".to_owned());
                Err(MachineError::Refused { command, reason })
            }
        }
    }
}

#[async_trait]
impl Machine for FakeMachine {
    fn id(&self) -> MachineId {
        self.body.id
    }

    fn pid(&self) -> Option<u32> {
        None
    }

    fn watch(&self) -> watch::Receiver<MachineState> {
        self.body.state.subscribe()
    }

    async fn resume(&self) -> Result<(), MachineError> {
        self.enter(Step::Resume, "resume").await?;
        self.body.power.send_replace(Power::Running);
        Ok(())
    }

    async fn pause(&self) -> Result<(), MachineError> {
        self.enter(Step::Pause, "pause").await?;
        self.body.power.send_replace(Power::Paused);
        Ok(())
    }

    async fn power(&self) -> Result<Power, MachineError> {
        self.body.check_alive()?;
        Ok(*self.body.power.borrow())
    }

    async fn dial(&self) -> Result<Box<dyn Link>, MachineError> {
        self.enter(Step::Dial, "dial").await?;
        if *self.body.power.borrow() == Power::Paused {
            let cause = io::Error::new(io::ErrorKind::TimedOut, "the guest is paused");
            return Err(MachineError::Io { action: "connect to the guest agent".to_owned(), cause });
        }
        let (ours, theirs) = tokio::io::duplex(LINK_BYTES);
        let (guest, power) = (self.body.guest.clone(), self.body.power.subscribe());
        let mut cut = self.body.cut.subscribe();
        self.shared.scope.start("fake guest", async move {
            tokio::select! {
                () = run_powered(async move { guest.serve(theirs).await }, power) => {}
                _ = cut.changed() => {}
            }
        });
        Ok(Box::new(ours))
    }

    async fn save_devices(&self, to: &Path) -> Result<(), MachineError> {
        self.enter(Step::Save, "save devices").await?;
        self.check_paused("save devices")?;
        std::fs::write(to, DEVICES)
            .map_err(|cause| MachineError::Io { action: format!("write {}", to.display()), cause })
    }

    async fn memory_use(&self, _base: &Path) -> Result<MemoryUse, MachineError> {
        self.body.check_alive()?;
        Ok(MemoryUse { read: Vec::new(), changed: Bytes::new(self.body.guest.memory().len() as u64) })
    }

    async fn hold_memory(
        &self,
        _base: &Path,
        _room: Vec<u8>,
        bytes_max: Bytes,
    ) -> Result<Option<MemoryDelta>, MachineError> {
        self.enter(Step::Memory, "hold memory").await?;
        self.check_paused("hold memory")?;
        let bytes = self.body.guest.memory();
        if bytes.len() as u64 > bytes_max.get() {
            return Ok(None);
        }
        let runs = vec![Run { offset: 0, length: bytes.len() as u64 }];
        Ok(Some(MemoryDelta { runs, bytes }))
    }

    async fn save_memory(&self, _base: &Path, copy: &Path) -> Result<Bytes, MachineError> {
        self.enter(Step::Memory, "save memory").await?;
        self.check_paused("save memory")?;
        let bytes = self.body.guest.memory();
        let runs = vec![Run { offset: 0, length: bytes.len() as u64 }];
        let delta = MemoryDelta { runs, bytes };
        let io = |cause| MachineError::Io { action: format!("write {}", copy.display()), cause };
        delta.write_over(copy).map_err(io).map(|()| delta.size())
    }

    async fn attach(&self, port: &VolumePort) -> Result<(), MachineError> {
        self.enter(Step::Attach, "attach").await?;
        self.check_paused("attach")?;
        let io = |cause| MachineError::Io { action: format!("open {}", port.file.display()), cause };
        let size = Bytes::new(std::fs::metadata(&port.file).map_err(io)?.len());
        let mut slots = self.body.slots();
        if slots.contains_key(&port.slot) {
            return Err(MachineError::Refused { command: "attach".to_owned(), reason: "the slot is taken".to_owned() });
        }
        slots.insert(port.slot, (port.file.clone(), size));
        self.body.told().push(Told { size, present: size });
        Ok(())
    }

    async fn volume_grown(&self, slot: VolumeSlot, size: Bytes) -> Result<(), MachineError> {
        self.body.check_alive()?;
        match self.body.slots().get_mut(&slot) {
            Some((file, known)) => {
                let io = |cause| MachineError::Io { action: format!("look at {}", file.display()), cause };
                let present = Bytes::new(std::fs::metadata(&*file).map_err(io)?.len());
                self.body.told().push(Told { size, present });
                *known = size;
            }
            None => {
                let (command, reason) = ("grow".to_owned(), "the slot is empty".to_owned());
                return Err(MachineError::Refused { command, reason });
            }
        }
        Ok(())
    }

    async fn stop(&self) {
        self.body.die("stopped");
    }
}

impl Drop for FakeMachine {
    fn drop(&mut self) {
        // One that still lives stays in the books, as its process would stay on a host: that is a leak to be found.
        if !self.body.is_alive() {
            self.shared.forget(self.body.id);
        }
    }
}
