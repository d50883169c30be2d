//! The control plane through its real router, over a real socket and a real database; only the host is a stub.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod bodies;
mod lifecycle;
mod open;
mod refusals;
mod rig;
mod stub;
