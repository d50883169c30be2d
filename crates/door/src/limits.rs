//! Limits of the door. The reference page is docs/limits.md.

use std::time::Duration;

/// Connections served at once; more wait in the listen queue.
pub const CONNECTIONS_MAX: usize = 4096;
/// Descriptors of the process for each connection. A connection uses up to two: its own and one to
/// a guest. So connections take at most half of them.
pub const DESCRIPTORS_PER_CONNECTION: u64 = 4;
/// One in this many connections is reserved for requests without a place: health checks, refusals.
pub const CONNECTIONS_PER_RESERVED: usize = 16;
/// How long a connection may wait for a request. Longer than the pools of clients keep it: 90
/// seconds in reqwest and Go, five minutes in browsers.
pub const CONNECTION_UNUSED_MAX: Duration = Duration::from_secs(360);
/// How long a request's head may take after its first byte.
pub const HEAD_ARRIVAL_MAX: Duration = Duration::from_secs(75);
/// How long a TLS handshake may take.
pub const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// How long requests in progress may take to end at shutdown.
pub const DRAIN_MAX: Duration = Duration::from_secs(5);

/// Default request rate of one workspace: requests per second, and the burst. The operator can
/// change both.
pub const RATE_PER_SECOND: u32 = 25;
pub const RATE_BURST: u32 = 50;
/// Workspaces with a remembered rate.
pub const RATE_BUCKETS_MAX: usize = 4096;

/// Length of an idempotency key, and the largest response that is kept for one.
pub const ATTEMPT_KEY_BYTES_MAX: usize = 255;
pub const ATTEMPT_ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Longest path in an audit entry.
pub const AUDIT_PATH_BYTES_MAX: usize = 256;

/// Longest answer that is still sent whole after its key was revoked.
pub const WHOLE_ANSWER_BYTES_MAX: u64 = 16 * 1024;
