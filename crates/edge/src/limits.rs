//! What the edge allows. The reference page is docs/limits.md.

use std::time::Duration;

/// Output of one command kept for a whole answer, for each of its two streams. The rest is dropped and marked.
pub const OUTPUT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Output kept for whole answers of all commands together.
pub const COLLECTED_BYTES_MAX: usize = 512 * 1024 * 1024;
const _: () = assert!(COLLECTED_BYTES_MAX >= 2 * OUTPUT_BYTES_MAX, "one full answer must fit the budget");

/// Largest piece of standard input sent at once.
pub const STDIN_PIECE_BYTES: usize = 64 * 1024;

/// A quiet stream says that it is alive this often.
pub const KEEPALIVE: Duration = Duration::from_secs(15);
/// How long past a command's limit the host may take to say so.
pub const TIMEOUT_GRACE: Duration = Duration::from_secs(10);

/// Largest file that can be written.
pub const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;
/// Longest silence of a client that is sending a file.
pub const UPLOAD_SILENCE_MAX: Duration = Duration::from_secs(60);

/// Longest head of a request to a port in a guest, and of its answer.
pub const PORT_HEAD_BYTES_MAX: usize = 64 * 1024;
/// Longest silence in both directions of a connection to a port. It keeps the sandbox awake, so it must not last for ever.
pub const PORT_SILENCE_MAX: Duration = Duration::from_secs(15 * 60);

/// Connections served at once; more wait in the listen queue.
pub const CONNECTIONS_MAX: usize = 4096;
/// How long a request's head may take, and how long an unused connection stays.
pub const HEAD_ARRIVAL_MAX: Duration = Duration::from_secs(75);
/// How long requests under way may take to end at shutdown.
pub const DRAIN_MAX: Duration = Duration::from_secs(5);
