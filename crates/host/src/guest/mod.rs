//! The host's end of the link into a guest: one connection, many channels, credit instead of buffers.

mod activity;
mod channel;
mod code;
mod exec;
mod fault;
mod files;
mod limits;
mod ports;
mod session;
mod spare;
mod volumes;

pub use activity::Use;
pub use code::{close_code, code_sessions, open_code, run_cell};
pub use exec::exec;

pub use files::{delete_path, list_dir, read_file, stat, write_file};
pub use ports::{connect, listening};
pub use session::{LinkError, Session};
pub use spare::{Spare, SparePlace, take_up};
pub use volumes::{grow, mount};
