//! Holds the decision about the sandboxes at the end of this process.

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

/// What happens to the sandboxes at shutdown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leave {
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
pub struct Closing(Arc<AtomicU8>);

impl Closing {
    /// Sets the decision. Call it before the scope is cancelled, or some drivers may miss it.
    pub fn decide(&self, leave: Leave) {
        self.0.store(leave as u8, Ordering::SeqCst);
    }

    /// Returns the decision.
    pub fn leave(&self) -> Leave {
        match self.0.load(Ordering::SeqCst) {
            1 => Leave::Sleep,
            2 => Leave::Running,
            _ => Leave::Remove,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_is_heard_by_all() {
        let closing = Closing::default();
        for leave in [Leave::Sleep, Leave::Running, Leave::Remove] {
            closing.clone().decide(leave);
            assert_eq!(closing.leave(), leave);
        }
    }
}
