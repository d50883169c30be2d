//! Every limit and deadline of the agent.

use std::time::Duration;

use pandastack_wire_guest::{CODE_GRACE_MS_MAX, CODE_START_MS_MAX, FRAME_BYTES_MAX, WINDOW_BYTES};

/// Connections open at a time, dead ones from before a restore included.
pub const CONNECTIONS_MAX: usize = 64;

/// Channels open at a time on one connection.
pub const CHANNELS_MAX: usize = 256;

/// Time a new connection has to say `Hello`.
pub const HELLO_WITHIN: Duration = Duration::from_secs(10);

/// Longest frame before `Hello` is accepted: any process of the guest can connect.
pub const HELLO_BYTES_MAX: usize = 4 * 1024;

/// Bytes that the other end of one connection may have in our memory over all channels: waiting
/// input, and requests under way.
pub const HELD_BYTES_MAX: usize = 64 * 1024 * 1024;
const _: () = assert!(HELD_BYTES_MAX >= 8 * WINDOW_BYTES, "several channels must be able to fill their windows");

/// Time the last frames of a connection have to leave before it is closed.
pub const FAREWELL_WITHIN: Duration = Duration::from_secs(1);

/// Time after the loss of a connection in which a rebirth saves its processes: in a fork or a wake
/// the link breaks first.
pub const LOST_GRACE: Duration = Duration::from_secs(2);

/// Time after a rebirth before the connections that it ended are closed.
pub const OUTLIVED_PAUSE: Duration = Duration::from_millis(50);

/// Time between TERM and KILL.
pub const KILL_GRACE: Duration = Duration::from_secs(2);

/// Frames that wait in the lane for short answers.
pub const CONTROL_FRAMES_MAX: usize = 64;

/// Frames that wait in the lane for bulk; a waiting sender gets the next place in order.
pub const BULK_FRAMES_MAX: usize = 16;

/// Frames up to this size are copied together into one write.
pub const COALESCE_BYTES: usize = 16 * 1024;

/// Room for at least this much is made before reading the socket; an unfinished frame makes its
/// own.
pub const RECEIVE_BYTES_MIN: usize = 8 * 1024;

/// Bytes read from a pipe in one go: what a pipe holds.
pub const OUTPUT_CHUNK_BYTES: usize = 64 * 1024;

/// Bytes read from a file in one go.
pub const FILE_CHUNK_BYTES: usize = 128 * 1024;

/// Consumed input that is credited back at once.
pub const CREDIT_STEP_BYTES: usize = WINDOW_BYTES / 4;

/// Time after the end of an output stream in which the end of the process makes mentioning it
/// needless.
pub const STREAM_END_AFTER: Duration = Duration::from_millis(20);

/// Most output taken from a terminal after its process has ended.
pub const TERMINAL_DRAIN_BYTES: usize = 1024 * 1024;

/// Pipes of ended processes that are emptied for their detached children; further ones are closed.
pub const UNHEARD_PIPES_MAX: usize = 1024;

/// Code sessions of one guest.
pub const SESSIONS_MAX: usize = 8;

/// Cells that wait for their turn in one session.
pub const CELLS_WAITING_MAX: usize = 16;

/// Time a kernel has from its start until it is ready.
pub const KERNEL_START_WITHIN: Duration = Duration::from_millis(CODE_START_MS_MAX);

/// Time a late cell has to obey each of the two interrupts, and its kernel to end.
pub const INTERRUPT_GRACE: Duration = Duration::from_secs(2);

/// Longest line that a kernel may say.
pub const KERNEL_LINE_BYTES: usize = 64;

/// Longest trace that a kernel is told of: a `traceparent` has 55 bytes today.
pub const TRACE_BYTES_MAX: usize = 64;

/// How much of what a kernel wrote is told if it ended before it was ready.
pub const KERNEL_SAID_BYTES: usize = 2048;

