//! Background tasks: reconcile the rows with the host, finish interrupted operations, follow the
//! host's events, deliver events, take samples and write the audit trail.

mod access;
mod compare;
mod deliver;
mod finish;
mod lease;
mod listen;
mod metering;
mod orphans;
mod sample;
mod servers;
mod trail;

pub use access::{follow_revocations, prune_access};
pub use compare::{catch_up, compare};
pub use deliver::deliver;
pub use finish::{finish, take_back};
pub use lease::hold_host;
pub use listen::listen;
pub use metering::meter;
pub use orphans::look_after_orphans;
pub use sample::sample;
pub use servers::{EndedServers, finish_for_ended, hold_server};
pub use trail::{UnwrittenEntry, prune, write_trail};
