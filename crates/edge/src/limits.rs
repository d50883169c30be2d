//! Limits of the edge. The reference page is docs/limits.md.

use std::time::Duration;

use pandastack_door::limits::DRAIN_MAX;

/// Output that a whole answer keeps of each of a command's two streams. The rest is dropped, and
/// the answer says so.
pub const OUTPUT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Output that whole answers of all commands keep together.
pub const COLLECTED_BYTES_MAX: usize = 512 * 1024 * 1024;
const _: () = assert!(COLLECTED_BYTES_MAX >= 2 * OUTPUT_BYTES_MAX, "one full answer must fit the budget");

/// Largest piece of standard input sent at once.
pub const STDIN_PIECE_BYTES: usize = 64 * 1024;

/// Interval of keepalives on a silent stream.
pub const KEEPALIVE: Duration = Duration::from_secs(15);
const _: () = assert!(KEEPALIVE.as_secs() <= 15, "published clients give up after 30 s without a byte");
/// How long after a command's timeout the host may take to report it.
pub const TIMEOUT_GRACE: Duration = Duration::from_secs(10);

/// Consoles that may be followed at the same time; more are refused.
pub const FOLLOWERS_MAX: usize = 1024;
/// Bytes of earlier console output that a follower gets by default.
pub const LOG_BACK_BYTES: usize = 4 * 1024;

/// Sockets that may be open at the same time; more are refused.
pub const SOCKETS_MAX: usize = 1024;
/// Largest message from a client on a socket. A longer command must be written to a file.
pub const SOCKET_MESSAGE_BYTES_MAX: usize = 1024 * 1024;
/// Read buffer of each open socket.
pub const SOCKET_READ_BYTES: usize = 16 * 1024;
/// Commands in flight on one socket.
pub const SOCKET_COMMANDS_MAX: usize = 64;
/// Length of a socket's write queue. While it is full, no output is taken from the socket's
/// commands.
pub const SOCKET_QUEUE: usize = 8;
/// Largest piece of output in one message, so that commands take turns.
pub const SOCKET_PIECE_BYTES: usize = 32 * 1024;
/// Length of the input queue of one command.
pub const SOCKET_STDIN_QUEUE: usize = 4;
/// How long a full input queue may block the other commands of its socket. After that its command
/// is ended.
pub const SOCKET_STDIN_STALL_MAX: Duration = Duration::from_secs(5);
/// Interval of pings on a socket.
pub const SOCKET_PING: Duration = Duration::from_secs(20);
/// How long the last messages of a socket and the client's close frame may take.
pub const SOCKET_CLOSE_GRACE: Duration = Duration::from_secs(3);
const _: () = assert!(SOCKET_PIECE_BYTES < SOCKET_MESSAGE_BYTES_MAX, "what we send a client of ours may send back");
/// Terminal size if the client gives none.
pub const TERMINAL_ROWS: u16 = 24;
pub const TERMINAL_COLS: u16 = 80;

/// Output that is kept of each of a cell's two streams, and the limit of the cell's results. The
/// guest has the same limits.
pub const CELL_OUTPUT_BYTES_MAX: usize = 1024 * 1024;
pub const CELL_BODY_BYTES_MAX: usize = 16 * 1024 * 1024;
const _: () = assert!(COLLECTED_BYTES_MAX >= CELL_BODY_BYTES_MAX + 2 * CELL_OUTPUT_BYTES_MAX, "one full cell fits");

/// Messages in one MCP batch.
pub const MCP_BATCH_MAX: usize = 16;
/// Limits of a tool's answer: one text part, a file, directory entries, and all images of a cell
/// in base64.
pub const MCP_TEXT_BYTES_MAX: usize = 256 * 1024;
pub const MCP_FILE_BYTES_MAX: usize = 1024 * 1024;
pub const MCP_ENTRIES_MAX: usize = 2000;
pub const MCP_IMAGE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Default time limit of a tool.
pub const MCP_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

/// Largest file that can be written.
pub const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;
/// Entries of one recursive listing.
pub const TREE_ENTRIES_MAX: u32 = 20_000;
/// Comparisons of two sandboxes at the same time; workspaces share them, and more are refused.
pub const DIFFS_AT_ONCE: usize = 4;
/// A comparison that takes longer is given up.
pub const DIFF_TIME_MAX: Duration = Duration::from_secs(120);
/// Limits of one comparison: folders of the roots, entries that are listed in each guest, memory of
/// both listings, levels of folders, differing files in the answer, processes of each guest, and
/// process ids that are looked at.
pub const DIFF_FOLDERS_MAX: usize = 64;
pub const DIFF_ENTRIES_MAX: usize = 50_000;
pub const DIFF_BYTES_MAX: usize = 32 * 1024 * 1024;
pub const DIFF_DEPTH_MAX: u32 = 24;
pub const DIFF_FILES_MAX: usize = 2000;
pub const DIFF_PROCESSES_MAX: usize = 256;
pub const DIFF_PIDS_MAX: usize = 4096;
/// Files whose contents are compared because they look the same, and their largest size.
pub const DIFF_CONTENTS_MAX: usize = 64;
pub const DIFF_CONTENT_BYTES_MAX: u64 = 64 * 1024;
/// Files of a guest that a comparison reads at the same time.
pub const DIFF_READS_AT_ONCE: usize = 8;
/// Characters of a process's command line.
pub const DIFF_COMMAND_CHARS_MAX: usize = 200;
/// Output of a process in one answer. A guest keeps less than this.
pub const PROCESS_OUTPUT_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Longest pause and longest total time of an upload. A client that sends slowly must not hold a
/// guest's channel forever.
pub const UPLOAD_SILENCE_MAX: Duration = Duration::from_secs(60);
pub const UPLOAD_MAX: Duration = Duration::from_secs(6 * 3600);

/// Longest request head and longest response head on a connection to a port in a guest.
pub const PORT_HEAD_BYTES_MAX: usize = 64 * 1024;
/// Longest silence in both directions of a connection to a port. The connection keeps the sandbox
/// awake, so it must not stay open forever.
pub const PORT_SILENCE_MAX: Duration = Duration::from_secs(15 * 60);
/// Longest token that is put into a cookie, because browsers limit a cookie to 4096 bytes. A longer
/// token stays in the URL.
pub const LINK_COOKIE_BYTES_MAX: usize = 3900;
/// Link cookies of one request that are checked.
pub const LINK_COOKIES_MAX: usize = 8;

/// Calls of one database's HTTP broker in progress: with the right token, and health checks. The
/// rest is refused.
pub const BROKER_CALLS_MAX: u64 = 32;
pub const BROKER_HEALTH_CALLS_MAX: u64 = 16;
/// Wrong tokens of one database that are looked up: at once after a quiet time, and in a second.
pub const BROKER_WRONG_TOKENS_AT_ONCE: u32 = 50;
pub const BROKER_WRONG_TOKENS_PER_SECOND: u32 = 5;
/// Databases whose tokens are counted. The one with the oldest call gives way.
pub const BROKER_DATABASES_MAX: usize = 4096;

const _: () = assert!(SOCKET_CLOSE_GRACE.as_secs() < DRAIN_MAX.as_secs(), "sockets say goodbye before they are cut");
