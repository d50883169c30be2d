//! Traits and values of the contract.

use std::{
    net::Ipv4Addr,
    path::{Path, PathBuf},
};

use async_trait::async_trait;
use pandastack_model::{Bytes, MachineId, Tier};
use tokio::sync::watch;

use crate::{KeptLink, LayerFiles, Link, LinkState, MemoryDelta, MemoryUse, VolumePort, VolumeSlot};

/// What to build a machine from.
#[derive(Clone, Debug)]
pub struct MachineSpec {
    pub id: MachineId,
    pub memory: Bytes,
    pub cpus: u8,
    /// The machine's own writable root disk.
    pub disk: PathBuf,
    /// The machine's own folder for sockets and logs. Exists, is empty, and is removed by the
    /// caller.
    pub run_dir: PathBuf,
    pub network: NetworkPort,
    /// The runtime that wrote the layer to be restored; `None` is the driver's newest.
    pub runtime: Option<String>,
    pub limits: MachineLimits,
}

/// What one machine's process may use of its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineLimits {
    /// Hundredths of a CPU.
    pub cpu_percent: u32,
    /// The whole process: guest memory and the machine's own.
    pub memory: Bytes,
    /// Threads and processes.
    pub pids: u32,
}

impl MachineLimits {
    /// What a machine's process needs beside its guest's memory: translated code, device models,
    /// buffers.
    const OVERHEAD: Bytes = Bytes::mib(256);

    /// CPU threads, I/O workers and the main loop.
    const THREADS: u32 = 128;

    /// The limits of a machine of this size.
    pub fn of(memory: Bytes, cpus: u8) -> Self {
        let memory = Bytes::new(memory.get() + Self::OVERHEAD.get());
        Self { cpu_percent: u32::from(cpus) * 100, memory, pids: Self::THREADS }
    }
}

/// The machine's place in the network: a namespace made ahead, with a tap in it.
#[derive(Clone, Debug)]
pub struct NetworkPort {
    /// File of the namespace, as `/run/netns/NAME`.
    pub netns: PathBuf,
    pub tap: String,
    pub mac: String,
    /// Where the guest agent listens, reachable only from inside the namespace.
    pub guest_address: Ipv4Addr,
    pub guest_port: u16,
}

/// What a first boot needs; only baking boots.
#[derive(Clone, Debug)]
pub struct BootImage {
    pub kernel: PathBuf,
    pub initramfs: PathBuf,
    /// Added to the driver's own kernel parameters.
    pub cmdline: String,
    /// Where the guest's memory is kept, so that it is the layer's `mem` once sealed.
    pub mem: PathBuf,
}

/// Whether the guest's CPUs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Power {
    Running,
    Paused,
    /// Stands still by itself until the host's disk has room for what it writes. It is to run, and
    /// is told to from time to time.
    Waiting,
}

/// What a machine is doing; the last value of its watch channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MachineState {
    Alive,
    /// The process is gone. The reason is for people and for the ledger.
    Dead {
        reason: String,
    },
}

/// What a layer made by this driver can be restored on. All of it is in the layer's manifest.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct MachineProfile {
    /// `qemu-tcg`, `qemu-kvm`, `fake`.
    pub driver: String,
    /// Digest of the runtime bundle (program, libraries, firmware) that wrote the state.
    pub runtime: String,
    pub machine_type: String,
    pub cpu_profile: String,
    /// Guest-visible clock frequency where the driver passes the host's through.
    pub tsc_khz: Option<u64>,
}

/// A machine could not be started. Everything it had taken is given back.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
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
    #[error("machine process ended during start: {log}")]
    Died { log: String },
    #[error("machine did not answer within {deadline_ms} ms")]
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
    #[error("layer needs {needed}, this host has {present}")]
    Profile { needed: String, present: String },
    #[error(transparent)]
    Machine(#[from] MachineError),
}

/// A running machine refused or lost a request.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    #[error("the machine process is gone: {reason}")]
    Dead { reason: String },
    #[error("{command} was refused: {reason}")]
    Refused { command: String, reason: String },
    #[error("{command} was not answered within {deadline_ms} ms")]
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
    /// The tier every machine of this driver has.
    fn tier(&self) -> Tier;

    /// What layers made here need, to be compared with a manifest before a restore.
    fn profile(&self) -> MachineProfile;

    /// What this host can give a layer that was written by a certain runtime, if that runtime is
    /// still here. An upgrade of the host's packages must strand no layer.
    fn profile_of(&self, runtime: &str) -> Option<MachineProfile> {
        let profile = self.profile();
        (profile.runtime == runtime).then_some(profile)
    }

    /// What a first boot tells the kernel; a template baked with other words is another template.
    fn kernel_parameters(&self) -> String {
        String::new()
    }

    /// Starts a machine from nothing. The guest runs when this returns; its agent may not answer
    /// yet.
    async fn boot(&self, spec: MachineSpec, image: BootImage) -> Result<Box<dyn Machine>, StartError>;

    /// Loads a sealed layer and returns with the guest paused. Many machines may share one layer.
    async fn restore(&self, spec: MachineSpec, layer: &LayerFiles) -> Result<Box<dyn Machine>, StartError>;

    /// Starts a machine's process ahead of the layer it will get, so that a later restore has less
    /// to do. `None` from a driver that gains nothing by it. The disk in `spec` has its final size
    /// already, and its content before the machine is resumed.
    async fn blank(&self, _spec: MachineSpec) -> Result<Option<Box<dyn Blank>>, StartError> {
        Ok(None)
    }

    /// Takes over a machine that an earlier process of this host started and that still lives, as
    /// it is: running or paused. `pid` is what `Machine::pid` gave then.
    async fn adopt(&self, spec: MachineSpec, pid: Option<u32>) -> Result<Box<dyn Machine>, StartError>;
}

