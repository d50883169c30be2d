//! Limits and timeouts of a bake.

use std::time::Duration;

/// From the machine's start to the guest agent's first answer. An emulated boot on a loaded host is
/// slow.
pub const BOOT_DEADLINE: Duration = Duration::from_secs(180);

/// Pause between two attempts to reach the agent while the guest boots.
pub const BOOT_POLL: Duration = Duration::from_millis(25);

/// Timeout of one warm-up command.
pub const WARM_DEADLINE: Duration = Duration::from_secs(300);

/// Age of a sealed kernel in a new sandbox, at least. OpenSSL seeds itself anew after an hour.
pub const KERNEL_AGE: Duration = Duration::from_secs(2 * 3600);

/// Lines of a step's log that go into an error.
pub const LOG_LINES: usize = 15;
