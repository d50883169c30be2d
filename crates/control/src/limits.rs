//! What control allows. The reference page is docs/limits.md.

use std::time::Duration;

/// Sandboxes of one workspace at the same time.
pub const SANDBOXES_PER_WORKSPACE_MAX: u64 = 1000;

/// How long a create may take. Published clients give up after 30 s without learning the id.
pub const CREATE_MAX: Duration = Duration::from_secs(25);
const _: () = assert!(CREATE_MAX.as_secs() < 30, "a create must end before its client gives up");

/// How long a repeated DELETE of the same id still succeeds.
pub const DELETED_REMEMBERED: Duration = Duration::from_secs(600);

/// Credentials remembered between requests, and for how long.
pub const KEY_CACHE_ENTRIES_MAX: usize = 4096;
pub const KEY_CACHE_MAX_AGE: Duration = Duration::from_secs(30);

/// How long a part may take to say that it is well.
pub const HEALTH_MAX: Duration = Duration::from_secs(2);

/// Connections to the database.
pub const DATABASE_CONNECTIONS_MAX: u32 = 4;
/// How long a writer waits for another one.
pub const DATABASE_BUSY_MAX: Duration = Duration::from_secs(5);
