//! Counts the bytes that one connection's peer holds in our memory: waiting input and running
//! requests. A window limits each channel; this limits all of them together.

use std::{cell::Cell, rc::Rc};

use pandastack_wire_guest::ErrorKind;

use super::fault::GuestFault;
use crate::limits::HELD_BYTES_MAX;

/// The count of one connection, shared by its channels.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeldBytes(Rc<Cell<usize>>);

impl HeldBytes {
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.0.get().saturating_add(bytes) <= HELD_BYTES_MAX
    }

    pub(crate) fn add(&self, bytes: usize) {
        self.0.set(self.0.get().saturating_add(bytes));
    }

    pub(crate) fn release(&self, bytes: usize) {
        self.0.set(self.0.get().saturating_sub(bytes));
    }

    /// Makes the fault for a channel that exceeds the limit.
    pub(crate) fn fault() -> GuestFault {
        let text = format!("more than {HELD_BYTES_MAX} bytes are waiting on this connection; send less at once");
        GuestFault::new(ErrorKind::Full, text)
    }

    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.0.get()
    }
}
