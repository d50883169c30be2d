//! Limits of the archive. The reference page is docs/limits.md.

use std::time::Duration;

/// Largest file of the write-ahead log that is taken.
pub const WAL_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// How long receiving one file of the write-ahead log may take.
pub const WAL_RECEIVE_MAX: Duration = Duration::from_secs(5 * 60);
/// Largest history of a timeline that is taken.
pub const HISTORY_BYTES_MAX: u64 = 64 * 1024;
/// Most lines in the history of a timeline.
pub const HISTORY_LINES_MAX: usize = 1000;
/// Most histories of timelines in one archive.
pub const HISTORIES_MAX: usize = 1000;
/// Largest base backup, and how much it may hold when unpacked.
pub const BASE_BYTES_MAX: u64 = 64 * 1024 * 1024 * 1024;
pub const BASE_UNPACKED_BYTES_MAX: u64 = 1024 * 1024 * 1024 * 1024;
/// Most files in a base backup, and the largest list of them.
pub const BASE_FILES_MAX: usize = 500_000;
pub const MANIFEST_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Base backups that are received at once for all databases (one for each), and how long one takes.
pub const BASES_AT_ONCE_MAX: usize = 8;
pub const BASE_RECEIVE_MAX: Duration = Duration::from_secs(6 * 3600);
/// What stays free on the disk of the spool while a base backup is received.
pub const BASE_FREE_BYTES_MIN: u64 = 1024 * 1024 * 1024;
/// Bytes of the write-ahead log that wait on this server's disk, unless the settings say otherwise.
pub const SPOOL_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;
/// Bytes of the write-ahead log of one database that wait, with what is being received.
pub const SPOOL_BYTES_PER_DATABASE_MAX: u64 = 1024 * 1024 * 1024;
/// Connections of one machine, and the size of a request's head.
pub const CONNECTIONS_PER_DATABASE_MAX: usize = 8;
pub const HEAD_BYTES_MAX: usize = 16 * 1024;
pub const HEADERS_MAX: usize = 32;
/// How long a connection may be without any byte, in a request or between two.
pub const CONNECTION_IDLE_MAX: Duration = Duration::from_secs(60);
/// Slowest reader of an answer; the time that a connection may be idle is added.
pub const ANSWER_BYTES_PER_SECOND_MIN: u64 = 64 * 1024;
/// How long the directory may take to say who calls.
pub const DIRECTORY_MAX: Duration = Duration::from_secs(10);
/// Databases whose log is uploaded at once. Each holds a part of a file in memory.
pub const UPLOADS_AT_ONCE_MAX: usize = 2;
/// How often the spool is swept, and the waiting time after a failed upload: doubled each time.
pub const SWEEP: Duration = Duration::from_secs(10);
pub const RETRY_MIN: Duration = Duration::from_secs(1);
pub const RETRY_MAX: Duration = Duration::from_secs(60);
/// How long one request to the store may take: a small object, a list, a part of a base backup.
pub const STORE_REQUEST_MAX: Duration = Duration::from_secs(60);
pub const STORE_LIST_MAX: Duration = Duration::from_secs(180);
/// Size of one part of an upload, which is in memory. The store takes at most 10,000 parts, of
/// 5 MiB or more.
pub const PART_BYTES: usize = 8 * 1024 * 1024;
/// How long the caller of a removal waits for it. It goes on in the background.
pub const REMOVAL_WAIT_MAX: Duration = Duration::from_secs(2);
/// Files of one archive that wait for the store, those in the store, and base backups. A million
/// segments are 15 TiB of log.
pub const WAITING_FILES_MAX: usize = 2000;
pub const STORED_FILES_MAX: usize = 1_000_000;
pub const BASES_MAX: usize = 1000;
/// The log of a large archive is looked through for gaps this often, others at each change.
pub const GAP_LOOK: Duration = Duration::from_secs(30);
pub const GAP_LOOK_FILES: usize = 2000;
/// How often a base backup is tried to be stored before it is refused.
pub const BASE_TRIES: u32 = 4;
/// Age of the oldest file in the spool from which the archive is behind.
pub const BEHIND_AFTER: Duration = Duration::from_secs(60);
/// Failed uploads in a row from which the archive is failing.
pub const FAILURES_MAX: u32 = 3;
/// Changes of health that a slow listener may have before it misses some.
pub const HEALTH_CHANGES_KEPT: usize = 256;

const _: () = assert!(PART_BYTES as u64 * 10_000 >= BASE_BYTES_MAX, "the largest backup must fit its parts");
const _: () = assert!(SPOOL_BYTES_MAX > SPOOL_BYTES_PER_DATABASE_MAX, "one database must not fill the spool");
const _: () = assert!(SPOOL_BYTES_PER_DATABASE_MAX > WAL_BYTES_MAX, "one file must fit a database's share");
