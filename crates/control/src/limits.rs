//! What control allows. The reference page is docs/limits.md.

use std::time::Duration;

use pandastack_model::{PATH_RULE_BYTES_MAX, PATH_RULES_MAX};

/// Sandboxes of one workspace at the same time.
pub const SANDBOXES_PER_WORKSPACE_MAX: u64 = 1000;

/// How long a create may take. Published clients give up after 30 s without learning the id.
pub const CREATE_MAX: Duration = Duration::from_secs(25);
const _: () = assert!(CREATE_MAX.as_secs() < 30, "a create must end before its client gives up");

/// How long a repeated DELETE of the same id still succeeds.
pub const DELETED_REMEMBERED: Duration = Duration::from_secs(600);

/// Credentials remembered between requests, and for how long.
pub const KEY_CACHE_ENTRIES_MAX: usize = 4096;
pub const KEY_CACHE_MAX_AGE: Duration = Duration::from_secs(30);

/// How long a part may take to say that it is well.
pub const HEALTH_MAX: Duration = Duration::from_secs(2);

/// Connections to the database.
pub const DATABASE_CONNECTIONS_MAX: u32 = 4;
/// How long a writer waits for another one.
pub const DATABASE_BUSY_MAX: Duration = Duration::from_secs(5);

/// How long pause, resume, hibernate, wake and the change of a volume may take. They go on past it; only the answer ends.
pub const CHANGE_MAX: Duration = Duration::from_secs(25);
/// How long a fork may take, with all its children. Past it every child is taken back.
pub const FORK_MAX: Duration = Duration::from_secs(25);
const _: () = assert!(CHANGE_MAX.as_secs() < 30 && FORK_MAX.as_secs() < 30, "published clients give up after 30 s");
/// How long a snapshot may take. Published clients wait 180 s.
pub const SNAPSHOT_MAX: Duration = Duration::from_secs(170);
const _: () = assert!(SNAPSHOT_MAX.as_secs() < 180, "a snapshot must end before its client gives up");

/// Snapshots and volumes of one workspace.
pub const SNAPSHOTS_PER_WORKSPACE_MAX: u64 = 1000;
pub const VOLUMES_PER_WORKSPACE_MAX: u64 = 1000;
/// Deleted sandboxes that one workspace keeps because they have descendants. Past it families lose their oldest members.
pub const ANCESTORS_PER_WORKSPACE_MAX: u64 = 1000;

/// Longest token of a signed preview that is looked at. One with every path it may name is shorter.
pub const PREVIEW_TOKEN_BYTES_MAX: usize = 16 * 1024;
const _: () = assert!(
    PREVIEW_TOKEN_BYTES_MAX >= 2 * PATH_RULES_MAX * PATH_RULE_BYTES_MAX,
    "a token with as many paths as may be must be readable"
);

/// Siblings deleted at the same time by a promotion.
pub const REAPED_AT_ONCE_MAX: usize = 4;

/// Events kept of one sandbox, and sandboxes that events are kept of. Both lose their oldest.
pub const EVENTS_PER_SANDBOX_MAX: usize = 100;
pub const EVENT_SANDBOXES_MAX: usize = 16 * 1024;

/// Requests to compare a sandbox with its host that may wait.
pub const SETTLE_QUEUE_MAX: usize = 256;

/// Builds of one workspace under way at the same time, waiting ones included, and ended ones that are remembered with their logs.
pub const BUILDS_UNDER_WAY_MAX: u64 = 8;
pub const BUILDS_REMEMBERED_MAX: u64 = 100;
/// Builds that run at the same time; others wait.
pub const BUILDS_AT_ONCE_MAX: usize = 2;
/// How long a build may run. Published clients wait 20 minutes.
pub const BUILD_MAX: Duration = Duration::from_secs(1140);
const _: () = assert!(BUILD_MAX.as_secs() < 1200, "a build must end before its client gives up");
/// The size of a machine that boots an uploaded root, if none is asked for.
pub const BUILD_CPUS_DEFAULT: u32 = 1;
pub const BUILD_MEMORY_MIB_DEFAULT: u64 = 1024;
/// How long giving up what a build held may take before it is left to the next start.
pub const BUILD_CLEANUP_MAX: Duration = Duration::from_secs(60);
/// The idle limit of a build's machine: it goes by itself even if nobody remembers it.
pub const BUILDER_IDLE_SECONDS: u64 = 900;
/// How long a build waits for room for its machine, and how often it looks.
pub const BUILDER_ROOM_MAX: Duration = Duration::from_secs(120);
pub const BUILDER_ROOM_RETRY: Duration = Duration::from_secs(2);
/// Steps of one Dockerfile, and how much of one is shown.
pub const BUILD_STEPS_MAX: usize = 200;
pub const STEP_TEXT_SHOWN_MAX: usize = 160;

/// Uploads with a build: the context together, its files, their paths; a root file system; a text field.
pub const CONTEXT_BYTES_MAX: u64 = 50 * 1024 * 1024;
pub const CONTEXT_FILES_MAX: usize = 10_000;
pub const CONTEXT_PATH_BYTES_MAX: usize = 1024;
pub const ROOTFS_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;
/// What all uploads that wait or are used may take together.
pub const SPOOL_BYTES_MAX: u64 = 4 * ROOTFS_BYTES_MAX;
pub const BUILD_FIELD_BYTES_MAX: usize = 1024 * 1024;
/// Uploads of builds at the same time, and how long one may take and may stand still.
pub const UPLOADS_AT_ONCE_MAX: usize = 4;
pub const UPLOAD_MAX: Duration = Duration::from_secs(1800);
pub const UPLOAD_QUIET_MAX: Duration = Duration::from_secs(60);
/// Files that are written into a build's machine at the same time.
pub const PLACED_AT_ONCE_MAX: usize = 4;

/// Longest log of a build; what comes after is left out. Lines that may wait to be written.
pub const BUILD_LOG_BYTES_MAX: u64 = 4 * 1024 * 1024;
pub const BUILD_LOG_QUEUE_MAX: usize = 256;
/// How often a quiet log says that it is open. One client gives up after 30 s of nothing.
pub const LOG_KEEPALIVE: Duration = Duration::from_secs(10);

/// Layers after single steps that one workspace keeps, and what they may take together.
pub const CACHED_LAYERS_MAX: u64 = 64;
pub const CACHED_BYTES_MAX: u64 = 8 * 1024 * 1024 * 1024;
