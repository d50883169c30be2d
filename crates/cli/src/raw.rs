//! Raw mode of our own terminal: keys are passed on unchanged. It is always restored.

use std::io::{self, IsTerminal};

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};

/// A terminal in raw mode. Dropping this restores the terminal, also after a panic.
pub struct RawTerminal {
    before: Option<Termios>,
}

impl RawTerminal {
    /// Enters raw mode, if standard input is a terminal.
    pub fn enter() -> io::Result<Self> {
        if !io::stdin().is_terminal() {
            return Ok(Self { before: None });
        }
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        Ok(Self { before: Some(before) })
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // If the terminal is gone, nothing needs to be restored.
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
    }
}
