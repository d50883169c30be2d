//! Code sessions as control and edge see them.

use std::{pin::Pin, time::Duration};

use bytes::Bytes;
use futures_core::Stream;
use pandastack_model::{CodeLanguage, CodeSessionId, Fault};

/// A session as its guest reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeSessionView {
    pub id: CodeSessionId,
    pub language: CodeLanguage,
    /// Milliseconds since the Unix epoch, by the guest's clock.
    pub created_ms: u64,
    /// Cells started.
    pub cells: u64,
}

/// Request to run a cell.
#[derive(Clone, Debug)]
pub struct CellParams {
    pub session: CodeSessionId,
    pub code: Bytes,
    /// Longest wait for its turn, and then longest run.
    pub limit: Duration,
}

/// One step of a cell's output. The last event is `Ended` or `Failed`, exactly once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CellEvent {
    Stdout(Bytes),
    Stderr(Bytes),
    /// A piece of the JSON with results and error. The guest is not trusted.
    Body(Bytes),
    Ended(CellEnded),
    Failed(Fault),
}

/// A cell's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellEnded {
    pub how: CellEnd,
    pub took: Duration,
    /// The kernel is new: the state of earlier cells was lost before this cell.
    pub anew: bool,
    /// The state of this and earlier cells is lost.
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
    /// It exceeded its time limit and was ended.
    Late,
    /// Its turn did not come within its time limit.
    NeverBegun,
    /// The kernel process ended while the cell ran.
    KernelEnded {
        code: i32,
    },
}

/// A running cell. Dropping the stream interrupts the cell.
pub type CellStream = Pin<Box<dyn Stream<Item = CellEvent> + Send>>;
