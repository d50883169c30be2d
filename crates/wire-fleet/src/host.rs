//! The requests a host serves. Every call may arrive twice; `ensure` and `remove` give the same
//! answer the second time.

use std::{any::Any, collections::BTreeMap, pin::Pin, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use futures_core::Stream;
use pandastack_model::{
    ByteSize, CodeLanguage, CodeSessionId, Egress, ExecDefaults, Fault, FaultKind, GuestPort, LayerId, SandboxId,
    SandboxSpec, SandboxState, Tier, VolumeId,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::{broadcast, mpsc},
};

use crate::{CellParams, CellStream, CodeSessionView, ProcessPort, TreePort, UsageCursor, UsagePage};

/// A body that is streamed and never held whole. An error ends it.
pub type ByteStream = Pin<Box<dyn Stream<Item = Result<Bytes, Fault>> + Send>>;

/// Request that a sandbox runs.
#[derive(Clone, Debug)]
pub struct EnsureParams {
    pub id: SandboxId,
    pub generation: u64,
    pub spec: SandboxSpec,
}

/// A sandbox as its host knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxView {
    pub id: SandboxId,
    pub state: SandboxState,
    pub isolation: Tier,
    pub cpus: u8,
    pub memory_mib: u64,
    pub disk_mib: u64,
    pub guest_ip: String,
    /// Time from the request to the guest's first answer.
    pub boot: Duration,
    /// The first part of `boot`: until a machine with the layer was ready.
    pub prepared: Duration,
    /// Boot mode: `standby`, `warm`, `cold`, `fork`, `snapshot` or `wake`.
    pub boot_mode: &'static str,
    /// Time since the last use.
    pub idle: Duration,
}

/// Request to seal a running sandbox. The caller chooses the layer's id: a repeated request with
/// the same id gets the same answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealParams {
    pub layer: LayerId,
    pub hold: LayerHold,
}

/// Who keeps a layer from being deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerHold {
    /// Its owner, until `release`. Durable when the answer is sent.
    Kept,
    /// The machines that run on it, and the caller that sealed it until `release` or the host's
    /// next start.
    Passing,
}

/// A sealed layer as its host knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerView {
    pub layer: LayerId,
    /// Memory and disk that only this layer uses.
    pub own: ByteSize,
    /// How long the sandbox was stopped for the seal.
    pub pause: Duration,
}

/// Idle limit of a sandbox, and the action after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdlePolicy {
    /// 0 means no limit.
    pub ttl_seconds: u64,
    pub persistent: bool,
}

/// Request for children of a running sandbox: one seal, one restore for each child.
#[derive(Clone, Debug)]
pub struct ForkParams {
    pub parent: SandboxId,
    /// Id of the layer between parent and children.
    pub layer: LayerId,
    /// The children. Their origin is replaced by the layer.
    pub children: Vec<EnsureParams>,
}

/// Result of a fork. Some children may have failed while others run.
#[derive(Debug)]
pub struct ForkOutcome {
    pub layer: LayerView,
    /// One outcome for each requested child, in the same order.
    pub children: Vec<Result<SandboxView, Fault>>,
}

/// Request to boot a root file system for the first time and keep it as a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootParams {
    pub layer: LayerId,
    /// The volume that holds the root file system.
    pub volume: VolumeId,
    pub memory: ByteSize,
    pub cpus: u8,
    pub defaults: ExecDefaults,
}

/// What was asked for a sandbox, as its host has recorded it, with every later change.
#[derive(Clone, Debug)]
pub struct RecordedSandbox {
    pub ask: EnsureParams,
    /// Time of the oldest fact about its machines that the host still has.
    pub since_ns: Option<u64>,
}

/// A durable disk as its host knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeView {
    pub volume: VolumeId,
    pub size: ByteSize,
    /// When its disk was made, if the file system knows.
    pub created_ns: Option<u64>,
    /// The sandboxes that use it now, asleep ones included.
    pub users: Vec<SandboxId>,
}

/// Result of an audit. A host without unexpected resources reports no leaks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditReport {
    /// Counts of owned machines with a layer, network namespaces, disks, layers and volumes.
    pub machines: usize,
    pub slots: usize,
    pub disks: usize,
    pub layers: usize,
    pub volumes: usize,
    /// Each resource that has no owner, or that is recorded and missing, as text.
    pub leaks: Vec<String>,
    /// The leaks that this audit removed.
    pub repaired: Vec<String>,
}

