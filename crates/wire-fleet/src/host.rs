//! What a host can be asked. Every call may arrive twice; `ensure` and `remove` answer the same the
//! second time.

use std::{any::Any, collections::BTreeMap, pin::Pin, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use futures_core::Stream;
use pandastack_model::{
    Bytes as Size, CodeLanguage, CodeSessionId, Egress, ExecDefaults, Fault, GuestPort, LayerId, SandboxId,
    SandboxSpec, SandboxState, Tier, VolumeId,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::{broadcast, mpsc},
};

use crate::{ProcessPort, TreePort};

use crate::{CellAsk, CellStream, CodeSessionView};

/// A body that is never held whole. An error ends it.
pub type ByteStream = Pin<Box<dyn Stream<Item = Result<Bytes, Fault>> + Send>>;

/// Asks for a sandbox to be running.
#[derive(Clone, Debug)]
pub struct Ensure {
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
    /// From the request to the guest's first answer.
    pub boot: Duration,
    /// The first part of it: until there was a machine with the layer in it.
    pub prepared: Duration,
    /// How the machine was come by: `standby`, `warm`, `cold`, `fork`, `snapshot`, `wake`.
    pub boot_mode: &'static str,
    /// How long nobody has used it.
    pub idle: Duration,
}

/// Asks for a layer of a running sandbox. The layer's id is the caller's choice: asking again for
/// the same one answers the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealAsk {
    pub layer: LayerId,
    pub hold: Hold,
}

/// Who keeps a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// Its owner, until `release`: durable when the answer comes.
    Kept,
    /// The machines that run on it, and whoever sealed it until `release` or the host's next start.
    Passing,
}

/// A sealed layer as its host knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerView {
    pub layer: LayerId,
    /// Memory and disk that the layer has for itself alone.
    pub own: Size,
    /// How long the sandbox stood still for it.
    pub pause: Duration,
}

/// How long a sandbox may be idle, and what happens then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifecycle {
    /// 0 is no limit.
    pub ttl_seconds: u64,
    pub persistent: bool,
}

/// Asks for children of a running sandbox: one seal, as many restores.
#[derive(Clone, Debug)]
pub struct ForkAsk {
    pub parent: SandboxId,
    /// Id of the layer between parent and children.
    pub layer: LayerId,
    /// The children; where they start from is replaced by the layer.
    pub children: Vec<Ensure>,
}

/// What became of a fork. Some children may have failed while others run.
#[derive(Debug)]
pub struct Forked {
    pub layer: LayerView,
    /// One outcome per child asked for, in the same order.
    pub children: Vec<Result<SandboxView, Fault>>,
}

/// Asks for a layer of a root file system that was never booted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootAsk {
    pub layer: LayerId,
    /// Holds the root file system.
    pub volume: VolumeId,
    pub memory: Size,
    pub cpus: u8,
    pub defaults: ExecDefaults,
}

/// A durable disk as its host knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeView {
    pub volume: VolumeId,
    pub size: Size,
    /// The sandboxes that use it now, asleep ones included.
    pub users: Vec<SandboxId>,
}

/// What an audit found. A host with nothing but what it should have reports no leaks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditReport {
    /// Machines with a layer, namespaces, disks, layers and volumes that are accounted for.
    pub machines: usize,
    pub slots: usize,
    pub disks: usize,
    pub layers: usize,
    pub volumes: usize,
    /// Each thing that nobody owns, or that is recorded and missing, in words.
    pub leaks: Vec<String>,
    /// Which of them were removed by this audit.
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

/// How the host itself is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostStatus {
    pub tier: Tier,
    pub sandboxes: usize,
    /// Machines that are ready for a create.
    pub standby: usize,
    /// Processes that wait for any layer.
    pub blanks: usize,
    /// Guest memory of all machines together, standby ones included.
    pub memory_promised: Size,
    /// The data volume.
    pub disk_free: Size,
    pub disk_total: Size,
    /// What this process itself holds.
    pub resident: Size,
}

/// What the process of a sandbox's machine uses of its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineUsage {
    pub id: SandboxId,
    pub pid: u32,
    /// Since the sandbox has had this machine.
    pub up: Duration,
    /// Time on CPUs since the process began, which may be before the sandbox had it.
    pub cpu: Duration,
    pub resident: Size,
    pub mapped: Size,
    pub threads: u64,
}

/// What to read of a console.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsoleAsk {
    /// What is there now.
    Past,
    /// That, and what comes, until the sandbox is gone.
    Follow,
}

/// What happened to a sandbox without anybody asking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostEvent {
    /// The machine died under it.
    Failed { id: SandboxId, reason: String },
    /// It is in another state now: paused, resumed, fallen asleep, woken.
    Changed { view: SandboxView, cause: Cause },
    /// The sandbox is gone and everything it held is released.
    Removed { id: SandboxId, why: RemovedBy, cause: Cause },
    /// Its guest tried to reach something that its egress list does not name.
    Denied { id: SandboxId, target: String },
}

