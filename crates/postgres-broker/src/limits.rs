//! Limits of the query broker. The reference page is docs/limits.md.

use std::time::Duration;

/// Rows of one result. A caller may only lower it; later rows are cut.
pub const ROWS_MAX: i32 = 10_000;
/// Bytes of one statement.
pub const SQL_BYTES_MAX: usize = 1024 * 1024;
/// Parameters of one statement.
pub const PARAMS_MAX: usize = 1000;
/// Statements of one transaction.
pub const STATEMENTS_MAX: usize = 100;
/// Bytes of the name of a database or a role: PostgreSQL cuts longer names.
pub const NAME_BYTES_MAX: usize = 63;
/// Dimensions of an array parameter, as in PostgreSQL.
pub const ARRAY_DEPTH_MAX: usize = 6;
/// Bytes of a request's body, and how long it may take to arrive.
pub const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;
pub const BODY_READ_MAX: Duration = Duration::from_secs(60);

/// How long a statement or a transaction may run when the caller does not say.
pub const QUERY_DEFAULT: Duration = Duration::from_secs(30);
pub const TRANSACTION_DEFAULT: Duration = Duration::from_secs(60);
/// The longest time a caller may ask for; longer wishes are cut to it.
pub const TIMEOUT_MAX: Duration = Duration::from_secs(300);
/// How long after the timeout the broker cancels what the server did not end by itself.
pub const TIMEOUT_GRACE: Duration = Duration::from_millis(500);
/// How long a health check may take, and how long its answer is kept for others.
pub const HEALTH_MAX: Duration = Duration::from_secs(5);
pub const HEALTH_KEPT: Duration = Duration::from_secs(1);
/// Machines that are checked or whose answer is kept. If all are being checked, others count as
/// unavailable.
pub const HEALTH_MACHINES_MAX: usize = 256;

/// How long waking the machine, connecting and logging in may take.
pub const CONNECT_MAX: Duration = Duration::from_secs(60);
/// How long a cancel request may take.
pub const CANCEL_MAX: Duration = Duration::from_secs(5);
/// How long a pooled connection may take to answer its reset.
pub const RESET_MAX: Duration = Duration::from_secs(2);
/// Rounds of password hashing that a server may ask for. They cost our time, not its.
pub const SCRAM_ROUNDS_MAX: u32 = 16_384;

/// Bytes of one message of the server: a row with the largest parameter fits.
pub const MESSAGE_BYTES_MAX: usize = BODY_BYTES_MAX + 64 * 1024;
/// Columns of a result and parameters of a statement, as in PostgreSQL.
pub const COLUMNS_MAX: usize = 1664;
pub const PARAMETERS_MAX: usize = 65_535;
/// Bytes that a statement of ours may return.
pub const COLLECTED_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Bytes of each field of the server's errors, as callers see them.
pub const ERROR_FIELD_BYTES_MAX: usize = 8 * 1024;
/// Bodies and messages up to this size need no memory of their own. Larger ones wait for some: it
/// is limited for all databases of an owner, and for all. Bodies and messages are counted apart.
pub const LARGE_BYTES_MIN: usize = 256 * 1024;
pub const LARGE_PER_OWNER_BYTES: usize = 144 * 1024 * 1024;
pub const LARGE_ALL_BYTES: usize = 8 * LARGE_PER_OWNER_BYTES;
/// How often a body is in memory: as it came, its values, and as it is sent, where each element of
/// an array has quotes. A row: as it came, and as JSON, which may be longer.
pub const BODY_COPIES: usize = 5;
pub const MESSAGE_COPIES: usize = 4;
/// Bytes of one answer that can be streamed.
pub const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Bytes of a transaction's answer: it waits in memory for the commit.
pub const TRANSACTION_ANSWER_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Bytes that an answer may have before it is streamed. Until then an error has its own status.
pub const ANSWER_HELD_BYTES: usize = 1024 * 1024;
/// Bytes of one streamed piece, and pieces that may wait for a slow reader.
pub const ANSWER_CHUNK_BYTES: usize = 64 * 1024;
pub const ANSWER_CHUNKS_WAITING: usize = 4;
/// How long the caller may take to read the last pieces.
pub const ANSWER_TAIL_MAX: Duration = Duration::from_secs(60);

/// Requests that may run at once: for one machine and in all.
pub const RUNNING_PER_MACHINE_MAX: usize = 16;
pub const RUNNING_MAX: usize = 256;
/// Idle connections: for one database and login, and in all.
pub const IDLE_PER_DATABASE_MAX: usize = 4;
pub const IDLE_MAX: usize = 256;
/// How long a connection may be idle, and how old it may get.
pub const IDLE_AGE_MAX: Duration = Duration::from_secs(60);
pub const CONNECTION_AGE_MAX: Duration = Duration::from_secs(600);
/// How often idle connections are looked through.
pub const IDLE_SWEEP: Duration = Duration::from_secs(10);
/// Types of one connection whose names are remembered.
pub const TYPES_REMEMBERED_MAX: usize = 1000;

const _: () = assert!(ANSWER_HELD_BYTES < TRANSACTION_ANSWER_BYTES_MAX, "held answers are the small ones");
const _: () = assert!(MESSAGE_COPIES * MESSAGE_BYTES_MAX <= LARGE_PER_OWNER_BYTES, "one row must fit");
const _: () = assert!(BODY_COPIES * BODY_BYTES_MAX <= LARGE_PER_OWNER_BYTES, "one body must fit");
const _: () = assert!(ANSWER_CHUNK_BYTES <= ANSWER_HELD_BYTES, "the held part is at least one piece");

/// Longest statement of the platform itself.
pub const DIRECT_MAX: Duration = Duration::from_secs(20);
