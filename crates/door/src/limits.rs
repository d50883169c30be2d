//! What the door allows. The reference page is docs/limits.md.

use std::time::Duration;

/// Connections served at once; more wait in the listen queue.
pub const CONNECTIONS_MAX: usize = 4096;
/// One connection for this many descriptors of the process. A connection needs two: its own, and
/// one to the guest that its request is for. So connections take at most half, and the rest is left
/// for machines, databases and DNS.
pub const DESCRIPTORS_PER_CONNECTION: u64 = 4;
/// One of this many connections is kept for what needs no place: health checks, and refusals.
pub const CONNECTIONS_PER_RESERVED: usize = 16;
/// How long a request's head may take, and how long an unused connection stays.
pub const HEAD_ARRIVAL_MAX: Duration = Duration::from_secs(75);
/// How long requests under way may take to end at shutdown.
pub const DRAIN_MAX: Duration = Duration::from_secs(5);
