//! The in-guest agent: first process of the machine, and the far end of the host's link.
//!
//! One thread does everything, so state is shared by `Rc` and nothing is locked. `boot` makes a
//! bare kernel usable, `session` speaks the protocol, and each ability (`exec`, `processes`,
//! `code`, `files`, `volumes`, `ports`, `figures`, `rebirth`) is a future that runs on one channel
//! and ends with one frame. A restored guest meets every line of this cold: short paths matter more
//! here than clever ones.

mod agent;
pub mod boot;
mod code;
mod exec;
mod figures;
mod files;
#[doc(hidden)]
pub mod fuzzing;
pub mod limits;
mod ports;
mod processes;
mod rebirth;
mod session;
mod volumes;
mod watched;

pub use agent::Agent;
pub use rebirth::{Bystander, Machine, System};
pub use session::serve;
