//! What runs without being asked: comparing intent with reality, and listening to the host.

mod compare;
mod listen;

pub use compare::{compare, failures};
pub use listen::listen;
