//! Limits of the guest link.

use std::time::Duration;

use pandastack_wire_guest::{FRAME_BYTES_MAX, FRAME_COST_MIN, WINDOW_BYTES};

/// Channels open at once on one link; the guest refuses more.
pub const CHANNELS_MAX: usize = 200;

/// Connections to a guest's own ports at once.
pub const STREAMS_MAX: usize = 512;

/// How long a guest may take to accept one. A busy listener drops the first attempts, which are
/// repeated after seconds.
pub const CONNECT_MAX: Duration = Duration::from_secs(15);

/// Bytes of a program's name that are passed on.
pub const PROCESS_BYTES_MAX: usize = 64;

/// Frames waiting to be written to the link, and their bytes. A guest may stop reading.
pub const OUT_QUEUE: usize = 64;
pub const OUT_BYTES_MAX: usize = 4 * 1024 * 1024;
const _: () = assert!(OUT_BYTES_MAX >= FRAME_BYTES_MAX, "one full frame must fit");

/// Bytes of frames on one channel that guests send without credit: the last answer, which may be a
/// full frame, and a few short ones (started, credit for input, ends of streams).
pub const UNCREDITED_BYTES_MAX: usize = FRAME_BYTES_MAX + 64 * FRAME_COST_MIN;

/// Bytes that wait for one channel's reader. Past it the guest has ignored its credit and its link
/// is closed.
pub const CHANNEL_BYTES_MAX: usize = WINDOW_BYTES + UNCREDITED_BYTES_MAX;

/// Frames that wait for one channel's reader. Each costs some bytes at least, so the bytes are
/// always the tighter bound.
pub const CHANNEL_QUEUE: usize = CHANNEL_BYTES_MAX / FRAME_COST_MIN;

/// Bytes that wait for the readers of all channels of one link. Past it nothing more is read from
/// the guest until a reader has taken something. Full windows of all commands that one socket may
/// have (64), and some more.
pub const LINK_BYTES_MAX: usize = 80 * WINDOW_BYTES;
const _: () = assert!(LINK_BYTES_MAX >= CHANNEL_BYTES_MAX, "one channel must be able to fill its window");

/// Events an exec may be ahead of its reader. Each may be a full frame, all of them no more than a
/// window.
pub const EXEC_QUEUE: usize = 4;
const _: () = assert!(EXEC_QUEUE * FRAME_BYTES_MAX <= WINDOW_BYTES);

/// Input, signals and sizes that wait to be sent to an exec.
pub const EXEC_CONTROL_QUEUE: usize = 16;

/// How long after an exec's deadline the guest may take to say that it has kept it.
pub const EXEC_OVERDUE: Duration = Duration::from_secs(10);

/// One question with one answer.
pub const REQUEST_DEADLINE: Duration = Duration::from_secs(30);

/// Which part of a launch's deadline a guest may be silent on a link that was sealed with it before
/// it is dialled: a second, as hosts come. Its answer takes a tenth of this, or more on a busy
/// host; a guest that does not know the link never answers.
pub const TAKE_UP_PARTS: u32 = 20;

/// From the first answer of a guest until its spare link is opened, and between two attempts.
pub const SPARE_AFTER: Duration = Duration::from_millis(500);

/// How often that is tried, and how long a guest may take to greet.
pub const SPARE_TRIES: usize = 5;
pub const SPARE_DEADLINE: Duration = Duration::from_secs(5);

/// How long a seal waits for a spare link before it goes on without.
pub const SPARE_HURRY: Duration = Duration::from_millis(100);

/// Bytes gathered into one write to the link.
pub const BATCH_BYTES: usize = 512 * 1024;

/// Entries of one directory listing, and the memory that they or the entries of a walk may take.
pub const ENTRIES_MAX: usize = 100_000;
pub const LISTING_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Processes that a guest may list.
pub const PROCESSES_MAX: usize = 1024;

/// Characters of a text about a process that are passed on.
pub const PROCESS_TEXT_CHARS_MAX: usize = 4096;

/// How long a guest may take to set out: a large tree is looked at first.
pub const TREE_DEADLINE: Duration = Duration::from_secs(120);
