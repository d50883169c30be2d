//! A terminal that does not show what is typed, for passwords. It is always restored.

use std::io::{self, IsTerminal};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

/// A terminal without echo. Dropping this restores the terminal, also after a panic.
pub struct HiddenInput {
    before: Option<Termios>,
}

impl HiddenInput {
    /// Hides what is typed, if standard input is a terminal. The end of the line is shown.
    pub fn enter() -> io::Result<Self> {
        if !io::stdin().is_terminal() {
            return Ok(Self { before: None });
        }
        let before = tcgetattr(io::stdin())?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        hidden.local_modes.insert(LocalModes::ECHONL | LocalModes::ICANON);
        tcsetattr(io::stdin(), OptionalActions::Now, &hidden)?;
        Ok(Self { before: Some(before) })
    }
}

impl Drop for HiddenInput {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // If the terminal is gone, nothing needs to be restored.
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
    }
}
