//! One machine in memory: alive or dead, running or paused, with its guest.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use async_trait::async_trait;
use pandastack_model::{ByteSize, MachineId};
use pandastack_vmm::{
    Link, Machine, MachineError, MachineSpec, MachineState, MemoryDelta, MemoryPart, MemoryRange, MemoryUse, Power,
    SlotVolume, VolumeSlot,
};
use tokio::sync::watch;

use crate::{
    driver::FakeDriverState,
    faults::{DriverCall, FaultEffect},
    guest::{FakeGuest, LINK_BYTES, run_powered},
};

/// First line of a device state file. Any other content is invalid.
pub(crate) const DEVICES: &[u8] = b"fake devices 1\n";

/// The driver's part of a machine, so that it can be killed from outside.
pub(crate) struct FakeMachineState {
    id: MachineId,
    pub(crate) run_dir: PathBuf,
    state: watch::Sender<MachineState>,
    power: watch::Sender<Power>,
    has_room: AtomicBool,
    went_on: watch::Sender<u64>,
    /// Number of times its connections were cut.
    pub(crate) cut: watch::Sender<u64>,
    pub(crate) guest: Arc<dyn FakeGuest>,
    slots: Mutex<FakeVolumes>,
    told: Mutex<Vec<GivenSize>>,
}

/// A volume size that a machine was given, and the size of the volume's file at that moment. A real
/// machine grows the file to the size it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GivenSize {
    pub size: ByteSize,
    pub present: ByteSize,
}

/// The volumes in the slots, with the size that the machine knows.
pub(crate) type FakeVolumes = BTreeMap<VolumeSlot, (PathBuf, ByteSize)>;

impl FakeMachineState {
    pub(crate) fn new(spec: &MachineSpec, power: Power, guest: Arc<dyn FakeGuest>) -> Self {
        let (state, power) = (watch::Sender::new(MachineState::Alive), watch::Sender::new(power));
        Self {
            id: spec.id,
            run_dir: spec.run_dir.clone(),
            state,
            power,
            has_room: AtomicBool::new(true),
            went_on: watch::Sender::new(0),
            cut: watch::Sender::new(0),
            guest,
            slots: Mutex::default(),
            told: Mutex::default(),
        }
    }

    pub(crate) fn is_alive(&self) -> bool {
        *self.state.borrow() == MachineState::Alive
    }

    pub(crate) fn runs(&self) -> bool {
        *self.power.borrow() == Power::Running
    }

    /// Ends the machine, if it is alive. Its guest never runs again.
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

    /// Simulates a full host disk for this machine, which stops its guest, or free space again.
    pub(crate) fn set_disk_space(&self, has_room: bool) {
        self.has_room.store(has_room, Ordering::Relaxed);
        let (now, next) = match has_room {
            true => (Power::Waiting, Power::Running),
            false => (Power::Running, Power::Waiting),
        };
        let changed = self.power.send_if_modified(|power| {
            let changes = *power == now;
            if changes {
                *power = next;
            }
            changes
        });
        if changed && has_room {
            self.went_on.send_modify(|times| *times += 1);
        }
    }

    pub(crate) fn slots(&self) -> MutexGuard<'_, FakeVolumes> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every size that the machine was given, in order.
    pub(crate) fn given_sizes(&self) -> MutexGuard<'_, Vec<GivenSize>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_alive(&self) -> Result<(), MachineError> {
        match &*self.state.borrow() {
            MachineState::Alive => Ok(()),
            MachineState::Dead { reason } => Err(MachineError::Dead { reason: reason.clone() }),
        }
    }
}

/// How a completed call is answered.
enum AnswerTiming {
    Timely,
    Late { command: &'static str },
}

impl AnswerTiming {
    fn give<T>(self, done: T) -> Result<T, MachineError> {
        match self {
            AnswerTiming::Timely => Ok(done),
            AnswerTiming::Late { command } => Err(refused(command)),
        }
    }
}

fn refused(command: &str) -> MachineError {
    MachineError::Refused { command: command.to_owned(), reason: "the plan says so".to_owned() }
}

pub(crate) struct FakeMachine {
    pub(crate) body: Arc<FakeMachineState>,
    pub(crate) shared: Arc<FakeDriverState>,
}

impl FakeMachine {
    /// Counts the call, applies the fault plan, and fails if the machine is dead.
    async fn enter(&self, step: DriverCall, command: &'static str) -> Result<AnswerTiming, MachineError> {
        let trouble = self.shared.faults.next_fault(step).await;
        match trouble {
            Some(FaultEffect::Fail) => return Err(refused(command)),
            Some(FaultEffect::Die) => self.body.die("killed by the plan"),
            Some(FaultEffect::Hang | FaultEffect::Late | FaultEffect::Panic) | None => {}
        }
        self.body.check_alive()?;
        Ok(if trouble == Some(FaultEffect::Late) { AnswerTiming::Late { command } } else { AnswerTiming::Timely })
    }