/// The trace of the request that something happened for, as a `traceparent`; none if it happened by
/// itself.
pub type Cause = Option<String>;

/// Who ended a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemovedBy {
    /// A request, or the host's own end.
    Request,
    /// Nobody had used it for as long as its owner allowed.
    Idleness,
}

/// What to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    Shell(String),
    Argv(Vec<String>),
}

/// Asks for a process.
#[derive(Clone, Debug)]
pub struct ExecAsk {
    pub program: Program,
    pub cwd: Option<String>,
    pub env: BTreeMap<String, String>,
    pub user: Option<String>,
    /// Whether standard input will be sent.
    pub stdin: bool,
    pub deadline: Option<Duration>,
    /// Rows and columns, for a terminal instead of pipes.
    pub terminal: Option<(u16, u16)>,
}

impl ExecAsk {
    /// Asks for a shell command as root, without input, ended after the deadline.
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

/// One step of a process's life. Exactly one of `Exit`, `TimedOut`, `Failed` comes, and it is last.
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

/// Something for a running process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExecControl {
    Stdin(Bytes),
    CloseStdin,
    Signal(i32),
    Resize { rows: u16, cols: u16 },
}

/// A running process. Not reading `events` stops the process when its window is full; dropping the
/// session ends it.
#[derive(Debug)]
pub struct ExecSession {
    pub events: mpsc::Receiver<ExecEvent>,
    pub control: mpsc::Sender<ExecControl>,
}

/// Keeps a sandbox from being taken for idle until it is dropped.
pub struct Presence(
    #[expect(dead_code, reason = "what it holds matters only when it is dropped")] Box<dyn Any + Send + Sync>,
);

impl Presence {
    /// Wraps what the host gives back when it is dropped.
    pub fn new(held: impl Any + Send + Sync) -> Self {
        Self(Box::new(held))
    }
}

/// What a path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    File,
    Directory,
    Symlink,
    Other,
}

/// One file or directory in a guest. Names come from an untrusted guest and were checked by the
/// host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEntry {
    pub name: String,
    pub kind: FileKind,
    pub size: u64,
    pub mode: u32,
    pub modified: i64,
    pub target: Option<String>,
}

/// A file being read.
pub struct FileBody {
    pub entry: FileEntry,
    pub body: ByteStream,
}

/// Asks for a file to be written whole or not at all.
#[derive(Clone, Debug)]
pub struct WriteAsk {
    pub path: String,
    pub mode: Option<u32>,
}

/// Bytes to and from a port in a guest.
pub trait GuestBytes: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> GuestBytes for T {}

/// A connection to a port in a guest. A use of the sandbox until it is dropped; it breaks when the
/// sandbox's machine goes.
pub type GuestStream = Box<dyn GuestBytes>;

/// A port that somebody in a guest listens on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListeningPort {
    pub port: GuestPort,
    /// Whether only the guest itself can reach it.
    pub loopback_only: bool,
    /// The listener's name, as an untrusted guest tells it.
    pub process: Option<String>,
}

/// A host as control and edge see it.
#[async_trait]
pub trait HostPort: ProcessPort + TreePort {
    /// Makes the sandbox run, or says why not. When it fails nothing is left.
    async fn ensure(&self, ask: Ensure) -> Result<SandboxView, Fault>;

    /// Makes the sandbox be gone. Unknown ids are fine.
    async fn remove(&self, id: SandboxId) -> Result<(), Fault>;

    /// Stops its CPUs. A paused sandbox serves nothing until `resume`.
    async fn pause(&self, id: SandboxId) -> Result<SandboxView, Fault>;

    /// Lets its CPUs run again.
    async fn resume(&self, id: SandboxId) -> Result<SandboxView, Fault>;

    /// Puts it to sleep. When this answers, everything is durable and its machine is given up; a
    /// failure leaves it as it was.
    async fn sleep(&self, id: SandboxId) -> Result<SandboxView, Fault>;

    /// Wakes it, together with everybody else who asks or uses it at the same time.
    async fn wake(&self, id: SandboxId) -> Result<SandboxView, Fault>;

    /// Seals it into a layer and lets it go on. A sleeping one is woken first.
    async fn seal(&self, id: SandboxId, ask: SealAsk) -> Result<LayerView, Fault>;

    /// Seals as `seal` does, and says how commands start in what is made from the layer.
    async fn seal_as(&self, id: SandboxId, ask: SealAsk, defaults: ExecDefaults) -> Result<LayerView, Fault>;

