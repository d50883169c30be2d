//! Every limit and deadline of the agent.

use std::time::Duration;

use pandastack_wire_guest::{CODE_GRACE_MS_MAX, CODE_START_MS_MAX, FRAME_BYTES_MAX, WINDOW_BYTES};

/// Open connections, dead ones from before a restore included.
pub const CONNECTIONS_MAX: usize = 64;

/// Open channels of one connection.
pub const CHANNELS_MAX: usize = 256;

/// Longest wait for `Hello` on a new connection.
pub const HELLO_WITHIN: Duration = Duration::from_secs(10);

/// Largest frame before `Hello` is accepted: any process of the guest can connect.
pub const HELLO_BYTES_MAX: usize = 4 * 1024;

/// Most bytes that one connection's peer may hold in our memory over all channels: waiting input
/// and running requests.
pub const HELD_BYTES_MAX: usize = 64 * 1024 * 1024;
const _: () = assert!(HELD_BYTES_MAX >= 8 * WINDOW_BYTES, "several channels must be able to fill their windows");

/// Time to send the last frames of a connection before it is closed.
pub const FAREWELL_WITHIN: Duration = Duration::from_secs(1);

/// Time after the loss of a connection in which a rebirth saves its processes: in a fork or a wake
/// the link breaks first.
pub const LOST_GRACE: Duration = Duration::from_secs(2);

/// Time between a rebirth and the close of the connections that it ended.
pub const OUTLIVED_PAUSE: Duration = Duration::from_millis(50);

/// Time between TERM and KILL.
pub const KILL_GRACE: Duration = Duration::from_secs(2);

/// Frames in the queue for short answers.
pub const CONTROL_FRAMES_MAX: usize = 64;

/// Frames in the queue for bulk data. Waiting senders are served in order.
pub const BULK_FRAMES_MAX: usize = 16;

/// Frames up to this size are copied together into one write.
pub const COALESCE_BYTES: usize = 16 * 1024;

/// Least free buffer space before a read of the socket. An unfinished frame reserves its own.
pub const RECEIVE_BYTES_MIN: usize = 8 * 1024;

/// Most bytes read from a pipe at once: the capacity of a pipe.
pub const OUTPUT_CHUNK_BYTES: usize = 64 * 1024;

/// Most bytes read from a file at once.
pub const FILE_CHUNK_BYTES: usize = 128 * 1024;

/// Consumed input that is credited back in one step.
pub const CREDIT_STEP_BYTES: usize = WINDOW_BYTES / 4;

/// Delay of the frame that ends an output stream. The process usually ends within it, and the frame
/// is not needed then.
pub const STREAM_END_AFTER: Duration = Duration::from_millis(20);

/// Most output read from a terminal after its process has ended.
pub const TERMINAL_DRAIN_BYTES: usize = 1024 * 1024;

/// Pipes of ended processes that are drained for their detached children; further ones are closed.
pub const UNHEARD_PIPES_MAX: usize = 1024;

/// Code sessions of one guest.
pub const SESSIONS_MAX: usize = 8;

/// Cells that wait for their turn in one session.
pub const CELLS_WAITING_MAX: usize = 16;

/// Longest time from a kernel's start until it is ready.
pub const KERNEL_START_WITHIN: Duration = Duration::from_millis(CODE_START_MS_MAX);

/// Time for a late cell to react to each of the two interrupts, and for its kernel to end.
pub const INTERRUPT_GRACE: Duration = Duration::from_secs(2);

/// Longest wait for a copy of a warm kernel.
pub const KERNEL_COPY_WITHIN: Duration = Duration::from_secs(10);

/// Time from the use or loss of a warm kernel until it is replaced: the first cell comes first.
pub const WARM_AFTER: Duration = Duration::from_secs(3);

/// A warm kernel is replaced only if this part of the memory is available: one in so many.
pub const WARM_MEMORY_PART: u64 = 4;

/// Failures in a row after which a warm kernel is not replaced any more.
pub const WARM_FAILURES_MAX: u32 = 3;

/// Time after which OpenSSL asks the kernel for entropy again, and a little more.
pub const OPENSSL_RESEEDS_AFTER: Duration = Duration::from_secs(3700);

/// Longest line from a kernel.
pub const KERNEL_LINE_BYTES: usize = 64;

