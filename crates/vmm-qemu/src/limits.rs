//! Deadlines and sizes of this driver.

use std::time::Duration;

/// From process start to the first QMP greeting. Generous: a loaded host must not turn into failed
/// creates.
pub const START_DEADLINE: Duration = Duration::from_secs(20);

/// One QMP command.
pub const COMMAND_DEADLINE: Duration = Duration::from_secs(10);

/// Loading device state.
pub const LOAD_DEADLINE: Duration = Duration::from_secs(20);

/// One TCP connect to the guest agent, before the caller tries again. Short: a tap that was just
/// attached may lose the first packet, and TCP itself would repeat it only after a second.
pub const DIAL_DEADLINE: Duration = Duration::from_millis(200);

/// From the start of a machine until the kernel must have noticed that its tap is in use, and
/// between two looks.
pub const CARRIER_DEADLINE: Duration = Duration::from_secs(1);
pub const CARRIER_POLL: Duration = Duration::from_millis(1);

/// From a lost monitor to the news of the process's death.
pub const DEATH_NEWS_DEADLINE: Duration = Duration::from_secs(2);

/// Between two attempts of a guest to write when the host's disk was full.
pub const ROOM_POLL: Duration = Duration::from_secs(1);

/// From SIGKILL until the process must be reaped.
pub const KILL_DEADLINE: Duration = Duration::from_secs(10);

/// The probe machine runs a dozen instructions.
pub const PROBE_DEADLINE: Duration = Duration::from_millis(1500);

/// Code cache of one emulated machine. Larger caches cost memory per sandbox, smaller ones
/// retranslate.
pub const TRANSLATION_CACHE_MIB: u32 = 64;

/// A line from the machine's monitor; longer means we do not understand each other.
pub const QMP_LINE_BYTES_MAX: usize = 1024 * 1024;

/// Longest file that a machine's process may write: the largest volume. A larger disk or memory
/// raises it for its machine.
pub const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024 * 1024;

/// Device state of one machine. A machine of ours has some kilobytes, whatever its memory.
pub const DEVICE_STATE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// How much of the machine's own log goes into an error.
pub const LOG_TAIL_BYTES: u64 = 2000;

/// How much of the console is searched for a kernel's last words: they stand before a long account
/// of its state.
pub const CONSOLE_TAIL_BYTES: u64 = 64 * 1024;

/// Numbers of users that are tried before more of the range is looked at.
pub const USER_ATTEMPTS_PER_WINDOW: usize = 16;
