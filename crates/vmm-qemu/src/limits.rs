//! Timeouts and sizes of this driver.

use std::time::Duration;

/// From process start to the first QMP greeting. Long, so that a loaded host does not fail creates.
pub const START_DEADLINE: Duration = Duration::from_secs(20);

/// One QMP command.
pub const COMMAND_DEADLINE: Duration = Duration::from_secs(10);

/// Loading device state.
pub const LOAD_DEADLINE: Duration = Duration::from_secs(20);

/// One TCP connect to the guest agent, before the caller retries. Short, because a tap that was
/// just attached may lose the first packet, and TCP would repeat it only after a second.
pub const DIAL_DEADLINE: Duration = Duration::from_millis(200);

/// From the start of a machine until the kernel reports carrier on its tap, and the poll interval.
pub const CARRIER_DEADLINE: Duration = Duration::from_secs(1);
pub const CARRIER_POLL: Duration = Duration::from_millis(1);

/// From a lost monitor to the report of the process's death.
pub const DEATH_NEWS_DEADLINE: Duration = Duration::from_secs(2);

/// Interval between two attempts to resume a guest when the host's disk was full.
pub const ROOM_POLL: Duration = Duration::from_secs(1);

/// From SIGKILL until the process must be reaped.
pub const KILL_DEADLINE: Duration = Duration::from_secs(10);

/// The probe machine runs a dozen instructions.
pub const PROBE_DEADLINE: Duration = Duration::from_millis(1500);

/// Code cache of one emulated machine. A larger cache costs memory per sandbox, a smaller one
/// translates more often.
pub const TRANSLATION_CACHE_MIB: u32 = 64;

/// Longest line from the machine's monitor. A longer line is a protocol error.
pub const QMP_LINE_BYTES_MAX: usize = 1024 * 1024;

/// Longest file that a machine's process may write: the largest volume. A larger disk or memory
/// raises it for its machine.
pub const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024 * 1024;

/// Largest device state of one machine. Real states have a few kilobytes, for any memory size.
pub const DEVICE_STATE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Bytes of the machine's log that go into an error.
pub const LOG_TAIL_BYTES: u64 = 2000;

/// Bytes of the console that are searched for a kernel panic. The panic line comes before a long
/// dump.
pub const CONSOLE_TAIL_BYTES: u64 = 64 * 1024;

/// User ids that are tried before a larger part of the range is used.
pub const USER_ATTEMPTS_PER_WINDOW: usize = 16;
