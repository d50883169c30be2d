//! Traits and values of the contract.

use std::{
    net::Ipv4Addr,
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use pandastack_model::{ByteSize, MachineId, Tier};
use tokio::sync::watch;

use crate::{
    AheadCopy, LayerFiles, Link, LinkState, MemoryDelta, MemoryPart, MemoryUse, SealableLink, SlotVolume, VolumeSlot,
};

/// Specification of a machine.
#[derive(Clone, Debug)]
pub struct MachineSpec {
    pub id: MachineId,
    pub memory: ByteSize,
    pub cpus: u8,
    /// The machine's own writable root disk.
    pub disk: PathBuf,
    /// The machine's own folder for sockets and logs. It exists and is empty. The caller removes
    /// it.
    pub run_dir: PathBuf,
    pub network: NetworkAttachment,
    /// The runtime that wrote the layer to restore. `None` means the driver's newest.
    pub runtime: Option<String>,
    pub limits: MachineLimits,
}

/// Resource limits of one machine's process on its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineLimits {
    /// Hundredths of a CPU.
    pub cpu_percent: u32,
    /// Limit for the whole process: guest memory plus overhead.
    pub memory: ByteSize,
    /// Threads and processes.
    pub pids: u32,
}

impl MachineLimits {
    /// Memory that a machine's process needs beside its guest's memory: translated code, device
    /// models, buffers.
    const OVERHEAD: ByteSize = ByteSize::mib(256);

    /// CPU threads, I/O workers and the main loop.
    const THREADS: u32 = 128;

    /// The limits of a machine of this size.
    pub fn of(memory: ByteSize, cpus: u8) -> Self {
        let memory = ByteSize::new(memory.get() + Self::OVERHEAD.get());
        Self { cpu_percent: u32::from(cpus) * 100, memory, pids: Self::THREADS }
    }
}

/// The machine's network: a namespace made in advance, with a tap in it.
#[derive(Clone, Debug)]
pub struct NetworkAttachment {
    /// File of the namespace, such as `/run/netns/NAME`.
    pub netns: PathBuf,
    pub tap: String,
    pub mac: String,
    /// Address of the guest agent, reachable only from inside the namespace.
    pub guest_address: Ipv4Addr,
    pub guest_port: u16,
}

/// Kernel and memory of a first boot. Only baking boots a machine.
#[derive(Clone, Debug)]
pub struct BootImage {
    pub kernel: PathBuf,
    pub initramfs: PathBuf,
    /// Appended to the driver's own kernel parameters.
    pub cmdline: String,
    /// File of the guest's memory. It becomes the layer's `mem` when sealed.
    pub mem: PathBuf,
}

/// Whether the guest's CPUs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Power {
    Running,
    Paused,
    /// Stopped because the host's disk is full. The machine should run, and the driver resumes it
    /// from time to time.
    Waiting,
}

/// State of a machine, as its watch channel reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MachineState {
    Alive,
    /// The process is gone. The reason is for operators and for the ledger.
    Dead {
        reason: String,
    },
}

/// Requirements for restoring a layer made by this driver. All of it is in the layer's manifest.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct MachineProfile {
    /// `qemu-tcg`, `qemu-kvm`, `fake`.
    pub driver: String,
    /// Digest of the runtime bundle (program, libraries, firmware) that wrote the state.
    pub runtime: String,
    pub machine_type: String,
    pub cpu_profile: String,
    /// Guest-visible clock frequency, if the driver passes the host's through.
    pub tsc_khz: Option<u64>,
}

/// A machine could not be started. All its resources are released.
#[derive(Debug, thiserror::Error)]
pub enum MachineStartError {
    #[error("{program} is missing; run `pandastack doctor`")]
    ProgramMissing { program: String },
    #[error("start the machine process")]
    Spawn(#[source] std::io::Error),
    #[error("enter network namespace {netns}")]
    Network {
        netns: PathBuf,
        #[source]
        cause: std::io::Error,
    },
    #[error("the machine process ended while starting: {log}")]
    Died { log: String },
    #[error("the machine did not respond within {deadline_ms} ms")]
    Deadline { deadline_ms: u64 },
    #[error("load device state: {reason}")]
    Load { reason: String },
    #[error("jail the machine process: {step}")]
    Jail {
        step: String,
        #[source]
        cause: std::io::Error,
    },
    #[error("process {pid} is not the machine that was recorded")]
    Stranger { pid: u32 },
    #[error("the layer needs {needed}, but this host has {present}")]
    Profile { needed: String, present: String },
    #[error(transparent)]
    Machine(#[from] MachineError),
}

/// A running machine refused a request or did not answer it.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    #[error("the machine process has ended: {reason}")]
    Dead { reason: String },
    #[error("{command} failed: {reason}")]
    Refused { command: String, reason: String },
    #[error("{command} got no response within {deadline_ms} ms")]
    Deadline { command: String, deadline_ms: u64 },
    #[error("{action}")]
    Io {
        action: String,
        #[source]
        cause: std::io::Error,
    },
}

/// Makes machines of one kind.
#[async_trait]
pub trait Driver: Send + Sync + 'static {
    /// The tier of every machine of this driver.
    fn tier(&self) -> Tier;

    /// Requirements of layers made here. Compared with a manifest before a restore.
    fn profile(&self) -> MachineProfile;

    /// The profile for a layer that a certain runtime wrote, if that runtime is still installed. A
    /// layer must stay usable after an upgrade of the host's packages.
    fn profile_of(&self, runtime: &str) -> Option<MachineProfile> {
        let profile = self.profile();
        (profile.runtime == runtime).then_some(profile)
    }

