//! These types over HTTP: what both doors do with every request, written once. Knows no sandbox and no tenant.

mod base;
mod body;
mod credential;
mod frame;
mod path;
mod refused;

pub use base::{forwarded_proto, public_base};
pub use body::{json_body, optional_json_body, query_flag, query_value};
pub use credential::{bearer, socket_protocol};
pub use frame::{RequestId, bare_frame, frame, no_method, no_route, pass, preflight};
pub use path::SandboxPath;
pub use refused::{Answer, Refused, log_fault};
