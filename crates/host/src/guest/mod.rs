//! The host's end of the link to a guest: one connection, many channels, and credit instead of
//! large buffers.

mod activity;
mod channel;
mod code;
mod exec;
mod fault;
mod files;
mod inbox;
mod limits;
mod ports;
mod processes;
mod session;
mod spare;
mod trees;
mod volumes;

pub use activity::UseGuard;
pub use code::{close_code, code_sessions, keep_warm, open_code, rehearse_code, run_cell};
pub use exec::exec;

pub use files::{delete_path, list_dir, read_file, stat, write_file};
pub use ports::{connect, listening};
pub use session::{GuestSession, LinkError};
pub use spare::{SpareConnection, SpareHolder, take_up};
pub use volumes::{grow, mount};

pub mod process {
    //! Processes that outlive their requests.
    pub use super::processes::{attach, describe, feed, forget, list, signal, spawn};
}

pub mod tree {
    //! Whole folders.
    pub use super::trees::{chmod, make_dir, move_path, read_tree, walk, watch, write_tree};
}