    /// Seals once and starts every child from that layer, a few at a time. Fails as a whole only if
    /// the seal does.
    async fn fork(&self, ask: ForkAsk) -> Result<Forked, Fault>;

    /// Gives a layer up. Its data goes with its last user; unknown layers are fine.
    async fn release(&self, layer: LayerId) -> Result<(), Fault>;

    /// Changes what a sandbox may reach, at once, whatever state it is in.
    async fn set_egress(&self, id: SandboxId, egress: Egress) -> Result<(), Fault>;

    /// Changes idle limit and persistence.
    async fn set_lifecycle(&self, id: SandboxId, lifecycle: Lifecycle) -> Result<SandboxView, Fault>;

    /// Makes an empty volume of a size. Asking again for the same id and size answers the same.
    async fn make_volume(&self, volume: VolumeId, size: Size) -> Result<VolumeView, Fault>;

    /// Grows a volume, also while it is in use. It never shrinks.
    async fn grow_volume(&self, volume: VolumeId, size: Size) -> Result<VolumeView, Fault>;

    /// Removes a volume and its data; refused while a sandbox uses it. Unknown ones are fine.
    async fn remove_volume(&self, volume: VolumeId) -> Result<(), Fault>;

    /// Lists every volume here.
    async fn volumes(&self) -> Result<Vec<VolumeView>, Fault>;

    /// Boots the root file system that a volume holds and keeps it as a layer. The volume stays,
    /// and nobody may be using it. Asking again for the same layer answers the same.
    async fn boot(&self, ask: BootAsk) -> Result<LayerView, Fault>;

    /// Compares what is recorded with what is there.
    async fn audit(&self) -> Result<AuditReport, Fault>;

    /// Tells what the sandbox is now; `None` if it is not here.
    async fn observe(&self, id: SandboxId) -> Option<SandboxView>;

    /// Lists every sandbox here.
    async fn observe_all(&self) -> Vec<SandboxView>;

    async fn status(&self) -> HostStatus;

    /// Measures the machine of a sandbox; `None` if it has none now, or none with a process.
    async fn usage(&self, id: SandboxId) -> Result<Option<MachineUsage>, Fault>;

    /// Measures all machines that sandboxes have.
    async fn usages(&self) -> Vec<MachineUsage>;

    /// Reads a sandbox's console, whatever state it is in; neither wakes it nor counts as a use.
    /// The first piece is all that was there at the time of asking, perhaps nothing; the others are
    /// what came after it.
    async fn console(&self, id: SandboxId, ask: ConsoleAsk) -> Result<ByteStream, Fault>;

    async fn templates(&self) -> Vec<TemplateView>;

    /// Wakes it if it sleeps, and counts as a use of it until the answer is dropped. Being put to
    /// sleep on request ends the use; who still wants it asks again.
    async fn attend(&self, id: SandboxId) -> Result<Presence, Fault>;

    async fn exec(&self, id: SandboxId, ask: ExecAsk) -> Result<ExecSession, Fault>;

    /// Opens a code session. Asking again for the same id answers the same.
    async fn open_code(
        &self,
        id: SandboxId,
        session: &CodeSessionId,
        language: CodeLanguage,
    ) -> Result<CodeSessionView, Fault>;

    /// Lists the code sessions of a sandbox, oldest first.
    async fn code_sessions(&self, id: SandboxId) -> Result<Vec<CodeSessionView>, Fault>;

    /// Closes a code session and ends what runs in it.
    async fn close_code(&self, id: SandboxId, session: &CodeSessionId) -> Result<(), Fault>;

    /// Runs a cell, after those that were asked for before it in the same session.
    async fn run_cell(&self, id: SandboxId, ask: CellAsk) -> Result<CellStream, Fault>;

    async fn read_file(&self, id: SandboxId, path: &str) -> Result<FileBody, Fault>;

    /// Writes the body and returns how many bytes it was.
    async fn write_file(&self, id: SandboxId, ask: WriteAsk, body: ByteStream) -> Result<u64, Fault>;

    async fn list_dir(&self, id: SandboxId, path: &str) -> Result<Vec<FileEntry>, Fault>;

    async fn stat(&self, id: SandboxId, path: &str) -> Result<FileEntry, Fault>;

    /// Deletes a path and everything below it. A missing path is fine.
    async fn delete_path(&self, id: SandboxId, path: &str) -> Result<(), Fault>;

    /// Asks the guest which ports somebody listens on; the agent's own is not among them.
    async fn listening(&self, id: SandboxId) -> Result<Vec<ListeningPort>, Fault>;

    /// Connects to a port in the guest. Wakes a sleeper, as every use does.
    async fn connect(&self, id: SandboxId, port: GuestPort) -> Result<GuestStream, Fault>;

    /// Subscribes to what happens unasked.
    fn events(&self) -> broadcast::Receiver<HostEvent>;
}
