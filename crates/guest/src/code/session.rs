//! One code session: its cells run one at a time, and a lost kernel is replaced. It belongs to the
//! agent, so it survives sleep, copies of the guest, and lost or restarted links.

use std::{cell::Cell, rc::Rc, time::Duration};

use bytes::Bytes;
use pandastack_wire_guest::{CodeEnd, CodeRan, CodeSessionReport, ErrorKind, KernelLanguage};
use tokio::{
    sync::{Mutex, MutexGuard, Notify},
    time::{Instant, timeout},
};

use super::{
    capture::CapturedOutput,
    control::CellRequest as Asked,
    kernel::{CellOutcome, Kernel, KernelError},
};
use crate::{Agent, limits, session::GuestFault};

/// A session.
pub(super) struct KernelSession {
    pub(super) id: String,
    pub(super) language: KernelLanguage,
    created_ms: u64,
    cells: Cell<u64>,
    waiting: Cell<usize>,
    closed: Cell<bool>,
    closing: Notify,
    state: Mutex<KernelState>,
}

/// State that only the running cell may use.
struct KernelState {
    kernel: Option<Kernel>,
    /// Whether a kernel with state was lost and no cell has reported that yet.
    lost: bool,
    /// Whether a cell was abandoned before its end.
    unfinished: bool,
    number: u64,
}

/// Result of a cell.
#[derive(Debug)]
pub(super) struct FinishedCell {
    pub(super) how: CodeRan,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
    pub(super) body: Bytes,
}

impl KernelSession {
    /// Opens a session and waits until its kernel is ready.
    pub(super) async fn open(agent: &Rc<Agent>, id: String, language: KernelLanguage) -> Result<Rc<Self>, KernelError> {
        let kernel = Some(Kernel::open(agent, language).await?);
        let state = Mutex::new(KernelState { kernel, lost: false, unfinished: false, number: 0 });
        Ok(Rc::new(Self {
            id,
            language,
            created_ms: agent.system.clock() / 1_000_000,
            cells: Cell::new(0),
            waiting: Cell::new(0),
            closed: Cell::new(false),
            closing: Notify::new(),
            state,
        }))
    }

    pub(super) fn describe(&self) -> CodeSessionReport {
        CodeSessionReport {
            id: self.id.clone(),
            language: self.language,
            created_ms: self.created_ms,
            cells: self.cells.get(),
        }
    }

    /// Ends the session and its running cell.
    pub(super) fn close(&self) {
        self.closed.set(true);
        self.closing.notify_waiters();
    }

    /// Runs a cell when its turn comes. Dropping the future interrupts the cell.
    pub(super) async fn run(
        &self,
        agent: &Rc<Agent>,
        cell: &Asked<'_>,
        limit: Duration,
    ) -> Result<FinishedCell, GuestFault> {
        let closing = self.closing.notified();
        let run = async {
            let Some(mut turn) = self.turn(limit).await? else { return Ok(never_begun()) };
            turn.run(agent, self, cell, limit).await
        };
        tokio::select! {
            biased;
            () = closing => Err(gone()),
            ran = run => ran,
        }
    }

    /// Waits for this cell's turn. `None` if the time limit passed first.
    async fn turn(&self, limit: Duration) -> Result<Option<CellTurn<'_>>, GuestFault> {
        if self.waiting.get() >= limits::CELLS_WAITING_MAX {
            let text = format!(
                "{} cells are already waiting in this session; wait until one has run",
                limits::CELLS_WAITING_MAX
            );
            return Err(GuestFault::new(ErrorKind::Full, text));
        }
        let _waiting = WaitingCell::new(&self.waiting);
        match timeout(limit, self.state.lock()).await {
            Ok(_) if self.closed.get() => Err(gone()),
            Ok(state) => Ok(Some(CellTurn { state })),
            Err(_) => Ok(None),
        }
    }
}

/// Makes the fault for a session that does not exist or was closed.
pub(super) fn gone() -> GuestFault {
    GuestFault::new(ErrorKind::Missing, "session not found")
}

