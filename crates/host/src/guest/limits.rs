//! Limits of the guest link.

use std::time::Duration;

use pandastack_wire_guest::{FRAME_BYTES_MAX, FRAME_COST_MIN, WINDOW_BYTES};

/// Channels open at once on one link. The guest refuses more.
pub const CHANNELS_MAX: usize = 200;

/// Connections to a guest's own ports at once.
pub const STREAMS_MAX: usize = 512;

/// Timeout of one such connection attempt. A busy listener drops the first attempts, which are
/// repeated after seconds.
pub const CONNECT_MAX: Duration = Duration::from_secs(15);

/// Bytes of a program's name that are forwarded.
pub const PROCESS_BYTES_MAX: usize = 64;

/// Frames that wait to be written to the link, and their bytes. A guest may stop reading.
pub const OUT_QUEUE: usize = 64;
pub const OUT_BYTES_MAX: usize = 4 * 1024 * 1024;
const _: () = assert!(OUT_BYTES_MAX >= FRAME_BYTES_MAX, "one full frame must fit");

/// Bytes of frames that guests send on one channel without credit: the last answer, which may be a
/// full frame, and a few short ones (started, credit for input, ends of streams).
pub const UNCREDITED_BYTES_MAX: usize = FRAME_BYTES_MAX + 64 * FRAME_COST_MIN;

/// Bytes that wait for one channel's reader. Beyond this the guest has ignored its credit and its
/// link is closed.
pub const CHANNEL_BYTES_MAX: usize = WINDOW_BYTES + UNCREDITED_BYTES_MAX;

/// Frames that wait for one channel's reader. Each frame has a minimum cost, so the limit in bytes
/// is always reached first.
pub const CHANNEL_QUEUE: usize = CHANNEL_BYTES_MAX / FRAME_COST_MIN;

/// Bytes that wait for the readers of all channels of one link. Beyond this nothing is read from
/// the guest until a reader takes a frame. Enough for full windows of all commands that one socket
/// may have (64), and some more.
pub const LINK_BYTES_MAX: usize = 80 * WINDOW_BYTES;
const _: () = assert!(LINK_BYTES_MAX >= CHANNEL_BYTES_MAX, "one channel must be able to fill its window");

/// Events that an exec may be ahead of its reader. Each may be a full frame, and together they fit
/// one window.
pub const EXEC_QUEUE: usize = 4;
const _: () = assert!(EXEC_QUEUE * FRAME_BYTES_MAX <= WINDOW_BYTES);

/// Input, signals and sizes that wait to be sent to an exec.
pub const EXEC_CONTROL_QUEUE: usize = 16;

/// How long after an exec's deadline the guest may take to report its end.
pub const EXEC_OVERDUE: Duration = Duration::from_secs(10);

/// Timeout of one request with one answer.
pub const REQUEST_DEADLINE: Duration = Duration::from_secs(30);

/// Part of the launch deadline that a guest may be silent on a link that was sealed with it, before
/// the host dials instead: one second by default. An answer normally takes a tenth of that, or more
/// on a busy host. A guest that does not know the link never answers.
pub const TAKE_UP_PARTS: u32 = 20;

/// Delay before a guest's spare link is opened, and between two attempts.
pub const SPARE_AFTER: Duration = Duration::from_millis(500);

/// Number of attempts, and the timeout of one attempt.
pub const SPARE_TRIES: usize = 5;
pub const SPARE_DEADLINE: Duration = Duration::from_secs(5);

/// How long a seal waits for a spare link before it continues without one.
pub const SPARE_HURRY: Duration = Duration::from_millis(100);

/// Bytes gathered into one write to the link.
pub const BATCH_BYTES: usize = 512 * 1024;

/// Entries of one directory listing, and the memory that they or the entries of a walk may take.
pub const ENTRIES_MAX: usize = 100_000;
pub const LISTING_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Processes that a guest may list.
pub const PROCESSES_MAX: usize = 1024;

/// Characters of a text about a process that are forwarded.
pub const PROCESS_TEXT_CHARS_MAX: usize = 4096;

/// Timeout of a guest's first answer about a tree: it may have to read a large tree first.
pub const TREE_DEADLINE: Duration = Duration::from_secs(120);
