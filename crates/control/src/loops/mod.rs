//! Background tasks: reconcile the rows with the host, finish interrupted operations, follow the
//! host's events, deliver events, take samples and write the audit trail.

mod access;
mod compare;
mod deliver;
mod finish;
mod lease;
mod listen;
mod metering;
mod sample;
mod trail;

pub use access::{follow_revocations, prune_access};
pub use compare::{catch_up, compare};
pub use deliver::deliver;
pub use finish::finish;
pub use lease::hold_host;
pub use listen::listen;
pub use metering::meter;
pub use sample::sample;
pub use trail::{UnwrittenEntry, prune, write_trail};
