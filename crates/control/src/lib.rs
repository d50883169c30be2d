//! The control plane: who may do what, and which sandboxes are wanted. Owns intent, in its database; asks a host for the
//! rest. Never in the path of a sandbox's bytes.

mod app;
mod build;
mod control;
mod door;
mod events;
pub mod limits;
mod loops;
mod plan;
mod store;

pub use app::{BootstrapError, BootstrapKey};
pub use control::{Control, OpenError};
