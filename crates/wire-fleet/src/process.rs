//! Processes that outlive the request that started them. The guest keeps them and their output.

use std::pin::Pin;

use async_trait::async_trait;
use bytes::Bytes;
use futures_core::Stream;
use pandastack_model::{Fault, FaultKind, SandboxId};

use crate::{ByteStream, ExecParams};

/// Id of a process within its sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProcessNumber(pub u64);

/// Request to start a process that outlives its caller.
#[derive(Clone, Debug)]
pub struct SpawnParams {
    /// `stdin` keeps standard input open for `feed`.
    pub exec: ExecParams,
    /// The caller's name for it.
    pub tag: Option<String>,
}

/// A process as its guest reports it. The guest is not trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessView {
    pub number: ProcessNumber,
    pub pid: u32,
    pub command: String,
    pub tag: Option<String>,
    /// Wall clock of the guest, Unix milliseconds.
    pub started_ms: u64,
    /// `None` while it runs.
    pub ended: Option<ProcessEnd>,
    pub stdout_bytes: u64,
    pub stderr_bytes: u64,
    /// Offset of the oldest byte that is kept.
    pub kept_from: u64,
    pub stdin_open: bool,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessEnd {
    /// Exit status, or 128 + N after signal N.
    pub code: i32,
    pub signal: Option<i32>,
    pub timed_out: bool,
    pub at_ms: u64,
}

/// Request for output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttachParams {
    pub process: ProcessNumber,
    /// Offset to start at: bytes of both streams that the caller has received.
    pub offset: u64,
    pub until: FollowUntil,
}

/// How long output is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FollowUntil {
    /// Up to the output that exists now.
    Now,
    /// Until the process ends.
    End,
}

/// A step of a process's output. The first is `At`, the last is `End`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputEvent {
    /// Offset of the next byte: sent first, and again wherever bytes were lost.
    At(u64),
    Stdout(Bytes),
    Stderr(Bytes),
    End(ProcessView),
}

/// A stream of output. Not reading it does not block the process; dropping it ends the stream.
pub type ProcessOutputStream = Pin<Box<dyn Stream<Item = Result<OutputEvent, Fault>> + Send>>;

/// A host whose guests keep processes.
#[async_trait]
pub trait ProcessPort: Send + Sync + 'static {
    /// Starts a process and answers once it runs.
    async fn spawn(&self, _: SandboxId, _: SpawnParams) -> Result<ProcessView, Fault> {
        cannot()
    }

    /// Lists every remembered process, oldest first.
    async fn processes(&self, _: SandboxId) -> Result<Vec<ProcessView>, Fault> {
        cannot()
    }

    async fn process(&self, _: SandboxId, _: ProcessNumber) -> Result<ProcessView, Fault> {
        cannot()
    }

    /// Reads output from any offset. Repeated and concurrent reads are allowed.
    async fn attach(&self, _: SandboxId, _: AttachParams) -> Result<ProcessOutputStream, Fault> {
        cannot()
    }

    /// Writes to standard input, and closes it if requested. Returns the number of bytes accepted.
    async fn feed(&self, _: SandboxId, _: ProcessNumber, _: ByteStream, _: StdinAfterWrite) -> Result<u64, Fault> {
        cannot()
    }

    /// Signals the group of a running process.
    async fn signal(&self, _: SandboxId, _: ProcessNumber, _number: i32) -> Result<(), Fault> {
        cannot()
    }

    /// Kills the group of a process and forgets the process.
    async fn forget(&self, _: SandboxId, _: ProcessNumber) -> Result<(), Fault> {
        cannot()
    }
}

/// State of standard input after a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StdinAfterWrite {
    StaysOpen,
    Closes,
}

fn cannot<T>() -> Result<T, Fault> {
    Err(Fault::new(FaultKind::Conflict, "host.cannot", "this host does not support background processes"))
}
