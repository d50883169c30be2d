//! Holds the decision about the sandboxes at the end of this process.

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

/// What happens to the sandboxes at shutdown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShutdownMode {
    /// Every sandbox is removed.
    #[default]
    Remove,
    /// Every sandbox is put to sleep, and can be woken after the next start.
    Sleep,
    /// Machines keep running; the next start takes them over.
    Running,
}

/// The decision, made once when closing begins. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct ShutdownDecision(Arc<AtomicU8>);

impl ShutdownDecision {
    /// Sets the decision. Call it before the scope is cancelled, or some drivers may miss it.
    pub fn decide(&self, leave: ShutdownMode) {
        self.0.store(leave as u8, Ordering::SeqCst);
    }

    /// Returns the decision.
    pub fn leave(&self) -> ShutdownMode {
        match self.0.load(Ordering::SeqCst) {
            1 => ShutdownMode::Sleep,
            2 => ShutdownMode::Running,
            _ => ShutdownMode::Remove,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_is_heard_by_all() {
        let closing = ShutdownDecision::default();
        for leave in [ShutdownMode::Sleep, ShutdownMode::Running, ShutdownMode::Remove] {
            closing.clone().decide(leave);
            assert_eq!(closing.leave(), leave);
        }
    }
}
