//! Background tasks: reconcile the rows with the host, finish interrupted operations, follow the
//! host's events, deliver events, take samples and write the audit trail.

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
