//! Code sessions as control and edge see them.

use std::{pin::Pin, time::Duration};

use bytes::Bytes;
use futures_core::Stream;
use pandastack_model::{CodeLanguage, CodeSessionId, Fault};

/// A session as its guest tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeSessionView {
    pub id: CodeSessionId,
    pub language: CodeLanguage,
    /// Milliseconds since the Unix epoch, by the guest's clock.
    pub created_ms: u64,
    /// Cells begun.
    pub cells: u64,
}

/// Asks for a cell.
#[derive(Clone, Debug)]
pub struct CellAsk {
    pub session: CodeSessionId,
    pub code: Bytes,
    /// The cell may wait so long for others, and then run so long.
    pub limit: Duration,
}

/// What comes of a cell: output, then its end. Exactly one of `Ended`, `Failed` comes, and it is
/// last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CellEvent {
    Stdout(Bytes),
    Stderr(Bytes),
    /// A piece of the JSON with results and error, as an untrusted guest tells it.
    Body(Bytes),
    Ended(CellEnded),
    Failed(Fault),
}

/// A cell's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellEnded {
    pub how: CellEnd,
    pub took: Duration,
    /// The kernel is new: what earlier cells left behind was lost before this one.
    pub anew: bool,
    /// What this and earlier cells left behind is lost.
    pub lost: bool,
    /// More was written than is kept.
    pub stdout_cut: bool,
    pub stderr_cut: bool,
}

/// How a cell ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellEnd {
    Answered {
        exit: i32,
    },
    /// It ran longer than it may, and was ended.
    Late,
    /// Others took so long that its turn did not come.
    NeverBegun,
    /// The kernel itself ended under it.
    KernelEnded {
        code: i32,
    },
}

/// A cell under way. Dropping it interrupts the cell.
pub type CellStream = Pin<Box<dyn Stream<Item = CellEvent> + Send>>;
