//! What runs without being asked: comparing intent with reality, finishing what was cut off, and listening to the host.

mod compare;
mod finish;
mod listen;
mod sample;
mod trail;

pub use compare::{catch_up, compare};
pub use finish::finish;
pub use listen::listen;
pub use sample::sample;
pub use trail::{prune, write_trail};