fn never_begun() -> FinishedCell {
    let how = CodeRan {
        end: CodeEnd::NeverBegun,
        exit: 1,
        duration_ms: 0,
        anew: false,
        lost: false,
        stdout_cut: false,
        stderr_cut: false,
    };
    FinishedCell { how, stdout: Vec::new(), stderr: Vec::new(), body: Bytes::new() }
}

/// Counts a cell that waits for its turn.
struct WaitingCell<'a>(&'a Cell<usize>);

impl<'a> WaitingCell<'a> {
    fn new(count: &'a Cell<usize>) -> Self {
        count.set(count.get() + 1);
        Self(count)
    }
}

impl Drop for WaitingCell<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// Exclusive use of the kernel.
struct CellTurn<'a> {
    state: MutexGuard<'a, KernelState>,
}

impl Drop for CellTurn<'_> {
    fn drop(&mut self) {
        if let KernelState { kernel: Some(kernel), unfinished: true, .. } = &*self.state {
            kernel.interrupt();
        }
    }
}

impl CellTurn<'_> {
    async fn run(
        &mut self,
        agent: &Rc<Agent>,
        session: &KernelSession,
        cell: &Asked<'_>,
        limit: Duration,
    ) -> Result<FinishedCell, GuestFault> {
        self.settle(agent).await;
        let mut kernel = match self.state.kernel.take() {
            Some(kernel) => kernel,
            None => Kernel::open(agent, session.language).await?,
        };
        let anew = std::mem::take(&mut self.state.lost);
        session.cells.set(session.cells.get() + 1);
        self.state.number += 1;
        let (number, began) = (self.state.number, Instant::now());
        kernel.begin(number, cell);
        self.state.unfinished = true;
        let kernel = self.state.kernel.insert(kernel);
        let outcome = kernel.finish(number, began + limit).await;
        self.state.unfinished = false;
        Ok(self.conclude(agent, outcome, anew, began.elapsed()))
    }

    /// Prepares the kernel for the next cell: ends an abandoned cell, and removes a kernel that has
    /// exited.
    async fn settle(&mut self, agent: &Agent) {
        let KernelState { kernel: Some(kernel), unfinished, number, lost } = &mut *self.state else { return };
        let survived = match (kernel.has_ended(), *unfinished) {
            (true, _) => false,
            (false, false) => true,
            (false, true) => {
                // It was interrupted when it was abandoned, and gets the usual grace period.
                let outcome = kernel.finish(*number, Instant::now()).await;
                kernel.take_output(agent);
                matches!(outcome, CellOutcome::Answered { .. } | CellOutcome::Interrupted)
            }
        };
        *unfinished = false;
        if !survived {
            *lost = true;
            self.state.kernel = None;
        }
    }

    fn conclude(&mut self, agent: &Agent, outcome: CellOutcome, anew: bool, took: Duration) -> FinishedCell {
        let output = self.state.kernel.as_ref().map(|kernel| kernel.take_output(agent));
        let (CapturedOutput { bytes: stdout, cut: stdout_cut }, CapturedOutput { bytes: stderr, cut: stderr_cut }) =
            output.unwrap_or_default();
        let (end, exit, lost, body) = match outcome {
            CellOutcome::Answered { exit, body } => (CodeEnd::Answered, exit, false, body),
            CellOutcome::Interrupted => (CodeEnd::Late, 1, false, Bytes::new()),
            CellOutcome::Killed => (CodeEnd::Late, 128 + libc::SIGKILL, true, Bytes::new()),
            CellOutcome::Ended { code } => (CodeEnd::KernelEnded, code, true, Bytes::new()),
        };
        if lost {
            self.state.lost = true;
            self.state.kernel = None;
        }
        let duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let how = CodeRan { end, exit, duration_ms, anew, lost, stdout_cut, stderr_cut };
        FinishedCell { how, stdout, stderr, body }
    }
}
