//! WebSockets. `opening` upgrades or refuses a request, `line` is the open socket with its writer
//! task, `exec` runs many commands on one socket (`ids` is the table, `command` one command), and
//! `terminal` runs one program in a terminal. Memory per socket is a few messages: output that a
//! client does not read is not taken from the guest.

mod command;
mod command_table;
mod exec;
mod open_socket;
mod opening;
mod terminal;

pub use exec::exec;
pub use opening::OpenSockets;
pub use terminal::{pty, ssh};
