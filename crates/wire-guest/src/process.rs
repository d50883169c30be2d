//! Processes that outlive whoever asked for them, from generation 3. The guest keeps the last of
//! each one's output, so it survives with the guest's memory: sleep, forks, and a host that starts
//! anew.
//!
//! Output is one sequence of bytes in the order in which the agent read them, each byte of standard
//! output or of standard error. An offset counts bytes of both from the start.

use minicbor::{Decode, Encode};

use crate::{Kind, Message, Start};

macro_rules! message {
    ($($name:ty => $kind:ident),* $(,)?) => { $(impl Message for $name { const KIND: Kind = Kind::$kind; })* };
}

message! {
    Spawn => Spawn, Which => Processes, Attach => Attach, Feed => Feed, Tell => Tell, Forget => Forget,
    Process => Process, ProcessList => ProcessList, Position => Position,
}

/// Starts a process that lives on when the connection ends. Answered by `Process`.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Spawn {
    /// `stdin` keeps standard input open for `Feed`.
    #[n(0)]
    pub start: Start,
    /// The caller's own name for it.
    #[n(1)]
    pub tag: Option<String>,
}

/// Asks for all processes, or for one. Answered by `ProcessList`, or by `Error` if that one is not
/// known.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Which {
    #[n(0)]
    pub id: Option<u64>,
}

/// Asks for output from an offset on. Answered by `Position`, then `Stdout` and `Stderr` frames,
/// another `Position` wherever bytes were lost in between, and at last `Process`: when the process
/// has ended, or without `follow` when all that was there is sent. Every frame but the last is
/// credited.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Attach {
    #[n(0)]
    pub id: u64,
    #[n(1)]
    pub offset: u64,
    #[n(2)]
    pub follow: bool,
}

/// Announces standard input: `Data` frames, the last with END. Answered by `Written`.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Feed {
    #[n(0)]
    pub id: u64,
    /// Whether standard input is closed after it.
    #[n(1)]
    pub close: bool,
}

/// A signal for the group of a process. Answered by `Done`.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Tell {
    #[n(0)]
    pub id: u64,
    #[n(1)]
    pub number: i32,
}

/// Kills the group of a process that still runs, and forgets it with its output. Answered by
/// `Done`.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Forget {
    #[n(0)]
    pub id: u64,
}

/// Where the next byte of output stands.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Position {
    #[n(0)]
    pub offset: u64,
}

/// A process.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Process {
    /// Never used twice by one guest; a fork counts on from where its parent was.
    #[n(0)]
    pub id: u64,
    #[n(1)]
    pub pid: u32,
    /// The beginning of the command, for people.
    #[n(2)]
    pub command: String,
    #[n(3)]
    pub tag: Option<String>,
    /// Guest's wall clock, Unix milliseconds.
    #[n(4)]
    pub started_ms: u64,
    /// Absent while it runs.
    #[n(5)]
    pub ended: Option<Ended>,
    /// Bytes written so far, kept or not.
    #[n(6)]
    pub stdout_bytes: u64,
    #[n(7)]
    pub stderr_bytes: u64,
    /// Offset of the oldest byte that is still kept.
    #[n(8)]
    pub kept_from: u64,
    /// Whether `Feed` has somewhere to go.
    #[n(9)]
    pub stdin_open: bool,
}

/// How a process of the list ended.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Ended {
    /// Exit status, or 128 + N after signal N.
    #[n(0)]
    pub code: i32,
    /// The signal that ended it.
    #[n(1)]
    pub signal: Option<i32>,
    /// Whether its deadline did.
    #[n(2)]
    pub timed_out: bool,
    /// Guest's wall clock, Unix milliseconds.
    #[n(3)]
    pub at_ms: u64,
}

/// Processes, oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct ProcessList {
    #[n(0)]
    pub processes: Vec<Process>,
}
