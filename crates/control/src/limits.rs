//! What control allows. The reference page is docs/limits.md.

use std::time::Duration;

use pandastack_model::{PATH_RULE_BYTES_MAX, PATH_RULES_MAX};
use pandastack_wire_public::limits as public;

// Rooms that read Dockerfiles and images know no public API; what they accept must fit it.
const _: () = {
    use pandastack_dockerfile::limits as dockerfile;
    assert!(dockerfile::VARIABLES_MAX == public::ENV_ENTRIES_MAX);
    assert!(dockerfile::VARIABLE_BYTES_MAX == public::ENV_BYTES_MAX);
    assert!(dockerfile::DOCKERFILE_BYTES_MAX == public::DOCKERFILE_BYTES_MAX);
    assert!(dockerfile::PORTS_MAX == public::DECLARED_PORTS_MAX);
    assert!(pandastack_image::limits::IMAGE_BYTES_MAX <= ROOTFS_BYTES_MAX);
};

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
/// Keys whose revocation somebody waits for. Past this number the list is cleared of those that
/// nobody waits for any more.
pub const KEY_WATCHES_MAX: usize = 4 * KEY_CACHE_ENTRIES_MAX;
/// API keys of one workspace that work, and those that have ended whose rows are kept.
pub const KEYS_PER_WORKSPACE_MAX: u64 = 100;
pub const KEYS_ENDED_MAX: u64 = 1000;

/// How long a part may take to say that it is well.
pub const HEALTH_MAX: Duration = Duration::from_secs(2);

/// Connections to the database.
pub const DATABASE_CONNECTIONS_MAX: u32 = 4;
/// How long a writer waits for another one.
pub const DATABASE_BUSY_MAX: Duration = Duration::from_secs(5);

/// How long pause, resume, hibernate, wake and the change of a volume may take. They go on past it;
/// only the answer ends.
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
/// Deleted sandboxes that one workspace keeps because they have descendants. Past it families lose
/// their oldest members.
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

/// Followers of events at once; more are refused. A quiet one hears that it is alive this often.
pub const FOLLOWERS_MAX: usize = 1024;
pub const KEEPALIVE: Duration = Duration::from_secs(15);

/// Requests of one workspace: in a second in the long run, and at once after a rest. An operator
/// may choose others.
pub const RATE_PER_SECOND: u32 = 25;
pub const RATE_BURST: u32 = 50;
/// Workspaces whose rate is remembered.
pub const RATE_BUCKETS_MAX: usize = 4096;

/// How long the answer to a request with an idempotency key is remembered.
pub const ATTEMPTS_REMEMBERED: Duration = Duration::from_secs(24 * 3600);
pub const ATTEMPT_KEY_BYTES_MAX: usize = 255;
/// Largest answer that is remembered.
pub const ATTEMPT_ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Answers of one workspace that are remembered, in number and in bytes. The oldest give way.
pub const ATTEMPTS_PER_WORKSPACE_MAX: u64 = 10_000;
pub const ATTEMPT_BYTES_PER_WORKSPACE_MAX: u64 = 64 * 1024 * 1024;
const _: () = assert!(
    ATTEMPT_ANSWER_BYTES_MAX as u64 <= ATTEMPT_BYTES_PER_WORKSPACE_MAX,
    "the newest answer must never give way to itself"
);

/// Entries of the audit trail: how old, how many of one workspace, how many in one answer.
pub const AUDIT_AGE_MAX: Duration = Duration::from_secs(30 * 24 * 3600);
pub const AUDIT_ENTRIES_PER_WORKSPACE_MAX: u64 = 10_000;
pub const AUDIT_LISTED_DEFAULT: u64 = 200;
pub const AUDIT_LISTED_MAX: u64 = 1000;
/// Longest path in an entry.
pub const AUDIT_PATH_BYTES_MAX: usize = 256;
/// Entries that wait to be written, how long a request waits for room among them, and how many are
/// written at once.
pub const AUDIT_QUEUE_MAX: usize = 1024;
pub const AUDIT_WAIT_MAX: Duration = Duration::from_secs(1);
pub const AUDIT_BATCH: usize = 64;
/// How often a write of entries is tried: a database that is busy for long is not yet a reason to
/// lose them.
pub const AUDIT_TRIES: usize = 3;
/// Entries between two looks for old ones.
pub const AUDIT_PRUNE_EVERY: usize = 512;

/// Between two samples of all machines.
pub const SAMPLE_EVERY: Duration = Duration::from_secs(15);
/// Sandboxes and workspaces that values over time are kept of.
pub const SERIES_SANDBOXES_MAX: usize = 1024;
pub const SERIES_WORKSPACES_MAX: usize = 256;
/// Longest time that may be asked for at once.
pub const SERIES_SPAN_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

/// Boots remembered of one workspace, and workspaces that boots are remembered of.
pub const BOOTS_PER_WORKSPACE_MAX: usize = 500;
pub const BOOT_WORKSPACES_MAX: usize = 256;

/// Requests to compare a sandbox with its host that may wait.
pub const SETTLE_QUEUE_MAX: usize = 256;

/// Builds of one workspace under way at the same time, waiting ones included, and ended ones that
/// are remembered with their logs.
pub const BUILDS_UNDER_WAY_MAX: u64 = 8;
pub const BUILDS_REMEMBERED_MAX: u64 = 100;
/// Builds that run at the same time; others wait. One workspace has at most two of these.
pub const BUILDS_AT_ONCE_MAX: usize = 3;
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

