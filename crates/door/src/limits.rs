//! Limits of the door. The reference page is docs/limits.md.

use std::time::Duration;

/// Connections served at once; more wait in the listen queue.
pub const CONNECTIONS_MAX: usize = 4096;
/// Descriptors of the process for each connection. A connection uses up to two: its own and one to
/// a guest. So connections take at most half of them.
pub const DESCRIPTORS_PER_CONNECTION: u64 = 4;
/// One in this many connections is reserved for requests without a place: health checks, refusals.
pub const CONNECTIONS_PER_RESERVED: usize = 16;
/// How long a request's head may take, and how long an unused connection stays.
pub const HEAD_ARRIVAL_MAX: Duration = Duration::from_secs(75);
/// How long requests in progress may take to end at shutdown.
pub const DRAIN_MAX: Duration = Duration::from_secs(5);
