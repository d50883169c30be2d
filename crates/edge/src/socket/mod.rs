//! Sockets: one connection that carries frames both ways for as long as its client likes.
//!
//! `opening` turns a request into a socket or refuses it as any other request is refused; `line` is
//! the open socket, with a task that writes; `exec` runs many commands on one (`ids` knows which,
//! `command` is one of them), `terminal` runs one program in a terminal. Nothing here holds more
//! than a few messages: what a client does not read is not taken from the guest.

mod command;
mod exec;
mod ids;
mod line;
mod opening;
mod terminal;

pub use exec::exec;
pub use opening::Sockets;
pub use terminal::{pty, ssh};