/// A template's command: how long a build waits for its port, or without one; how often it looks;
/// how long one may take to end.
pub const START_READY_MAX: Duration = Duration::from_secs(60);
pub const START_SETTLE: Duration = Duration::from_secs(5);
pub const START_LOOK: Duration = Duration::from_millis(250);
pub const START_STOP_MAX: Duration = Duration::from_secs(10);

/// Uploads with a build: the context together, its files; a root file system; a text field.
pub const CONTEXT_BYTES_MAX: u64 = 50 * 1024 * 1024;
pub const CONTEXT_FILES_MAX: usize = 10_000;
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

/// Webhooks of one workspace, and the length of an address.
pub const WEBHOOKS_PER_WORKSPACE_MAX: u64 = 16;
pub const WEBHOOK_URL_BYTES_MAX: usize = 2048;
/// Deliveries that may wait for one webhook; later events are dropped and counted. Those that a
/// guest causes as it likes have less room, so that they never take that of the others.
pub const WEBHOOK_PENDING_MAX: u64 = 10_000;
pub const WEBHOOK_NOISE_PENDING_MAX: u64 = 1_000;
const _: () = assert!(WEBHOOK_NOISE_PENDING_MAX < WEBHOOK_PENDING_MAX, "noise must leave room");
/// What is remembered of one webhook's deliveries that ended, and of the tries of one delivery.
pub const WEBHOOK_DELIVERED_KEPT_MAX: u64 = 500;
pub const WEBHOOK_DEAD_KEPT_MAX: u64 = 1_000;
pub const WEBHOOK_ATTEMPTS_KEPT_MAX: usize = 10;
/// Deliveries in one list, and if not said.
pub const WEBHOOK_LIST_MAX: usize = 500;
pub const WEBHOOK_LIST_DEFAULT: usize = 100;

/// How long after each failure the next try comes, give or take a fifth. After the last one a
/// delivery is dead.
pub const WEBHOOK_BACKOFF: [Duration; 6] = [
    Duration::from_secs(5),
    Duration::from_secs(30),
    Duration::from_secs(120),
    Duration::from_secs(600),
    Duration::from_secs(3600),
    Duration::from_secs(6 * 3600),
];
const _: () = assert!(WEBHOOK_ATTEMPTS_KEPT_MAX > WEBHOOK_BACKOFF.len(), "every try of one round is shown");
/// How long a webhook may do nothing but fail before it is switched off.
pub const WEBHOOK_FAILING_MAX: Duration = Duration::from_secs(3 * 24 * 3600);

/// Tries at once: to one webhook, to one that fails, of one workspace, and in all.
pub const WEBHOOK_AT_ONCE_MAX: usize = 4;
pub const WEBHOOK_FAILING_AT_ONCE_MAX: usize = 1;
pub const WEBHOOK_WORKSPACE_AT_ONCE_MAX: usize = 8;
pub const WEBHOOK_ALL_AT_ONCE_MAX: usize = 128;
const _: () = assert!(
    WEBHOOK_ALL_AT_ONCE_MAX >= 8 * WEBHOOK_WORKSPACE_AT_ONCE_MAX,
    "one workspace with slow receivers must not hold up the others"
);
/// How long a receiver has: to be found, connected to and trusted; and until the head of its
/// answer.
pub const WEBHOOK_CONNECT_MAX: Duration = Duration::from_secs(5);
pub const WEBHOOK_ANSWER_MAX: Duration = Duration::from_secs(15);
const _: () = assert!(WEBHOOK_ANSWER_MAX.as_secs() < 25, "a ping must end before its client gives up");
/// How much of an answer is read, for how long, and how large its head may be. Enough to see what
/// was wrong.
pub const WEBHOOK_ANSWER_BYTES_MAX: usize = 1024;
pub const WEBHOOK_ANSWER_READ_MAX: Duration = Duration::from_secs(2);
pub const WEBHOOK_HEAD_BYTES_MAX: usize = 16 * 1024;
/// How often the outbox is looked at without being told. The wall clock may jump, so no longer wait
/// is trusted.
pub const WEBHOOK_LOOK_EVERY: Duration = Duration::from_secs(1);

/// Spans that wait to be sent to a collector; later ones are dropped and counted. How many go at
/// once, and how long the first of them waits for others.
pub const SPAN_QUEUE_MAX: usize = 4096;
pub const SPAN_BATCH_MAX: usize = 512;
pub const SPAN_DELAY: Duration = Duration::from_secs(1);
const _: () = assert!(SPAN_BATCH_MAX < SPAN_QUEUE_MAX, "while a batch is sent there is room for the next");
/// The longest text in a span.
pub const SPAN_TEXT_CHARS_MAX: usize = 1024;
/// How long a collector has for a batch, and how much of its answer is read.
pub const COLLECTOR_ANSWER_MAX: Duration = Duration::from_secs(10);
pub const COLLECTOR_ANSWER_BYTES_MAX: usize = 64 * 1024;
pub const COLLECTOR_HEAD_BYTES_MAX: usize = 16 * 1024;
/// How long after each failure the same batch is tried again; then it is dropped. A collector may
/// ask for more, up to a limit.
pub const COLLECTOR_BACKOFF: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(3), Duration::from_secs(10), Duration::from_secs(30)];
pub const COLLECTOR_WAIT_MAX: Duration = Duration::from_secs(60);
/// How long a shutdown waits for the last spans to be taken.
pub const SPAN_FLUSH_MAX: Duration = Duration::from_secs(3);
