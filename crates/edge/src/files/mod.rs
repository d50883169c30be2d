//! Files in a guest. Bodies pass through in pieces; paths are checked here, names of entries are
//! checked again.

mod archive;
mod change;
mod look;
mod read;
mod watch;
mod write;

pub use archive::{pack, unpack};
use axum::http::Uri;
pub use change::{chmod, mkdir, move_path};
pub use look::{list, stat};
use pandastack_model::Fault;
use pandastack_wire_public::{checked_path, http::query_value};
pub use read::read;
pub use watch::watch;
pub use write::{Broken, delete, upload, write};

/// Gives the path that a request names.
fn path(uri: &Uri) -> Result<String, Fault> {
    checked_path(query_value(uri, "path"))
}
