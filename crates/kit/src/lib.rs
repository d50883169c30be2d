//! Runtime kit: task scopes, undo lists for resources, clocks, random bytes, private files and
//! traces. It contains no product terms.

mod clock;
mod private_file;
mod random;
mod scope;
mod secret;
pub mod trace;
mod undo;

pub use clock::{Clock, SystemClock};
pub use private_file::replace_private;
pub use random::{random_bytes, random_hex};
pub use scope::{Scope, ScopeError};
pub use secret::Secret;
pub use undo::{Undo, outlived};
