//! Our own terminal, set so that keys go through as they are, and set back whatever happens.

use std::io::{self, IsTerminal};

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};

/// A terminal in raw mode. Dropped, also by a panic, the terminal is as it was.
pub struct Raw {
    before: Option<Termios>,
}

impl Raw {
    /// Sets the terminal that standard input is; nothing is done if it is none.
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

impl Drop for Raw {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // A terminal that is gone needs nothing.
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
    }
}