    /// Kernel parameters of a first boot. Different parameters make a different template.
    fn kernel_parameters(&self) -> String {
        String::new()
    }

    /// Boots a machine. The guest runs when this returns, but its agent may not answer yet.
    async fn boot(&self, spec: MachineSpec, image: BootImage) -> Result<Box<dyn Machine>, MachineStartError>;

    /// Loads a sealed layer and returns with the guest paused. Many machines may share one layer.
    async fn restore(&self, spec: MachineSpec, layer: &LayerFiles) -> Result<Box<dyn Machine>, MachineStartError>;

    /// Starts a machine's process before its layer is known, so that a later restore has less to
    /// do. `None` if the driver has no use for it. The disk in `spec` has its final size already;
    /// its content must be there before the machine is resumed.
    async fn blank(&self, _spec: MachineSpec) -> Result<Option<Box<dyn Blank>>, MachineStartError> {
        Ok(None)
    }

    /// Takes over a live machine that an earlier process of this host started, running or paused.
    /// `pid` is the value that `Machine::pid` returned then.
    async fn adopt(&self, spec: MachineSpec, pid: Option<u32>) -> Result<Box<dyn Machine>, MachineStartError>;
}

/// A machine whose process waits for its layer. Must be restored or stopped, not just dropped.
#[async_trait]
pub trait Blank: Send + Sync {
    /// Process id, if there is a process. The machine keeps it.
    fn pid(&self) -> Option<u32>;

    /// Reports whether the machine is alive.
    fn watch(&self) -> watch::Receiver<MachineState>;

    /// Loads a sealed layer and returns the machine paused, as [`Driver::restore`] does. On failure
    /// the process is gone.
    async fn restore(self: Box<Self>, layer: &LayerFiles) -> Result<Box<dyn Machine>, MachineStartError>;

    /// Ends the process and waits for it.
    async fn stop(&self);
}

/// One running VM process.
#[async_trait]
pub trait Machine: Send + Sync {
    fn id(&self) -> MachineId;

    /// Process id, if there is a process.
    fn pid(&self) -> Option<u32>;

    /// Reports whether the machine is alive.
    fn watch(&self) -> watch::Receiver<MachineState>;

    /// Starts the guest's CPUs. Idempotent.
    async fn resume(&self) -> Result<(), MachineError>;

    /// Stops the guest's CPUs. Idempotent.
    async fn pause(&self) -> Result<(), MachineError>;

    /// Queries whether the CPUs run.
    async fn power(&self) -> Result<Power, MachineError>;

    /// Counts how often the guest continued after it had waited for disk space. Its clock had
    /// stopped meanwhile.
    fn went_on(&self) -> watch::Receiver<u64>;

    /// Opens a stream to the guest agent. Fails while the guest does not listen. The caller retries
    /// until its deadline.
    async fn dial(&self) -> Result<Box<dyn Link>, MachineError>;

    /// Opens a stream to the guest agent that can be sealed with the guest, if the driver supports
    /// it.
    async fn dial_kept(&self) -> Result<Box<dyn SealableLink>, MachineError> {
        Err(no_kept_links("open a link that can be sealed"))
    }

    /// Continues a stream that was sealed with the guest this machine was restored from. Does not
    /// contact the guest, so only an answer proves that the guest still knows the stream. Without
    /// an answer the caller dials.
    async fn take_up(&self, _state: &LinkState) -> Result<Box<dyn Link>, MachineError> {
        Err(no_kept_links("restore a sealed link"))
    }

    /// Writes device state to a file. The machine must be paused.
    async fn save_devices(&self, to: &Path) -> Result<(), MachineError>;

    /// Reports how the guest has used the memory file it was restored from. Works while it runs.
    async fn memory_use(&self, base: &Path) -> Result<MemoryUse, MachineError>;

    /// Writes the guest's changes over a copy of the memory file it was restored from, while it
    /// runs, until little is left to be copied. `None` if the driver or the host's kernel cannot
    /// tell what is written meanwhile.
    async fn copy_ahead(&self, _base: &Path, _copy: &Path) -> Result<Option<Arc<dyn AheadCopy>>, MachineError> {
        Ok(None)
    }

    /// Reads the guest's changes to the memory file it was restored from. `None` if they exceed the
    /// maximum. The machine must be paused, and may continue when this returns. Uses the buffer
    /// `room`, made before the pause, or a new one if that is too small.
    async fn hold_memory(
        &self,
        base: &Path,
        part: &MemoryPart,
        room: Vec<u8>,
        bytes_max: ByteSize,
    ) -> Result<Option<MemoryDelta>, MachineError>;

    /// Writes the guest's changes over a copy of the memory file it was restored from, and returns
    /// their size. The machine must stay paused meanwhile.
    async fn save_memory(&self, base: &Path, part: &MemoryPart, copy: &Path) -> Result<ByteSize, MachineError>;

    /// Attaches a volume to its empty slot. The machine must be paused, so that the guest never
    /// sees a partial exchange. The guest notices the disk when it continues.
    async fn attach(&self, port: &SlotVolume) -> Result<(), MachineError>;

    /// Tells the guest that the file of a volume has grown to this size. Only writable disks grow.
    /// Does not shrink a file that is larger.
    async fn volume_grown(&self, slot: VolumeSlot, size: ByteSize) -> Result<(), MachineError>;

    /// Ends the process and waits for it. Idempotent, also for a dead machine.
    async fn stop(&self);
}

fn no_kept_links(command: &str) -> MachineError {
    MachineError::Refused {
        command: command.to_owned(),
        reason: "this driver does not support sealed links".to_owned(),
    }
}
