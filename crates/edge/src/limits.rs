//! What the edge allows. The reference page is docs/limits.md.

use std::time::Duration;

use pandastack_door::limits::DRAIN_MAX;

/// Output of one command kept for a whole answer, for each of its two streams. The rest is dropped
/// and marked.
pub const OUTPUT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Output kept for whole answers of all commands together.
pub const COLLECTED_BYTES_MAX: usize = 512 * 1024 * 1024;
const _: () = assert!(COLLECTED_BYTES_MAX >= 2 * OUTPUT_BYTES_MAX, "one full answer must fit the budget");

/// Largest piece of standard input sent at once.
pub const STDIN_PIECE_BYTES: usize = 64 * 1024;

/// A quiet stream says that it is alive this often.
pub const KEEPALIVE: Duration = Duration::from_secs(15);
const _: () = assert!(KEEPALIVE.as_secs() <= 15, "published clients give up after 30 s without a byte");
/// How long past a command's limit the host may take to say so.
pub const TIMEOUT_GRACE: Duration = Duration::from_secs(10);

/// Consoles followed at once; more are refused.
pub const FOLLOWERS_MAX: usize = 1024;
/// How much of a console a follower sees of what was there before, unless it says.
pub const LOG_BACK_BYTES: usize = 4 * 1024;

/// Sockets open at once; more are refused.
pub const SOCKETS_MAX: usize = 1024;
/// Largest message from a client on a socket. A command that is longer goes into a file.
pub const SOCKET_MESSAGE_BYTES_MAX: usize = 1024 * 1024;
/// What is read from a socket at once; each open one has a buffer of this size.
pub const SOCKET_READ_BYTES: usize = 16 * 1024;
/// Commands in flight on one socket.
pub const SOCKET_COMMANDS_MAX: usize = 64;
/// Messages that wait to be written to one socket. While it is full, nothing is taken from its
/// commands.
pub const SOCKET_QUEUE: usize = 8;
/// Largest piece of output in one message, so that commands take turns.
pub const SOCKET_PIECE_BYTES: usize = 32 * 1024;
/// Pieces of input that wait for one command.
pub const SOCKET_STDIN_QUEUE: usize = 4;
/// How long a full queue of input may hold up the other commands of its socket; then its own is
/// ended.
pub const SOCKET_STDIN_STALL_MAX: Duration = Duration::from_secs(5);
/// A socket is pinged this often.
pub const SOCKET_PING: Duration = Duration::from_secs(20);
/// How long a socket's last messages may take to leave, and its client to say goodbye.
pub const SOCKET_CLOSE_GRACE: Duration = Duration::from_secs(3);
const _: () = assert!(SOCKET_PIECE_BYTES < SOCKET_MESSAGE_BYTES_MAX, "what we send a client of ours may send back");
/// Size of a terminal whose client names none.
pub const TERMINAL_ROWS: u16 = 24;
pub const TERMINAL_COLS: u16 = 80;

/// Output of one cell that is kept, for each of its two streams, and what else it may say. The
/// guest keeps to the same.
pub const CELL_OUTPUT_BYTES_MAX: usize = 1024 * 1024;
pub const CELL_BODY_BYTES_MAX: usize = 16 * 1024 * 1024;
const _: () = assert!(COLLECTED_BYTES_MAX >= CELL_BODY_BYTES_MAX + 2 * CELL_OUTPUT_BYTES_MAX, "one full cell fits");

/// Messages in one batch to the tools of a sandbox.
pub const MCP_BATCH_MAX: usize = 16;
/// What a tool answers at most: text of one part, a file, entries of a directory, all images of a
/// cell as base64.
pub const MCP_TEXT_BYTES_MAX: usize = 256 * 1024;
pub const MCP_FILE_BYTES_MAX: usize = 1024 * 1024;
pub const MCP_ENTRIES_MAX: usize = 2000;
pub const MCP_IMAGE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Time limit of a tool if nothing is said.
pub const MCP_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

/// Largest file that can be written.
pub const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;
/// Entries of one recursive listing.
pub const TREE_ENTRIES_MAX: u32 = 20_000;
/// Output of a process that one answer may hold; a guest keeps less.
pub const PROCESS_OUTPUT_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Longest silence of a client that is sending a file, and the longest time for all of it: a byte
/// now and then must not hold a guest's channel for ever.
pub const UPLOAD_SILENCE_MAX: Duration = Duration::from_secs(60);
pub const UPLOAD_MAX: Duration = Duration::from_secs(6 * 3600);

/// Longest head of a request to a port in a guest, and of its answer.
pub const PORT_HEAD_BYTES_MAX: usize = 64 * 1024;
/// Longest silence in both directions of a connection to a port. It keeps the sandbox awake, so it
/// must not last for ever.
pub const PORT_SILENCE_MAX: Duration = Duration::from_secs(15 * 60);
/// Longest token that is put into a cookie: browsers keep cookies of at most 4096 bytes. A longer
/// one stays in the address.
pub const LINK_COOKIE_BYTES_MAX: usize = 3900;
/// Cookies of links in one request that are looked at.
pub const LINK_COOKIES_MAX: usize = 8;

const _: () = assert!(SOCKET_CLOSE_GRACE.as_secs() < DRAIN_MAX.as_secs(), "sockets say goodbye before they are cut");
