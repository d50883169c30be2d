//! One QEMU machine behind the contract. Start and end go through its process, everything else
//! through its monitor.

use std::{io, os::fd::AsFd, path::Path, sync::Arc};

use async_trait::async_trait;
use pandastack_kit::{Scope, ScopeError};
use pandastack_model::{ByteSize, MachineId};
use pandastack_sys::netns::Netns;
use pandastack_vmm::{
    AheadCopy, Link, LinkState, Machine, MachineError, MachineState, MemoryDelta, MemoryPart, MemoryUse,
    NetworkAttachment, Power, SealableLink, SlotVolume, VolumeSlot,
};
use serde_json::json;
use tokio::{net::TcpStream, sync::watch};

use crate::{
    command::inherited,
    limits::{DEATH_NEWS_DEADLINE, DIAL_DEADLINE, LOAD_DEADLINE},
    link::{self, SealableStream},
    memory,
    process::QemuProcess,
    qmp::Qmp,
    room::{CpuSwitch, is_stopped_for_room},
    state::StateBuffer,
    volume,
};

/// The fdset id of the device state file, far from the inherited ones.
const SAVED_STATE: u32 = 1000;

pub struct QemuMachine {
    pub(crate) id: MachineId,
    pub(crate) process: QemuProcess,
    pub(crate) qmp: Arc<Qmp>,
    pub(crate) switch: CpuSwitch,
    pub(crate) netns: Netns,
    pub(crate) network: NetworkAttachment,
    pub(crate) scope: Scope,
}

impl QemuMachine {
    fn io(action: &str) -> impl FnOnce(std::io::Error) -> MachineError + '_ {
        move |cause| MachineError::Io { action: action.to_owned(), cause }
    }

    /// Fails at once for a dead machine. Its namespace still exists, so a connection attempt would
    /// run into a timeout.
    fn living(&self) -> Result<(), MachineError> {
        match &*self.process.watch().borrow() {
            MachineState::Alive => Ok(()),
            MachineState::Dead { reason } => Err(MachineError::Dead { reason: reason.clone() }),
        }
    }

    async fn connect(&self) -> Result<TcpStream, MachineError> {
        self.living()?;
        let connect = tokio::time::timeout(DIAL_DEADLINE, link::dial(&self.netns, &self.network)).await;
        let stream = connect.map_err(|_| MachineError::Deadline {
            command: "connect to the guest agent".to_owned(),
            deadline_ms: DIAL_DEADLINE.as_millis() as u64,
        })?;
        stream.map_err(Self::io("connect to the guest agent"))
    }

    /// A lost monitor usually means a dead process. Reports the reason of the death instead.
    async fn explain<T>(&self, result: Result<T, MachineError>) -> Result<T, MachineError> {
        match result {
            Err(MachineError::Dead { .. } | MachineError::Io { .. }) => {
                let mut state = self.process.watch();
                let dead = state.wait_for(|state| *state != MachineState::Alive);
                match tokio::time::timeout(DEATH_NEWS_DEADLINE, dead).await {
                    Ok(Ok(state)) => match &*state {
                        MachineState::Dead { reason } => Err(MachineError::Dead { reason: reason.clone() }),
                        MachineState::Alive => result,
                    },
                    _ => result,
                }
            }
            other => other,
        }
    }
}

#[async_trait]
impl Machine for QemuMachine {
    fn id(&self) -> MachineId {
        self.id
    }

    fn pid(&self) -> Option<u32> {
        Some(self.process.pid())
    }

    fn watch(&self) -> watch::Receiver<MachineState> {
        self.process.watch()
    }

    async fn resume(&self) -> Result<(), MachineError> {
        let answer = self.switch.resume().await;
        self.explain(answer).await
    }

    async fn pause(&self) -> Result<(), MachineError> {
        let answer = self.switch.pause().await;
        self.explain(answer).await
    }

    async fn power(&self) -> Result<Power, MachineError> {
        let answer = power(&self.qmp).await;
        self.explain(answer).await
    }

    fn went_on(&self) -> watch::Receiver<u64> {
        self.switch.went_on()
    }

    async fn dial(&self) -> Result<Box<dyn Link>, MachineError> {
        Ok(Box::new(self.connect().await?))
    }

