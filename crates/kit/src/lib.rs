//! Runtime kit: scopes for tasks, undo lists for resources, clocks, random bytes. Knows no domain word.

mod clock;
mod random;
mod scope;
mod secret;
mod undo;

pub use clock::{Clock, SystemClock};
pub use random::{random_bytes, random_hex};
pub use scope::{Scope, ScopeError};
pub use secret::Secret;
pub use undo::Undo;
