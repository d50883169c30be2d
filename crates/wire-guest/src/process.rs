//! Processes that outlive their callers, from generation 3. The guest keeps the newest output of
//! each, so it survives sleep, forks and a host restart. Output is one sequence of both streams in
//! the order in which the agent read them; offsets count the bytes of both.

use minicbor::{Decode, Encode};

use crate::{FrameKind, Message, StartProcess};

macro_rules! message {
    ($($name:ty => $kind:ident),* $(,)?) => { $(impl Message for $name { const KIND: FrameKind = FrameKind::$kind; })* };
}

message! {
    SpawnProcess => Spawn, ListProcesses => Processes, AttachProcess => Attach, WriteStdin => WriteStdin, SignalProcess => SignalProcess, ForgetProcess => Forget,
    ProcessReport => Process, ProcessList => ProcessList, OutputPosition => Position,
}

/// Starts a process that outlives the connection. Answered by `ProcessReport`.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct SpawnProcess {
    /// `stdin` keeps standard input open for `WriteStdin`.
    #[n(0)]
    pub start: StartProcess,
    /// The caller's name for it.
    #[n(1)]
    pub tag: Option<String>,
}

/// Asks for all processes, or for one. Answered by `ProcessList`, or by `Error` if that one is
/// unknown.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct ListProcesses {
    #[n(0)]
    pub id: Option<u64>,
}

/// Asks for output from an offset. Answered by `OutputPosition`, then `Stdout` and `Stderr` frames,
/// and another `OutputPosition` wherever bytes were lost. `ProcessReport` comes last: after the
/// process has ended, or without `follow` after the output so far. Every frame but the last is
/// credited.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct AttachProcess {
    #[n(0)]
    pub id: u64,
    #[n(1)]
    pub offset: u64,
    #[n(2)]
    pub follow: bool,
}

/// Announces standard input: `Data` frames, the last with END. Answered by `BytesWritten`.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct WriteStdin {
    #[n(0)]
    pub id: u64,
    /// Whether standard input is closed afterwards.
    #[n(1)]
    pub close: bool,
}

/// A signal for the group of a process. Answered by `Done`.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct SignalProcess {
    #[n(0)]
    pub id: u64,
    #[n(1)]
    pub number: i32,
}

/// Kills the group of a process if it still runs, and forgets the process and its output. Answered
/// by `Done`.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct ForgetProcess {
    #[n(0)]
    pub id: u64,
}

/// Offset of the next byte of output.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct OutputPosition {
    #[n(0)]
    pub offset: u64,
}

/// A process.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct ProcessReport {
    /// Never reused within a guest. A fork continues its parent's count.
    #[n(0)]
    pub id: u64,
    #[n(1)]
    pub pid: u32,
    /// The beginning of the command, for humans.
    #[n(2)]
    pub command: String,
    #[n(3)]
    pub tag: Option<String>,
    /// Wall clock of the guest, Unix milliseconds.
    #[n(4)]
    pub started_ms: u64,
    /// Absent while it runs.
    #[n(5)]
    pub ended: Option<ProcessEndReport>,
    /// Bytes written so far, dropped ones included.
    #[n(6)]
    pub stdout_bytes: u64,
    #[n(7)]
    pub stderr_bytes: u64,
    /// Offset of the oldest byte that is kept.
    #[n(8)]
    pub kept_from: u64,
    /// Whether `WriteStdin` is accepted.
    #[n(9)]
    pub stdin_open: bool,
}

/// How a process ended.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct ProcessEndReport {
    /// Exit status, or 128 + N after signal N.
    #[n(0)]
    pub code: i32,
    /// The signal that ended it.
    #[n(1)]
    pub signal: Option<i32>,
    /// Whether its deadline ended it.
    #[n(2)]
    pub timed_out: bool,
    /// Wall clock of the guest, Unix milliseconds.
    #[n(3)]
    pub at_ms: u64,
}

/// Processes, oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct ProcessList {
    #[n(0)]
    pub processes: Vec<ProcessReport>,
}
