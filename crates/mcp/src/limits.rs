//! Limits of the MCP server. The reference page is docs/limits.md.

use std::time::Duration;

/// Largest message to `/mcp`.
pub const MESSAGE_BYTES_MAX: usize = 1024 * 1024;
/// Longest id in a tool's arguments.
pub const ID_BYTES_MAX: usize = 128;
/// Tool calls of one workspace in one minute at `/mcp`, by default.
pub const CALLS_PER_MINUTE: u32 = 60;

/// Text of one tool's answer. A model reads all of it, so it is small.
pub const TEXT_BYTES_MAX: usize = 25_000;
/// Largest image that a tool returns, and all images of one answer together, before base64.
pub const IMAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Largest file that is returned as a resource.
pub const RESOURCE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Sandboxes in the list of resources.
pub const RESOURCES_MAX: usize = 100;
/// How far into a file `read_file` reads. A larger offset needs a command.
pub const FILE_OFFSET_MAX: u64 = 256 * 1024 * 1024;
/// Largest answer of the API that a tool reads.
pub const ANSWER_BYTES_MAX: usize = 40 * 1024 * 1024;

/// Rows that a query asks for, and the largest answer to it that is read. Later rows need another
/// query.
pub const QUERY_ROWS_MAX: usize = 1000;
pub const QUERY_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Lines of a database's log: default and maximum.
pub const LOG_LINES_DEFAULT: u64 = 100;
pub const LOG_LINES_MAX: u64 = 2000;

/// Output of a command that is kept in a file of the sandbox if it is too long for the answer: of
/// each stream, and the number of files.
pub const SAVED_OUTPUT_BYTES_MAX: usize = 4 * 1024 * 1024;
pub const SAVED_OUTPUTS_MAX: usize = 20;

/// Time limit of a command: default and maximum, and how long its answer may take after it.
pub const COMMAND_DEFAULT: Duration = Duration::from_secs(60);
pub const COMMAND_MAX: Duration = Duration::from_secs(300);
pub const COMMAND_GRACE: Duration = Duration::from_secs(15);
/// How long the wake of a database, and the transfer of its rows, may take besides the statement.
pub const QUERY_GRACE: Duration = Duration::from_secs(90);
/// Longest wait for output of a process.
pub const WAIT_MAX: Duration = Duration::from_secs(60);
/// How long a new database may take.
pub const DATABASE_MAX: Duration = Duration::from_secs(180);
/// Interval of progress notifications, and of questions whether something is ready.
pub const PROGRESS_EVERY: Duration = Duration::from_secs(1);