/// A machine whose process waits for its layer. Must be restored or stopped, never only dropped.
#[async_trait]
pub trait Blank: Send + Sync {
    /// Process id, where there is a process. The machine will have the same.
    fn pid(&self) -> Option<u32>;

    /// Watches life and death.
    fn watch(&self) -> watch::Receiver<MachineState>;

    /// Loads a sealed layer and gives the machine, paused, as [`Driver::restore`] does. If it fails
    /// the process is gone.
    async fn restore(self: Box<Self>, layer: &LayerFiles) -> Result<Box<dyn Machine>, StartError>;

    /// Ends the process and waits for it.
    async fn stop(&self);
}

/// One running VM process.
#[async_trait]
pub trait Machine: Send + Sync {
    fn id(&self) -> MachineId;

    /// Process id, where there is a process.
    fn pid(&self) -> Option<u32>;

    /// Watches life and death.
    fn watch(&self) -> watch::Receiver<MachineState>;

    /// Lets the guest's CPUs run. Asking twice is fine.
    async fn resume(&self) -> Result<(), MachineError>;

    /// Stops the guest's CPUs. Asking twice is fine.
    async fn pause(&self) -> Result<(), MachineError>;

    /// Asks what the CPUs do.
    async fn power(&self) -> Result<Power, MachineError>;

    /// Counts how often the guest went on after it had waited for room. Its clock stood still
    /// meanwhile.
    fn went_on(&self) -> watch::Receiver<u64>;

    /// Opens a stream to the guest agent. Fails while the guest does not listen; the caller retries
    /// until its deadline.
    async fn dial(&self) -> Result<Box<dyn Link>, MachineError>;

    /// Opens a stream to the guest agent that can be sealed with the guest, for drivers that can.
    async fn dial_kept(&self) -> Result<Box<dyn KeptLink>, MachineError> {
        Err(no_kept_links("dial a link to keep"))
    }

    /// Goes on with a stream that was sealed with the guest this machine was restored from. The
    /// guest is not asked, so that only an answer shows whether it still knows the stream; a caller
    /// without one dials.
    async fn take_up(&self, _state: &LinkState) -> Result<Box<dyn Link>, MachineError> {
        Err(no_kept_links("take a sealed link up"))
    }

    /// Writes device state to a file. The machine must be paused.
    async fn save_devices(&self, to: &Path) -> Result<(), MachineError>;

    /// Tells how the guest has used the memory file it was restored from so far. May be asked while
    /// it runs.
    async fn memory_use(&self, base: &Path) -> Result<MemoryUse, MachineError>;

    /// Reads what the guest has changed of the memory file it was restored from, up to a number of
    /// bytes; `None` if it is more. The machine must be paused, and may go on as soon as this
    /// returns. It goes into `room`, which was made before the pause; into another if that is too
    /// small.
    async fn hold_memory(
        &self,
        base: &Path,
        room: Vec<u8>,
        bytes_max: Bytes,
    ) -> Result<Option<MemoryDelta>, MachineError>;

    /// Writes what the guest has changed of the memory file it was restored from over a copy of
    /// that file, and tells how much it was. The machine must stay paused meanwhile.
    async fn save_memory(&self, base: &Path, copy: &Path) -> Result<Bytes, MachineError>;

    /// Puts a volume into its slot, which is empty. The machine must be paused, so that its guest
    /// never sees half of the exchange; it notices the disk when it runs on.
    async fn attach(&self, port: &VolumePort) -> Result<(), MachineError>;

    /// Tells the guest that the file of a volume in a slot has grown to this size. Only disks that
    /// may be written grow. A file that is larger by now is not cut.
    async fn volume_grown(&self, slot: VolumeSlot, size: Bytes) -> Result<(), MachineError>;

    /// Ends the process and waits for it. Asking twice is fine; a dead machine is fine.
    async fn stop(&self);
}

fn no_kept_links(command: &str) -> MachineError {
    MachineError::Refused { command: command.to_owned(), reason: "this driver seals no links".to_owned() }
}
