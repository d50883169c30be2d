//! Files in a guest. Bodies are streamed. Paths of requests and names from the guest are checked
//! here.

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
use pandastack_door::http::query_value;
use pandastack_model::Fault;
use pandastack_wire_public::checked_path;
pub use read::read;
pub use watch::watch;
pub use write::{UploadFault, delete, upload, write};

/// Returns the path that the request names.
fn path(uri: &Uri) -> Result<String, Fault> {
    checked_path(query_value(uri, "path"))
}