    async fn dial_kept(&self) -> Result<Box<dyn SealableLink>, MachineError> {
        Ok(Box::new(SealableStream(self.connect().await?)))
    }

    async fn take_up(&self, state: &LinkState) -> Result<Box<dyn Link>, MachineError> {
        self.living()?;
        let taken_up = link::take_up(&self.netns, &self.network, state).await;
        Ok(Box::new(taken_up.map_err(Self::io("restore a sealed link"))?))
    }

    async fn save_devices(&self, to: &Path) -> Result<(), MachineError> {
        let (buffer, lent) = StateBuffer::make().map_err(Self::io("allocate memory for the device state"))?;
        let saved = async {
            self.qmp.give_file(lent.as_fd(), SAVED_STATE).await?;
            let arguments = json!({ "filename": inherited(SAVED_STATE as i32), "live": true });
            let saved = self.qmp.execute_within("xen-save-devices-state", arguments, LOAD_DEADLINE).await;
            // In any case, the process must not keep the file.
            self.qmp.take_file(SAVED_STATE).await?;
            saved
        };
        let answer = saved.await;
        self.explain(answer).await?;
        let to = to.to_owned();
        let kept = self.scope.block("store device state", move || buffer.keep(&to)).await;
        flat("store the device state", kept)
    }

    async fn memory_use(&self, base: &Path) -> Result<MemoryUse, MachineError> {
        let (pid, base) = (self.process.pid(), base.to_owned());
        let read = self.scope.block("read memory usage", move || memory::usage(pid, &base)).await;
        self.explain(flat("read the memory usage of the guest", read)).await
    }

    async fn copy_ahead(&self, base: &Path, copy: &Path) -> Result<Option<Arc<dyn AheadCopy>>, MachineError> {
        let (pid, base, copy) = (self.process.pid(), base.to_owned(), copy.to_owned());
        let copied = self.scope.block("copy memory ahead", move || memory::copy_ahead(pid, &base, &copy)).await;
        let copied = self.explain(flat("copy guest memory", copied)).await?;
        Ok(copied.map(|copied| Arc::new(copied) as Arc<dyn AheadCopy>))
    }

    async fn hold_memory(
        &self,
        base: &Path,
        part: &MemoryPart,
        room: Vec<u8>,
        bytes_max: ByteSize,
    ) -> Result<Option<MemoryDelta>, MachineError> {
        let (pid, base, part) = (self.process.pid(), base.to_owned(), part.clone());
        let held = self.scope.block("hold memory", move || memory::hold(pid, &base, &part, room, bytes_max)).await;
        self.explain(flat("read guest memory", held)).await
    }

    async fn save_memory(&self, base: &Path, part: &MemoryPart, copy: &Path) -> Result<ByteSize, MachineError> {
        let (pid, base, part, copy) = (self.process.pid(), base.to_owned(), part.clone(), copy.to_owned());
        let saved = self.scope.block("save memory", move || memory::save(pid, &base, &part, &copy)).await;
        self.explain(flat("copy guest memory", saved)).await
    }

    async fn attach(&self, port: &SlotVolume) -> Result<(), MachineError> {
        self.explain(volume::attach(&self.qmp, port).await).await
    }

    async fn volume_grown(&self, slot: VolumeSlot, size: ByteSize) -> Result<(), MachineError> {
        self.explain(volume::grown(&self.qmp, self.process.pid(), slot, size).await).await
    }

    async fn stop(&self) {
        self.process.kill().await;
    }
}

/// Queries whether a machine's CPUs run.
pub async fn power(qmp: &Qmp) -> Result<Power, MachineError> {
    let answer = qmp.execute("query-status", json!({})).await?;
    Ok(match answer["running"].as_bool() {
        Some(true) => Power::Running,
        _ if is_stopped_for_room(&answer) => Power::Waiting,
        _ => Power::Paused,
    })
}

/// Flattens the error of blocking work that failed or was cancelled.
fn flat<T>(action: &str, outcome: Result<io::Result<T>, ScopeError>) -> Result<T, MachineError> {
    let failed = |cause| MachineError::Io { action: action.to_owned(), cause };
    outcome.map_err(|error| failed(io::Error::other(error)))?.map_err(failed)
}