/// A template that this host can start from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateView {
    pub name: String,
    pub layer: String,
    pub memory_mib: u64,
    pub cpus: u8,
    pub disk_mib: u64,
}

/// State of the host itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostStatus {
    pub tier: Tier,
    pub sandboxes: usize,
    /// Machines that are ready for a create.
    pub standby: usize,
    /// Blank processes that are ready for any layer.
    pub blanks: usize,
    /// Guest memory of all machines together, standby machines included.
    pub memory_promised: ByteSize,
    /// Space on the data volume.
    pub disk_free: ByteSize,
    pub disk_total: ByteSize,
    /// Resident memory of this process.
    pub resident: ByteSize,
}

/// Resources that the process of a sandbox's machine uses on its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineUsage {
    pub id: SandboxId,
    pub pid: u32,
    /// Time since the sandbox got this machine.
    pub up: Duration,
    /// CPU time of the process, which may be older than the sandbox's use of it.
    pub cpu: Duration,
    pub resident: ByteSize,
    pub mapped: ByteSize,
    pub threads: u64,
}

/// Which part of a console to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsoleRange {
    /// The output so far.
    Past,
    /// The output so far and all later output, until the sandbox is removed.
    Follow,
}

/// A change of a sandbox that the host reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostEvent {
    /// Its machine died.
    Failed { id: SandboxId, reason: String },
    /// It changed state: paused, resumed, fallen asleep, woken.
    Changed { view: SandboxView, cause: ChangeCause },
    /// The sandbox is removed and its resources are released.
    Removed { id: SandboxId, why: RemovedBy, cause: ChangeCause },
    /// Its guest tried to reach a target that its egress list does not allow.
    Denied { id: SandboxId, target: String },
}

/// `traceparent` of the request that caused a change; `None` if no request did.
pub type ChangeCause = Option<String>;

/// Why a sandbox was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemovedBy {
    /// A request, or the host's shutdown.
    Request,
    /// It was idle for longer than its limit.
    Idleness,
}

/// Command to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    Shell(String),
    Argv(Vec<String>),
    /// An interpreter whose last argument is a program of this language. A warm kernel of the guest
    /// may run it instead.
    Code(CodeLanguage, Vec<String>),
}

/// Request to run a process.
#[derive(Clone, Debug)]
pub struct ExecParams {
    pub program: Program,
    pub cwd: Option<String>,
    pub env: BTreeMap<String, String>,
    pub user: Option<String>,
    /// Whether standard input will be sent.
    pub stdin: bool,
    pub deadline: Option<Duration>,
    /// Rows and columns of a terminal, used instead of pipes.
    pub terminal: Option<(u16, u16)>,
}

impl ExecParams {
    /// Makes a request for a shell command as root, without input, with a deadline.
    pub fn shell(command: impl Into<String>, deadline: Duration) -> Self {
        Self {
            program: Program::Shell(command.into()),
            cwd: None,
            env: BTreeMap::new(),
            user: None,
            stdin: false,
            deadline: Some(deadline),
            terminal: None,
        }
    }
}

/// One step of a process. The last event is `Exit`, `TimedOut` or `Failed`, exactly once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExecEvent {
    Stdout(Bytes),
    Stderr(Bytes),
    Exit {
        code: i32,
    },
    /// The deadline passed and the process group was ended.
    TimedOut {
        after: Duration,
    },
    Failed(Fault),
}

/// Input to a running process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExecControl {
    Stdin(Bytes),
    CloseStdin,
    Signal(i32),
    Resize { rows: u16, cols: u16 },
}

/// A running process. If `events` is not read, the process blocks when its window is full. Dropping
/// the session ends the process.
#[derive(Debug)]
pub struct ExecSession {
    pub events: mpsc::Receiver<ExecEvent>,
    pub control: mpsc::Sender<ExecControl>,
}

/// Keeps a sandbox from becoming idle until it is dropped.
pub struct Presence(
    #[expect(dead_code, reason = "what it holds matters only when it is dropped")] Box<dyn Any + Send + Sync>,
);

impl Presence {
    /// Wraps a guard of the host that ends the use when it is dropped.
    pub fn new(held: impl Any + Send + Sync) -> Self {
        Self(Box::new(held))
    }
}

/// Who uses a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UseKind {
    /// A client. Its use wakes a sleeping sandbox and keeps it awake.
    Client,
    /// The platform itself, to measure or to back up. Its use neither wakes a sandbox nor keeps it
    /// awake: a sleeping one answers [`UseKind::asleep`], and a sleep cuts what is in progress.
    Platform,
}