    fn check_paused(&self, command: &str) -> Result<(), MachineError> {
        match *self.body.power.borrow() {
            Power::Paused => Ok(()),
            Power::Running | Power::Waiting => {
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
        let answer = self.enter(DriverCall::Resume, "resume").await?;
        let has_room = self.body.has_room.load(Ordering::Relaxed);
        self.body.power.send_replace(if has_room { Power::Running } else { Power::Waiting });
        answer.give(())
    }

    async fn pause(&self) -> Result<(), MachineError> {
        let answer = self.enter(DriverCall::Pause, "pause").await?;
        self.body.power.send_replace(Power::Paused);
        answer.give(())
    }

    async fn power(&self) -> Result<Power, MachineError> {
        self.body.check_alive()?;
        Ok(*self.body.power.borrow())
    }

    fn went_on(&self) -> watch::Receiver<u64> {
        self.body.went_on.subscribe()
    }

    async fn dial(&self) -> Result<Box<dyn Link>, MachineError> {
        let answer = self.enter(DriverCall::Dial, "dial").await?;
        if *self.body.power.borrow() != Power::Running {
            let cause = io::Error::new(io::ErrorKind::TimedOut, "the guest stands still");
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
        answer.give(Box::new(ours))
    }

    async fn save_devices(&self, to: &Path) -> Result<(), MachineError> {
        let answer = self.enter(DriverCall::Save, "save devices").await?;
        self.check_paused("save devices")?;
        std::fs::write(to, DEVICES)
            .map_err(|cause| MachineError::Io { action: format!("write {}", to.display()), cause })?;
        answer.give(())
    }

    async fn memory_use(&self, _base: &Path) -> Result<MemoryUse, MachineError> {
        self.body.check_alive()?;
        Ok(MemoryUse { read: Vec::new(), changed: ByteSize::new(self.body.guest.memory().len() as u64) })
    }

    async fn hold_memory(
        &self,
        _base: &Path,
        _part: &MemoryPart,
        _room: Vec<u8>,
        bytes_max: ByteSize,
    ) -> Result<Option<MemoryDelta>, MachineError> {
        let answer = self.enter(DriverCall::Memory, "hold memory").await?;
        self.check_paused("hold memory")?;
        let bytes = self.body.guest.memory();
        if bytes.len() as u64 > bytes_max.get() {
            return answer.give(None);
        }
        let runs = vec![MemoryRange { offset: 0, length: bytes.len() as u64 }];
        answer.give(Some(MemoryDelta { runs, bytes }))
    }

    async fn save_memory(&self, _base: &Path, _part: &MemoryPart, copy: &Path) -> Result<ByteSize, MachineError> {
        let answer = self.enter(DriverCall::Memory, "save memory").await?;
        self.check_paused("save memory")?;
        let bytes = self.body.guest.memory();
        let runs = vec![MemoryRange { offset: 0, length: bytes.len() as u64 }];
        let delta = MemoryDelta { runs, bytes };
        let io = |cause| MachineError::Io { action: format!("write {}", copy.display()), cause };
        delta.write_over(copy).map_err(io)?;
        answer.give(delta.size())
    }

    async fn attach(&self, port: &SlotVolume) -> Result<(), MachineError> {
        let answer = self.enter(DriverCall::Attach, "attach").await?;
        self.check_paused("attach")?;
        let io = |cause| MachineError::Io { action: format!("open {}", port.file.display()), cause };
        let size = ByteSize::new(std::fs::metadata(&port.file).map_err(io)?.len());
        let mut slots = self.body.slots();
        if slots.contains_key(&port.slot) {
            return Err(MachineError::Refused { command: "attach".to_owned(), reason: "the slot is taken".to_owned() });
        }
        slots.insert(port.slot, (port.file.clone(), size));
        self.body.given_sizes().push(GivenSize { size, present: size });
        answer.give(())
    }

    async fn volume_grown(&self, slot: VolumeSlot, size: ByteSize) -> Result<(), MachineError> {
        self.body.check_alive()?;
        match self.body.slots().get_mut(&slot) {
            Some((file, known)) => {
                let io = |cause| MachineError::Io { action: format!("read the size of {}", file.display()), cause };
                let present = ByteSize::new(std::fs::metadata(&*file).map_err(io)?.len());
                self.body.given_sizes().push(GivenSize { size, present });
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
        self.shared.faults.next_fault(DriverCall::Stop).await;
        self.body.die("stopped");
    }
}

impl Drop for FakeMachine {
    fn drop(&mut self) {
        // A machine that is still alive stays registered, as its process would stay on a host.
        // Tests report it as a leak.
        if !self.body.is_alive() {
            self.shared.forget(self.body.id);
        }
    }
}
