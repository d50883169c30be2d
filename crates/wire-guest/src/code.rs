//! Code sessions: a kernel in the guest runs cells one after the other and keeps their state.

use minicbor::{Decode, Encode};

use crate::{FrameKind, Message};

/// Largest code of one cell.
pub const CODE_BYTES_MAX: usize = 1024 * 1024;

/// Most output of one cell that is kept, for each of its two streams.
pub const CODE_OUTPUT_BYTES_MAX: usize = 1024 * 1024;

/// Largest JSON body of a cell.
pub const CODE_BODY_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Longest time from the request for a session until its kernel can run cells.
pub const CODE_START_MS_MAX: u64 = 60_000;

/// Largest code that warms a kernel up.
pub const CODE_WARM_BYTES_MAX: usize = 64 * 1024;

/// Longest time from a cell's deadline until its end is forced.
pub const CODE_GRACE_MS_MAX: u64 = 6_000;

const _: () = assert!(CODE_BYTES_MAX <= crate::WINDOW_BYTES, "a cell is sent without waiting for credit");

impl Message for CodeOpen {
    const KIND: FrameKind = FrameKind::CodeOpen;
}
impl Message for CodeClose {
    const KIND: FrameKind = FrameKind::CodeClose;
}
impl Message for CodeRun {
    const KIND: FrameKind = FrameKind::CodeRun;
}
impl Message for CodeWarm {
    const KIND: FrameKind = FrameKind::CodeWarm;
}
impl Message for CodeOpened {
    const KIND: FrameKind = FrameKind::CodeOpened;
}
impl Message for CodeList {
    const KIND: FrameKind = FrameKind::CodeList;
}
impl Message for CodeRan {
    const KIND: FrameKind = FrameKind::CodeRan;
}

/// Language of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum KernelLanguage {
    #[n(0)]
    Python,
    #[n(1)]
    JavaScript,
    #[n(2)]
    Bash,
}

/// Opens a session. The host chooses the id: a repeated request with the same id gets the same
/// answer.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct CodeOpen {
    #[n(0)]
    pub id: String,
    #[n(1)]
    pub language: KernelLanguage,
}

/// Closes a session.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct CodeClose {
    #[n(0)]
    pub id: String,
}

/// Runs a cell after those that were requested before it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct CodeRun {
    #[n(0)]
    pub id: String,
    /// Longest wait for its turn, and then longest run.
    #[n(1)]
    pub deadline_ms: u64,
    /// `traceparent` of the cell's trace. Older agents ignore it.
    #[n(2)]
    pub trace: Option<String>,
}

/// Keeps a kernel that has run this code, from which later sessions start. Replaces an earlier one
/// of the language.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct CodeWarm {
    #[n(0)]
    pub language: KernelLanguage,
    #[n(1)]
    pub code: String,
    /// Longest time that the code may run.
    #[n(2)]
    pub deadline_ms: u64,
    /// What a rehearsal runs: a short program that does what first cells do.
    #[n(3)]
    pub rehearsal: Option<String>,
}

/// A session as the guest knows it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct CodeSessionReport {
    #[n(0)]
    pub id: String,
    #[n(1)]
    pub language: KernelLanguage,
    /// Wall clock, milliseconds since the Unix epoch.
    #[n(2)]
    pub created_ms: u64,
    /// Cells started.
    #[n(3)]
    pub cells: u64,
}

/// An open session.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct CodeOpened {
    #[n(0)]
    pub session: CodeSessionReport,
}

/// Every session, oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct CodeList {
    #[n(0)]
    pub sessions: Vec<CodeSessionReport>,
}

/// How a cell ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum CodeEnd {
    /// The kernel reported the end.
    #[n(0)]
    Answered,
    /// Its deadline passed and it was ended.
    #[n(1)]
    Late,
    /// Its deadline passed before its turn came.
    #[n(2)]
    NeverBegun,
    /// The kernel process ended while the cell ran.
    #[n(3)]
    KernelEnded,
}

/// A cell's end.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct CodeRan {
    #[n(0)]
    pub end: CodeEnd,
    /// Exit status of the cell, or else of its kernel; 128 + N after signal N.
    #[n(1)]
    pub exit: i32,
    #[n(2)]
    pub duration_ms: u64,
    /// The kernel is new: the state of earlier cells was lost before this cell.
    #[n(3)]
    pub anew: bool,
    /// The state of this and earlier cells is lost.
    #[n(4)]
    pub lost: bool,
    /// More was written than is kept.
    #[n(5)]
    pub stdout_cut: bool,
    #[n(6)]
    pub stderr_cut: bool,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn garbage_payloads_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
            let _ = (CodeOpen::parse(&bytes).is_ok(), CodeRun::parse(&bytes).is_ok(), CodeClose::parse(&bytes).is_ok());
            let _ = CodeWarm::parse(&bytes).is_ok();
            let _ = (CodeOpened::parse(&bytes).is_ok(), CodeList::parse(&bytes).is_ok(), CodeRan::parse(&bytes).is_ok());
        }
    }
}