const _: () = assert!(3 * INTERRUPT_GRACE.as_millis() as u64 <= CODE_GRACE_MS_MAX, "a cell's end is forced in time");

/// Bytes of a listing put into one frame, estimated.
pub const ENTRIES_BYTES: usize = 128 * 1024;

/// Entries of one directory we are ready to sort.
pub const DIRECTORY_ENTRIES_MAX: usize = 200_000;

/// Entries looked at before other channels get a turn.
pub const ENTRIES_PER_TURN: usize = 128;

/// Processes looked at to name the owners of ports.
pub const PROCESSES_SCANNED_MAX: usize = 4096;

/// File systems thaw by themselves after this long, in case the host that froze them is gone.
pub const FROZEN_MAX: Duration = Duration::from_secs(30);

/// A clock that is ahead of what the host says by no more than this is left alone.
pub const CLOCK_AHEAD_MAX: Duration = Duration::from_millis(250);

/// Time the answer to a power-off has to leave.
pub const POWER_OFF_AFTER: Duration = Duration::from_millis(50);

/// Time the kernel has to show the root device.
pub const ROOT_WITHIN: Duration = Duration::from_secs(60);

const _: () = assert!(OUTPUT_CHUNK_BYTES <= FRAME_BYTES_MAX && FILE_CHUNK_BYTES <= FRAME_BYTES_MAX);
const _: () = assert!(ENTRIES_BYTES * 2 <= FRAME_BYTES_MAX, "the estimate may be off by half");
const _: () =
    assert!(CREDIT_STEP_BYTES + FRAME_BYTES_MAX <= WINDOW_BYTES, "uncredited input must leave room for a frame");

/// Time the kernel has to notice a disk that was put into a slot, or that has grown.
pub const DISK_WITHIN: Duration = Duration::from_secs(10);

/// Between two looks at a disk's size.
pub const DISK_POLL: Duration = Duration::from_millis(1);

/// Between two connections taken on.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// Output kept of one process that outlives its request; the oldest bytes go first.
pub const KEPT_BYTES_MAX: usize = 512 * 1024;

/// Turns between standard output and standard error that are remembered of it.
pub const KEPT_RUNS_MAX: usize = 16 * 1024;

/// Such processes that are remembered. For a new one the oldest that has ended is forgotten; if all
/// run, it is refused.
pub const PROCESSES_MAX: usize = 64;

/// Bytes of a command that are shown with its process.
pub const COMMAND_SHOWN_BYTES: usize = 2048;

/// Longest tag of a process.
pub const TAG_BYTES_MAX: usize = 256;

const _: () = assert!(
    PROCESSES_MAX * (COMMAND_SHOWN_BYTES + TAG_BYTES_MAX + 256) <= FRAME_BYTES_MAX,
    "all processes must fit one frame"
);

/// How long a process may leave its input unread while somebody waits to send more.
pub const FEED_STALL_MAX: Duration = Duration::from_secs(10);

/// Input handed to a process at once.
pub const FEED_PIECE_BYTES: usize = 64 * 1024;
const _: () =
    assert!(FEED_PIECE_BYTES + CREDIT_STEP_BYTES <= WINDOW_BYTES, "a process that reads makes room for a piece");

/// Folders that one watch follows, and watches at a time.
pub const WATCHED_FOLDERS_MAX: usize = 8192;
pub const WATCHES_MAX: usize = 16;

/// Bytes of changes put into one frame, estimated.
pub const CHANGES_BYTES: usize = 32 * 1024;
const _: () = assert!(CHANGES_BYTES + 2 * 4096 + 1024 <= FRAME_BYTES_MAX / 2, "one change more must still fit");

/// Levels of folders that are walked, packed or changed.
pub const DEPTH_MAX: usize = 256;

/// Longest name, link target or extended header in an archive.
pub const TAR_EXTENSION_BYTES_MAX: usize = 64 * 1024;

/// Largest file in an archive; more than any disk of ours has.
pub const TAR_FILE_BYTES_MAX: u64 = 1 << 44;
