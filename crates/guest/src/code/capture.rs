//! Output of a kernel and its child processes on one stream. It is read all the time, so that no
//! writer blocks, and kept up to a limit until the end of the next cell takes it.

use std::{
    cell::{Cell, RefCell},
    os::fd::AsFd,
    rc::Rc,
};

use pandastack_sys::process;
use pandastack_wire_guest::CODE_OUTPUT_BYTES_MAX;

use crate::{Agent, descriptor::AsyncDescriptor};

/// One output stream.
pub(super) struct OutputCapture {
    pipe: AsyncDescriptor,
    kept: RefCell<Vec<u8>>,
    cut: Cell<bool>,
}

/// Output taken from a stream.
#[derive(Debug, Default)]
pub(super) struct CapturedOutput {
    pub(super) bytes: Vec<u8>,
    /// Whether more was written than kept.
    pub(super) cut: bool,
}

impl OutputCapture {
    pub(super) fn new(pipe: AsyncDescriptor) -> Rc<Self> {
        Rc::new(Self { pipe, kept: RefCell::default(), cut: Cell::new(false) })
    }

    /// Reads until every writer has closed the pipe.
    pub(super) async fn listen(&self, agent: &Agent) {
        loop {
            let Ok(mut ready) = self.pipe.readable().await else { return };
            if let Ok(Ok(0) | Err(_)) = ready.try_io(|_| self.read(agent, usize::MAX)) {
                return;
            }
        }
    }

    /// Takes the output written before this call.
    pub(super) fn take(&self, agent: &Agent) -> CapturedOutput {
        // Counted once, so that an endless writer cannot keep this loop running.
        let mut left = process::pending_bytes(self.pipe.get_ref().as_fd()).unwrap_or(0);
        while left > 0 {
            match self.read(agent, left) {
                Ok(count) if count > 0 => left -= count,
                _ => break,
            }
        }
        CapturedOutput { bytes: self.kept.take(), cut: self.cut.take() }
    }

    fn read(&self, agent: &Agent, limit: usize) -> std::io::Result<usize> {
        let mut scratch = agent.scratch();
        let limit = limit.min(scratch.len());
        let count = nix::unistd::read(self.pipe.get_ref(), &mut scratch[..limit])?;
        let mut kept = self.kept.borrow_mut();
        let room = (CODE_OUTPUT_BYTES_MAX - kept.len()).min(count);
        kept.extend_from_slice(&scratch[..room]);
        if room < count {
            self.cut.set(true);
        }
        Ok(count)
    }
}