impl UseKind {
    /// Code of [`UseKind::asleep`].
    pub const ASLEEP: &str = "sandbox.asleep";

    /// Makes the fault of the platform's use of a sleeping sandbox.
    pub fn asleep() -> Fault {
        Fault::new(FaultKind::Conflict, Self::ASLEEP, "the sandbox is hibernated; wake it first")
    }
}

/// Type of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    File,
    Directory,
    Symlink,
    Other,
}

/// One file or directory in a guest. The guest is not trusted; the host has checked the name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEntry {
    pub name: String,
    pub kind: FileKind,
    pub size: u64,
    pub mode: u32,
    pub modified: i64,
    pub target: Option<String>,
}

/// A file that is being read.
pub struct FileBody {
    pub entry: FileEntry,
    pub body: ByteStream,
}

/// Request to write a file atomically.
#[derive(Clone, Debug)]
pub struct WriteParams {
    pub path: String,
    pub mode: Option<u32>,
}

/// Byte stream to and from a port in a guest.
pub trait GuestBytes: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> GuestBytes for T {}

/// A connection to a port in a guest. A client's counts as a use of the sandbox until it is
/// dropped. It breaks when the machine ends.
pub type GuestStream = Box<dyn GuestBytes>;

/// A port that a process in a guest listens on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListeningPort {
    pub port: GuestPort,
    /// Whether it is reachable from inside the guest only.
    pub loopback_only: bool,
    /// Name of the listening process. The guest is not trusted.
    pub process: Option<String>,
}

/// A host as control and edge see it.
#[async_trait]
pub trait HostPort: ProcessPort + TreePort {
    /// Whether there is a host. Without one every request that needs it is refused.
    fn is_here(&self) -> bool {
        true
    }

    /// Starts the sandbox, or returns why not. A failure leaves nothing behind.
    async fn ensure(&self, ask: EnsureParams) -> Result<SandboxView, Fault>;

    /// Removes the sandbox. Unknown ids succeed.
    async fn remove(&self, id: SandboxId) -> Result<(), Fault>;

    /// Stops its CPUs. A paused sandbox serves no use until it is resumed.
    async fn pause(&self, id: SandboxId) -> Result<SandboxView, Fault>;

    /// Starts its CPUs again.
    async fn resume(&self, id: SandboxId) -> Result<SandboxView, Fault>;

    /// Puts it to sleep. When this returns, its state is durable and its machine is released. A
    /// failure leaves it unchanged.
    async fn sleep(&self, id: SandboxId) -> Result<SandboxView, Fault>;

    /// Wakes it. Concurrent wakes and uses share one restore.
    async fn wake(&self, id: SandboxId) -> Result<SandboxView, Fault>;

    /// Seals it into a layer and lets it continue. A sleeping sandbox is woken first.
    async fn seal(&self, id: SandboxId, ask: SealParams) -> Result<LayerView, Fault>;

    /// Seals like `seal`, and sets the command defaults of sandboxes made from the layer.
    async fn seal_as(&self, id: SandboxId, ask: SealParams, defaults: ExecDefaults) -> Result<LayerView, Fault>;

    /// Seals once and starts every child from that layer, a few at a time. Fails as a whole only if
    /// the seal fails.
    async fn fork(&self, ask: ForkParams) -> Result<ForkOutcome, Fault>;

    /// Releases a layer. Its data is deleted with its last user; unknown layers succeed.
    async fn release(&self, layer: LayerId) -> Result<(), Fault>;

    /// Replaces a sandbox's egress policy at once, in any state.
    async fn set_egress(&self, id: SandboxId, egress: Egress) -> Result<(), Fault>;

    /// Changes idle limit and persistence.
    async fn set_lifecycle(&self, id: SandboxId, lifecycle: IdlePolicy) -> Result<SandboxView, Fault>;

    /// Makes an empty volume. A repeated request with the same id and size gets the same answer.
    async fn make_volume(&self, volume: VolumeId, size: ByteSize) -> Result<VolumeView, Fault>;

    /// Grows a volume, also while it is in use. Volumes never shrink.
    async fn grow_volume(&self, volume: VolumeId, size: ByteSize) -> Result<VolumeView, Fault>;

    /// Deletes a volume and its data; refused while a sandbox uses it. Unknown ids succeed.
    async fn remove_volume(&self, volume: VolumeId) -> Result<(), Fault>;

