//! One file per verb. A verb reads a view, plans, commits, and asks the host.

mod authenticate;
mod bootstrap;
mod create;
mod delete;
mod reach;

pub use authenticate::KeyCache;
pub use bootstrap::{BootstrapError, BootstrapKey};
pub(crate) use create::{observed, size};
