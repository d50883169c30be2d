//! What a host can be asked. Every call may arrive twice; `ensure` and `remove` answer the same the second time.

use std::{collections::BTreeMap, pin::Pin, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use futures_core::Stream;
use pandastack_model::{Fault, SandboxId, SandboxSpec, SandboxState, Tier};
use tokio::sync::{broadcast, mpsc};

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
    /// `standby` or `cold`: how the machine was come by.
    pub boot_mode: &'static str,
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
    pub standby: usize,
}

/// What happened to a sandbox without anybody asking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostEvent {
    /// The machine died under it.
    Failed { id: SandboxId, reason: String },
    /// The sandbox is gone and everything it held is released.
    Removed { id: SandboxId },
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

/// A running process. Not reading `events` stops the process when its window is full; dropping the session ends it.
#[derive(Debug)]
pub struct ExecSession {
    pub events: mpsc::Receiver<ExecEvent>,
    pub control: mpsc::Sender<ExecControl>,
}

/// What a path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    File,
    Directory,
    Symlink,
    Other,
}

/// One file or directory in a guest. Names come from an untrusted guest and were checked by the host.
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

/// A host as control and edge see it.
#[async_trait]
pub trait HostPort: Send + Sync + 'static {
    /// Makes the sandbox run, or says why not. When it fails nothing is left.
    async fn ensure(&self, ask: Ensure) -> Result<SandboxView, Fault>;

    /// Makes the sandbox be gone. Unknown ids are fine.
    async fn remove(&self, id: SandboxId) -> Result<(), Fault>;

    /// Tells what the sandbox is now; `None` if it is not here.
    async fn observe(&self, id: SandboxId) -> Option<SandboxView>;

    /// Lists every sandbox here.
    async fn observe_all(&self) -> Vec<SandboxView>;

    async fn status(&self) -> HostStatus;

    async fn templates(&self) -> Vec<TemplateView>;

    async fn exec(&self, id: SandboxId, ask: ExecAsk) -> Result<ExecSession, Fault>;

    async fn read_file(&self, id: SandboxId, path: &str) -> Result<FileBody, Fault>;

    /// Writes the body and returns how many bytes it was.
    async fn write_file(&self, id: SandboxId, ask: WriteAsk, body: ByteStream) -> Result<u64, Fault>;

    async fn list_dir(&self, id: SandboxId, path: &str) -> Result<Vec<FileEntry>, Fault>;

    async fn stat(&self, id: SandboxId, path: &str) -> Result<FileEntry, Fault>;

    /// Deletes a path and everything below it. A missing path is fine.
    async fn delete_path(&self, id: SandboxId, path: &str) -> Result<(), Fault>;

    /// Subscribes to what happens unasked.
    fn events(&self) -> broadcast::Receiver<HostEvent>;
}