/// Longest trace passed to a kernel: a `traceparent` has 55 bytes today.
pub const TRACE_BYTES_MAX: usize = 64;

/// Most output reported of a kernel that ended before it was ready.
pub const KERNEL_SAID_BYTES: usize = 2048;

const _: () = assert!(3 * INTERRUPT_GRACE.as_millis() as u64 <= CODE_GRACE_MS_MAX, "a cell's end is forced in time");

/// Estimated bytes of a listing in one frame.
pub const ENTRIES_BYTES: usize = 128 * 1024;

/// Most entries of one directory that are sorted.
pub const DIRECTORY_ENTRIES_MAX: usize = 200_000;

/// Entries processed before other channels get a turn.
pub const ENTRIES_PER_TURN: usize = 128;

/// Processes examined to find the owners of ports.
pub const PROCESSES_SCANNED_MAX: usize = 4096;

/// File systems thaw by themselves after this time, in case the host that froze them is gone.
pub const FROZEN_MAX: Duration = Duration::from_secs(30);

/// A clock that is ahead of the host's time by at most this much is left unchanged.
pub const CLOCK_AHEAD_MAX: Duration = Duration::from_millis(250);

/// Time to send the answer to a power-off.
pub const POWER_OFF_AFTER: Duration = Duration::from_millis(50);

/// Longest wait for the root device.
pub const ROOT_WITHIN: Duration = Duration::from_secs(60);

const _: () = assert!(OUTPUT_CHUNK_BYTES <= FRAME_BYTES_MAX && FILE_CHUNK_BYTES <= FRAME_BYTES_MAX);
const _: () = assert!(ENTRIES_BYTES * 2 <= FRAME_BYTES_MAX, "the estimate may be off by half");
const _: () =
    assert!(CREDIT_STEP_BYTES + FRAME_BYTES_MAX <= WINDOW_BYTES, "uncredited input must leave room for a frame");

/// Longest wait until the kernel notices a disk that was inserted or has grown.
pub const DISK_WITHIN: Duration = Duration::from_secs(10);

/// Interval between checks of a disk's size.
pub const DISK_POLL: Duration = Duration::from_millis(1);

/// Pause between two accepted connections.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// Output kept of one process that outlives its request; the oldest bytes are dropped first.
pub const KEPT_BYTES_MAX: usize = 512 * 1024;

/// Most alternations between standard output and standard error kept in that output.
pub const KEPT_RUNS_MAX: usize = 16 * 1024;

/// Most such processes that are remembered. A new one replaces the oldest that has ended; if all
/// run, it is refused.
pub const PROCESSES_MAX: usize = 64;

/// Bytes of a command shown with its process.
pub const COMMAND_SHOWN_BYTES: usize = 2048;

/// Longest tag of a process.
pub const TAG_BYTES_MAX: usize = 256;

const _: () = assert!(
    PROCESSES_MAX * (COMMAND_SHOWN_BYTES + TAG_BYTES_MAX + 256) <= FRAME_BYTES_MAX,
    "all processes must fit one frame"
);

/// Longest time that a process may leave its input unread while a caller waits to send more.
pub const FEED_STALL_MAX: Duration = Duration::from_secs(10);

/// Input passed to a process at once.
pub const FEED_PIECE_BYTES: usize = 64 * 1024;
const _: () =
    assert!(FEED_PIECE_BYTES + CREDIT_STEP_BYTES <= WINDOW_BYTES, "a process that reads makes room for a piece");

/// Folders of one watch, and watches at a time.
pub const WATCHED_FOLDERS_MAX: usize = 8192;
pub const WATCHES_MAX: usize = 16;

/// Estimated bytes of changes in one frame.
pub const CHANGES_BYTES: usize = 32 * 1024;
const _: () = assert!(CHANGES_BYTES + 2 * 4096 + 1024 <= FRAME_BYTES_MAX / 2, "one change more must still fit");

/// Most levels of folders that are walked, packed or changed.
pub const DEPTH_MAX: usize = 256;

/// Longest name, link target or extended header in an archive.
pub const TAR_EXTENSION_BYTES_MAX: usize = 64 * 1024;

/// Largest file in an archive; larger than any of our disks.
pub const TAR_FILE_BYTES_MAX: u64 = 1 << 44;