    /// Lists every volume here.
    async fn volumes(&self) -> Result<Vec<VolumeView>, Fault>;

    /// Boots the root file system on a volume and keeps it as a layer. The volume stays and must
    /// not be in use. A repeated request for the same layer gets the same answer.
    async fn boot(&self, ask: BootParams) -> Result<LayerView, Fault>;

    /// Compares the recorded resources with the existing ones.
    async fn audit(&self) -> Result<AuditReport, Fault>;

    /// Returns the sandbox's current state; `None` if it is not on this host.
    async fn observe(&self, id: SandboxId) -> Option<SandboxView>;

    /// Lists every sandbox on this host.
    async fn observe_all(&self) -> Vec<SandboxView>;

    /// Lists what was asked for every sandbox on this host, failed ones included.
    async fn recorded(&self) -> Result<Vec<RecordedSandbox>, Fault>;

    async fn status(&self) -> HostStatus;

    /// Returns usage facts after a cursor, at most `most` of them. Asking with a cursor confirms
    /// that everything up to it is stored: the host may forget what is over.
    async fn usage_facts(&self, after: &UsageCursor, most: usize) -> Result<UsagePage, Fault>;

    /// Measures a sandbox's machine; `None` if it has no machine, or one without a process.
    async fn usage(&self, id: SandboxId) -> Result<Option<MachineUsage>, Fault>;

    /// Measures the machines of all sandboxes.
    async fn usages(&self) -> Vec<MachineUsage>;

    /// Reads a sandbox's console in any state, without waking it or counting as a use. The first
    /// piece is all output so far and may be empty; later pieces are new output.
    async fn console(&self, id: SandboxId, ask: ConsoleRange) -> Result<ByteStream, Fault>;

    async fn templates(&self) -> Vec<TemplateView>;

    /// Wakes the sandbox if it sleeps, and counts as a use until the answer is dropped. A requested
    /// sleep ends the use; the caller must attend again.
    async fn attend(&self, id: SandboxId) -> Result<Presence, Fault>;

    /// Runs a process for a client.
    async fn exec(&self, id: SandboxId, ask: ExecParams) -> Result<ExecSession, Fault> {
        self.exec_as(id, ask, UseKind::Client).await
    }

    /// Runs a process.
    async fn exec_as(&self, id: SandboxId, ask: ExecParams, by: UseKind) -> Result<ExecSession, Fault>;

    /// Opens a code session. A repeated request with the same id gets the same answer.
    async fn open_code(
        &self,
        id: SandboxId,
        session: &CodeSessionId,
        language: CodeLanguage,
    ) -> Result<CodeSessionView, Fault>;

    /// Lists the code sessions of a sandbox, oldest first.
    async fn code_sessions(&self, id: SandboxId) -> Result<Vec<CodeSessionView>, Fault>;

    /// Closes a code session and ends its running cell.
    async fn close_code(&self, id: SandboxId, session: &CodeSessionId) -> Result<(), Fault>;

    /// Runs a cell after the earlier cells of the same session.
    async fn run_cell(&self, id: SandboxId, ask: CellParams) -> Result<CellStream, Fault>;

    async fn read_file(&self, id: SandboxId, path: &str) -> Result<FileBody, Fault>;

    /// Writes the body and returns its size in bytes.
    async fn write_file(&self, id: SandboxId, ask: WriteParams, body: ByteStream) -> Result<u64, Fault>;

    async fn list_dir(&self, id: SandboxId, path: &str) -> Result<Vec<FileEntry>, Fault>;

    async fn stat(&self, id: SandboxId, path: &str) -> Result<FileEntry, Fault>;

    /// Deletes a path recursively. A missing path succeeds.
    async fn delete_path(&self, id: SandboxId, path: &str) -> Result<(), Fault>;

    /// Asks the guest for its listening ports, without the agent's own.
    async fn listening(&self, id: SandboxId) -> Result<Vec<ListeningPort>, Fault>;

    /// Connects a client to a port in the guest. Wakes a sleeping sandbox, as every use does.
    async fn connect(&self, id: SandboxId, port: GuestPort) -> Result<GuestStream, Fault> {
        self.connect_as(id, port, UseKind::Client).await
    }

    /// Connects to a port in the guest.
    async fn connect_as(&self, id: SandboxId, port: GuestPort, by: UseKind) -> Result<GuestStream, Fault>;

    /// Subscribes to the host's events.
    fn events(&self) -> broadcast::Receiver<HostEvent>;
}
