//! What a kernel, and whatever it started, writes to one of its streams: read all the time, so that
//! nobody is stopped by it, and kept up to a limit until the next cell's end takes it.

use std::{
    cell::{Cell, RefCell},
    os::fd::AsFd,
    rc::Rc,
};

use pandastack_sys::process;
use pandastack_wire_guest::CODE_OUTPUT_BYTES_MAX;

use crate::{Agent, watched::Watched};

/// One stream.
pub(super) struct Capture {
    pipe: Watched,
    kept: RefCell<Vec<u8>>,
    cut: Cell<bool>,
}

/// What was written to it.
#[derive(Debug, Default)]
pub(super) struct Output {
    pub(super) bytes: Vec<u8>,
    /// There was more.
    pub(super) cut: bool,
}

impl Capture {
    pub(super) fn new(pipe: Watched) -> Rc<Self> {
        Rc::new(Self { pipe, kept: RefCell::default(), cut: Cell::new(false) })
    }

    /// Reads until nobody can write any more.
    pub(super) async fn listen(&self, agent: &Agent) {
        loop {
            let Ok(mut ready) = self.pipe.readable().await else { return };
            if let Ok(Ok(0) | Err(_)) = ready.try_io(|_| self.read(agent, usize::MAX)) {
                return;
            }
        }
    }

    /// Gives what was written before now.
    pub(super) fn take(&self, agent: &Agent) -> Output {
        // Counted once: who writes without end must not keep us here.
        let mut left = process::pending_bytes(self.pipe.get_ref().as_fd()).unwrap_or(0);
        while left > 0 {
            match self.read(agent, left) {
                Ok(count) if count > 0 => left -= count,
                _ => break,
            }
        }
        Output { bytes: self.kept.take(), cut: self.cut.take() }
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
