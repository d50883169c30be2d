//! What runs without being asked: comparing intent with reality, finishing what was cut off,
//! listening to the host, and delivering events.

mod compare;
mod deliver;
mod finish;
mod listen;
mod sample;
mod trail;

pub use compare::{catch_up, compare};
pub use deliver::deliver;
pub use finish::finish;
pub use listen::listen;
pub use sample::sample;
pub use trail::{prune, write_trail};
