//! The agent inside the guest: first process of the machine, and the far end of the host's link.
//! One thread serves all connections and shares state by `Rc`. `boot` prepares the machine,
//! `session` speaks the protocol, and each request is a future on one channel that ends with one
//! frame. Every first step is slow in a restored guest, so code paths are kept short.

mod agent;
pub mod boot;
mod code;
mod descriptor;
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

pub use agent::Agent;
pub use rebirth::{MachineSystem, RecordingSystem, System};
pub use session::serve;
