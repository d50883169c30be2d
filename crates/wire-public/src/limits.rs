//! Limits of single requests. The reference page is docs/limits.md.

use std::time::Duration;

/// Largest JSON body of a request.
pub const JSON_BYTES_MAX: usize = 4 * 1024 * 1024;
/// How long a whole JSON body may take to arrive.
pub const JSON_ARRIVAL_MAX: Duration = Duration::from_secs(30);

/// Metadata entries of one sandbox.
pub const METADATA_ENTRIES_MAX: usize = 64;
pub const METADATA_KEY_BYTES_MAX: usize = 128;
pub const METADATA_VALUE_BYTES_MAX: usize = 16 * 1024;

/// Environment variables of one sandbox or one command.
pub const ENV_ENTRIES_MAX: usize = 256;
pub const ENV_BYTES_MAX: usize = 128 * 1024;

/// Longest idle limit: one year.
pub const TTL_SECONDS_MAX: u64 = 365 * 24 * 3600;

/// Children of one fork.
pub const FORK_CHILDREN_MAX: usize = 16;

/// Writable volumes of one sandbox, and also its read-only volumes: a machine has this many slots
/// of each kind.
pub const VOLUMES_PER_ACCESS_MAX: usize = 4;
/// Size of a volume in mebibytes. The smallest still fits a file system with its journal.
pub const VOLUME_MB_MIN: u64 = 16;
pub const VOLUME_MB_MAX: u64 = 65_536;
pub const VOLUME_MB_DEFAULT: i64 = 256;

/// Declared ports of one sandbox, and the length of a label.
pub const DECLARED_PORTS_MAX: usize = 32;
pub const PORT_LABEL_BYTES_MAX: usize = 64;

/// Label of an API key, and its longest validity in days.
pub const KEY_LABEL_BYTES_MAX: usize = 100;
pub const KEY_DAYS_MAX: u64 = 3650;

/// Validity of a signed preview: default and maximum.
pub const PREVIEW_TTL_DEFAULT: Duration = Duration::from_secs(3600);
pub const PREVIEW_TTL_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// Disk, memory and CPUs of a template that is built: defaults and limits, sizes in mebibytes.
pub const BUILD_SIZE_MB_DEFAULT: u64 = 1024;
pub const BUILD_SIZE_MB_MAX: u64 = 16_384;
pub const BUILD_MEMORY_MB_MIN: u64 = 128;
pub const BUILD_MEMORY_MB_MAX: u64 = 65_536;
pub const BUILD_CPUS_MAX: u64 = 64;
/// Longest Dockerfile.
pub const DOCKERFILE_BYTES_MAX: usize = 256 * 1024;
/// Longest line of a build's log. Longer lines are split.
pub const BUILD_LOG_LINE_BYTES_MAX: usize = 8 * 1024;

/// Highest bandwidth limit in megabits per second.
pub const EGRESS_MBPS_MAX: u32 = 100_000;

/// Longest command: the shell text, or all arguments together.
pub const COMMAND_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Longest time limit of a command. A longer one is reduced to this.
pub const EXEC_TIMEOUT_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// Longest code of one cell, and longest code without a session. The latter is a process argument,
/// whose length Linux limits.
pub const CODE_BYTES_MAX: usize = 1024 * 1024;
pub const ONCE_CODE_BYTES_MAX: usize = 127 * 1024;
/// Default time limit of a cell. Published clients give up after 30 s of silence, so the limit must
/// be reached first.
pub const CELL_TIMEOUT_DEFAULT: Duration = Duration::from_secs(28);

/// Longest id of a command on a socket.
pub const SOCKET_ID_BYTES_MAX: usize = 256;

/// Longest tag of a process.
pub const TAG_BYTES_MAX: usize = 128;

/// Longest console line. Longer lines are split.
pub const LOG_LINE_BYTES_MAX: usize = 16 * 1024;

/// Longest path on Linux.
pub const PATH_BYTES_MAX: usize = 4096;

const _: () = assert!(COMMAND_BYTES_MAX + ENV_BYTES_MAX < JSON_BYTES_MAX, "a full command must fit a body");
const _: () = assert!(
    METADATA_ENTRIES_MAX * (METADATA_KEY_BYTES_MAX + METADATA_VALUE_BYTES_MAX) < JSON_BYTES_MAX,
    "full metadata must fit a body"
);

/// Event patterns of one webhook, and the length of its description.
pub const WEBHOOK_EVENTS_MAX: usize = 32;
pub const WEBHOOK_DESCRIPTION_BYTES_MAX: usize = 256;
/// Longest time that the previous secret stays valid after a rotation: a week.
pub const WEBHOOK_GRACE_SECONDS_MAX: u64 = 7 * 24 * 3600;

/// Name of an organisation or of a person.
pub const ORG_NAME_BYTES_MAX: usize = 100;
pub const USER_NAME_BYTES_MAX: usize = 100;
