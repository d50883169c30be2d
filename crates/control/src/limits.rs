//! Limits of the control plane. The reference page is docs/limits.md.

use std::time::Duration;

use pandastack_model::{ByteSize, PATH_RULE_BYTES_MAX, PATH_RULES_MAX};
use pandastack_wire_public::limits as public;

// The Dockerfile and image rooms do not know the public API. Their limits must fit its limits.
const _: () = {
    use pandastack_dockerfile::limits as dockerfile;
    assert!(dockerfile::VARIABLES_MAX == public::ENV_ENTRIES_MAX);
    assert!(dockerfile::VARIABLE_BYTES_MAX == public::ENV_BYTES_MAX);
    assert!(dockerfile::DOCKERFILE_BYTES_MAX == public::DOCKERFILE_BYTES_MAX);
    assert!(dockerfile::PORTS_MAX == public::DECLARED_PORTS_MAX);
    assert!(pandastack_image::limits::IMAGE_BYTES_MAX <= ROOTFS_BYTES_MAX);
};

/// Sandboxes in one workspace at the same time.
pub const SANDBOXES_PER_WORKSPACE_MAX: u64 = 1000;

/// Timeout of a create. Published clients give up after 30 s and never learn the id.
pub const CREATE_MAX: Duration = Duration::from_secs(25);
/// Sandboxes on one page of a list.
pub const SANDBOXES_LISTED_MAX: u64 = 1000;
/// Sandboxes that start at once. Others wait for their turn, each workspace in its own queue.
pub const STARTS_AT_ONCE: usize = 16;
const _: () = assert!(CREATE_MAX.as_secs() < 30, "a create must end before its client gives up");

/// How long a repeated DELETE of the same id still succeeds.
pub const DELETED_REMEMBERED: Duration = Duration::from_secs(600);

/// How long what the host has and the database never knew is kept.
pub const ORPHAN_KEPT: Duration = Duration::from_secs(7 * 24 * 3600);
/// How often the server looks for requests of the operator about it, and after which time it tries
/// again what it could not do.
pub const ORPHANS_EVERY: Duration = Duration::from_secs(1);
pub const ORPHAN_RETRY: Duration = Duration::from_secs(60);

/// Authenticated keys in the cache, and their maximum age.
pub const KEY_CACHE_ENTRIES_MAX: usize = 4096;
pub const KEY_CACHE_MAX_AGE: Duration = Duration::from_secs(30);
/// Keys with a watch on their revocation. Past this number, watches without a waiting task are
/// removed.
pub const KEY_WATCHES_MAX: usize = 4 * KEY_CACHE_ENTRIES_MAX;
/// API keys of one workspace: the number that may work, and the number of ended ones that are kept.
pub const KEYS_PER_WORKSPACE_MAX: u64 = 100;
pub const KEYS_ENDED_MAX: u64 = 1000;

/// Timeout of a health check of one component.
pub const HEALTH_MAX: Duration = Duration::from_secs(2);

/// Connections to the database in a file.
pub const DATABASE_CONNECTIONS_MAX: u32 = 4;
/// Connections to a database server.
pub const DATABASE_SERVER_CONNECTIONS_MAX: u32 = 16;
/// How long a writer waits for another writer.
pub const DATABASE_BUSY_MAX: Duration = Duration::from_secs(5);
/// How long a statement may take on a database server.
pub const DATABASE_STATEMENT_MAX: Duration = Duration::from_secs(30);

/// Timeout of pause, resume, hibernate, wake and a change of a volume. After it only the request
/// ends; the operation continues.
pub const CHANGE_MAX: Duration = Duration::from_secs(25);
/// Timeout of a fork with all its children. After it every child is removed again.
pub const FORK_MAX: Duration = Duration::from_secs(25);
/// How long a create or a fork waits for its turn to start. After it nothing was created.
pub const START_WAIT_MAX: Duration = Duration::from_secs(15);
const _: () = assert!(START_WAIT_MAX.as_secs() < FORK_MAX.as_secs(), "a fork that had to wait has time left");
const _: () = assert!(CHANGE_MAX.as_secs() < 30 && FORK_MAX.as_secs() < 30, "published clients give up after 30 s");
/// Timeout of a snapshot. Published clients wait 180 s.
pub const SNAPSHOT_MAX: Duration = Duration::from_secs(170);
const _: () = assert!(SNAPSHOT_MAX.as_secs() < 180, "a snapshot must end before its client gives up");

/// Snapshots and volumes in one workspace.
pub const SNAPSHOTS_PER_WORKSPACE_MAX: u64 = 1000;
pub const VOLUMES_PER_WORKSPACE_MAX: u64 = 1000;
/// Deleted sandboxes that one workspace keeps because they have descendants. Past this number those
/// that were deleted first are forgotten.
pub const ANCESTORS_PER_WORKSPACE_MAX: u64 = 1000;

/// Longest accepted token of a signed preview. It fits a token with the maximum number of paths.
pub const PREVIEW_TOKEN_BYTES_MAX: usize = 16 * 1024;
const _: () = assert!(
    PREVIEW_TOKEN_BYTES_MAX >= 2 * PATH_RULES_MAX * PATH_RULE_BYTES_MAX,
    "a token with as many paths as may be must be readable"
);

/// Siblings that a promotion deletes at the same time.
pub const REAPED_AT_ONCE_MAX: usize = 4;

/// Maximum number of templates in the making that are shown.
pub const PENDING_TEMPLATES_MAX: usize = 64;

/// Events kept for one sandbox, and sandboxes with kept events. The oldest are dropped.
pub const EVENTS_PER_SANDBOX_MAX: usize = 100;
pub const EVENT_SANDBOXES_MAX: usize = 16 * 1024;

/// Events kept for one workspace, and workspaces with kept events. The oldest are dropped. A
/// workspace that is followed stays, so there are more places than followers.
pub const EVENTS_PER_WORKSPACE_MAX: usize = 512;
pub const EVENT_WORKSPACES_MAX: usize = 2 * FOLLOWERS_MAX;
/// Events of one workspace in a second that guests can cause as often as they want.
pub const NOISE_EVENTS_PER_SECOND: u32 = 5;
/// Events that a list shows by default.
pub const WORKSPACE_EVENTS_LISTED: usize = 100;
/// How long one stream of a workspace's events lasts. The client then opens another one, and its
/// credential is checked again.
pub const EVENT_STREAM_MAX: Duration = Duration::from_secs(3600);

/// Event followers at the same time, and the interval of keep-alive messages on a quiet stream.
pub const FOLLOWERS_MAX: usize = 1024;
pub const KEEPALIVE: Duration = Duration::from_secs(15);

/// How long the response to a request with an idempotency key is kept.
pub const ATTEMPTS_REMEMBERED: Duration = Duration::from_secs(24 * 3600);
/// Kept responses of one workspace, in number and in bytes. The oldest are dropped.
pub const ATTEMPTS_PER_WORKSPACE_MAX: u64 = 10_000;
pub const ATTEMPT_BYTES_PER_WORKSPACE_MAX: u64 = 64 * 1024 * 1024;
const _: () = assert!(
    pandastack_door::limits::ATTEMPT_ANSWER_BYTES_MAX as u64 <= ATTEMPT_BYTES_PER_WORKSPACE_MAX,
    "the newest answer must never give way to itself"
);

/// Entries of the audit trail: maximum age, number per workspace, and number per response.
pub const AUDIT_AGE_MAX: Duration = Duration::from_secs(365 * 24 * 3600);
pub const AUDIT_ENTRIES_PER_WORKSPACE_MAX: u64 = 200_000;
pub const AUDIT_LISTED_DEFAULT: u64 = 200;
pub const AUDIT_LISTED_MAX: u64 = 1000;
/// The period that is listed unless the caller names one.
pub const AUDIT_LISTED_AGE_DEFAULT: Duration = Duration::from_secs(24 * 3600);
/// Entries of the audit trail that are read at once, and defects of a chain that a check lists.
pub const AUDIT_PAGE: u64 = 500;
pub const AUDIT_DEFECTS_LISTED_MAX: usize = 100;
/// Audit entries that wait to be written, how long a request waits for a place in that queue, and
/// how many entries one transaction writes.
pub const AUDIT_QUEUE_MAX: usize = 1024;
pub const AUDIT_WAIT_MAX: Duration = Duration::from_secs(1);
pub const AUDIT_BATCH: usize = 64;
/// How often a write of audit entries is tried, because a busy database is no reason to lose them.
pub const AUDIT_TRIES: usize = 3;
/// Audit entries written between two searches for old ones.
pub const AUDIT_PRUNE_EVERY: usize = 512;

/// Interval between two samples of all machines.
pub const SAMPLE_EVERY: Duration = Duration::from_secs(15);
/// Sandboxes and workspaces with recorded time series.
pub const SERIES_SANDBOXES_MAX: usize = 1024;
pub const SERIES_WORKSPACES_MAX: usize = 256;
/// How long a workspace without requests and boots keeps its place if others need one.
pub const SERIES_QUIET_MAX: Duration = Duration::from_secs(3600);
/// Longest time span of one query.
pub const SERIES_SPAN_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

/// Boots kept for one workspace, and workspaces with kept boots.
pub const BOOTS_PER_WORKSPACE_MAX: usize = 1000;
pub const BOOT_WORKSPACES_MAX: usize = 256;

/// Length of the queue of requests to reconcile one sandbox with the host.
pub const RECONCILE_QUEUE_MAX: usize = 256;

/// Unfinished builds of one workspace, including queued ones, and ended builds that are kept with
/// their logs.
pub const BUILDS_UNDER_WAY_MAX: u64 = 8;
pub const BUILDS_REMEMBERED_MAX: u64 = 100;
/// Builds that run at the same time; others wait. One workspace has at most two of these.
pub const BUILDS_AT_ONCE_MAX: usize = 3;
/// Timeout of a build. Published clients wait 20 minutes.
pub const BUILD_MAX: Duration = Duration::from_secs(1140);
const _: () = assert!(BUILD_MAX.as_secs() < 1200, "a build must end before its client gives up");
/// Default size of a machine that boots an uploaded root file system.
pub const BUILD_CPUS_DEFAULT: u32 = 1;
pub const BUILD_MEMORY_MIB_DEFAULT: u64 = 1024;
/// Timeout for the release of a build's resources. After it they are left to the next start.
pub const BUILD_CLEANUP_MAX: Duration = Duration::from_secs(60);
/// Idle limit of a build's machine: the host removes it even if the control plane forgot it.
pub const BUILDER_IDLE_SECONDS: u64 = 900;
/// How long a build waits for capacity for its machine, and the interval between two tries.
pub const BUILDER_ROOM_MAX: Duration = Duration::from_secs(120);
pub const BUILDER_ROOM_RETRY: Duration = Duration::from_secs(2);

/// A template's start command: how long a build waits for its port, how long it waits if there is
/// no port, the interval between two checks, and how long the command may take to end.
pub const START_READY_MAX: Duration = Duration::from_secs(60);
pub const START_SETTLE: Duration = Duration::from_secs(5);
pub const START_LOOK: Duration = Duration::from_millis(250);
pub const START_STOP_MAX: Duration = Duration::from_secs(10);

/// Uploads for a build: bytes and files of the context, and bytes of a root file system.
pub const CONTEXT_BYTES_MAX: u64 = 50 * 1024 * 1024;
pub const CONTEXT_FILES_MAX: usize = 10_000;
pub const ROOTFS_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;
/// Bytes of all uploads on disk, and of one text field of a build.
pub const SPOOL_BYTES_MAX: u64 = 4 * ROOTFS_BYTES_MAX;
pub const BUILD_FIELD_BYTES_MAX: usize = 1024 * 1024;
/// Uploads at the same time, the timeout of one upload, and how long it may send nothing.
pub const UPLOADS_AT_ONCE_MAX: usize = 4;
pub const UPLOAD_MAX: Duration = Duration::from_secs(1800);
pub const UPLOAD_QUIET_MAX: Duration = Duration::from_secs(60);
/// Files written into a build's machine at the same time.
pub const PLACED_AT_ONCE_MAX: usize = 4;

/// Longest log of a build, after which lines are dropped, and lines that wait to be written.
pub const BUILD_LOG_BYTES_MAX: u64 = 4 * 1024 * 1024;
pub const BUILD_LOG_QUEUE_MAX: usize = 256;
/// Interval of keep-alive messages on a quiet log. One client gives up after 30 s of silence.
pub const LOG_KEEPALIVE: Duration = Duration::from_secs(10);

/// Cached layers of build steps in one workspace, in number and in bytes.
pub const CACHED_LAYERS_MAX: u64 = 64;
pub const CACHED_BYTES_MAX: u64 = 8 * 1024 * 1024 * 1024;

/// Webhooks in one workspace, and the length of a webhook's address.
pub const WEBHOOKS_PER_WORKSPACE_MAX: u64 = 16;
pub const WEBHOOK_URL_BYTES_MAX: usize = 2048;
/// Deliveries that may wait for one webhook; later events are dropped and counted. Events that a
/// guest can cause at will have a lower limit, so that they never displace the others.
pub const WEBHOOK_PENDING_MAX: u64 = 10_000;
pub const WEBHOOK_NOISE_PENDING_MAX: u64 = 1_000;
const _: () = assert!(WEBHOOK_NOISE_PENDING_MAX < WEBHOOK_PENDING_MAX, "noise must leave room");
/// Ended deliveries kept for one webhook, and tries kept for one delivery.
pub const WEBHOOK_DELIVERED_KEPT_MAX: u64 = 500;
pub const WEBHOOK_DEAD_KEPT_MAX: u64 = 1_000;
pub const WEBHOOK_ATTEMPTS_KEPT_MAX: usize = 10;
/// Deliveries in one list: the maximum and the default.
pub const WEBHOOK_LIST_MAX: usize = 500;
pub const WEBHOOK_LIST_DEFAULT: usize = 100;

/// Delay after each failed try, varied by up to a fifth. After the last one a delivery is dead.
pub const WEBHOOK_BACKOFF: [Duration; 6] = [
    Duration::from_secs(5),
    Duration::from_secs(30),
    Duration::from_secs(120),
    Duration::from_secs(600),
    Duration::from_secs(3600),
    Duration::from_secs(6 * 3600),
];
const _: () = assert!(WEBHOOK_ATTEMPTS_KEPT_MAX > WEBHOOK_BACKOFF.len(), "every try of one round is shown");
/// How long all deliveries of a webhook may fail before it is disabled.
pub const WEBHOOK_FAILING_MAX: Duration = Duration::from_secs(3 * 24 * 3600);

/// Tries at the same time: to one webhook, to a failing one, of one workspace, and in total.
pub const WEBHOOK_AT_ONCE_MAX: usize = 4;
pub const WEBHOOK_FAILING_AT_ONCE_MAX: usize = 1;
pub const WEBHOOK_WORKSPACE_AT_ONCE_MAX: usize = 8;
pub const WEBHOOK_ALL_AT_ONCE_MAX: usize = 128;
const _: () = assert!(
    WEBHOOK_ALL_AT_ONCE_MAX >= 8 * WEBHOOK_WORKSPACE_AT_ONCE_MAX,
    "one workspace with slow receivers must not hold up the others"
);
/// Timeouts of a receiver: for name lookup, connection and TLS, and for the head of its response.
pub const WEBHOOK_CONNECT_MAX: Duration = Duration::from_secs(5);
pub const WEBHOOK_ANSWER_MAX: Duration = Duration::from_secs(15);
const _: () = assert!(WEBHOOK_ANSWER_MAX.as_secs() < 25, "a ping must end before its client gives up");
/// How many bytes of a response are read, for how long, and the maximum size of its head. This is
/// enough to see the error.
pub const WEBHOOK_ANSWER_BYTES_MAX: usize = 1024;
pub const WEBHOOK_ANSWER_READ_MAX: Duration = Duration::from_secs(2);
pub const WEBHOOK_HEAD_BYTES_MAX: usize = 16 * 1024;
/// Interval between two checks of the outbox without a notification. The wall clock may jump, so
/// longer waits are not safe.
pub const WEBHOOK_LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long the server that delivers events keeps this work without a sign of life.
pub const WEBHOOK_LEASE: Duration = Duration::from_secs(30);
/// How often a lease is renewed within its length.
pub const LEASE_RENEWALS: u64 = 6;
const _: () = assert!(
    WEBHOOK_CONNECT_MAX.as_secs() + WEBHOOK_ANSWER_MAX.as_secs() + WEBHOOK_ANSWER_READ_MAX.as_secs()
        < WEBHOOK_LEASE.as_secs() - WEBHOOK_LEASE.as_secs() / LEASE_RENEWALS,
    "a delivery ends before another server may start it again"
);

/// How long the server with the host keeps other hosts from its database without a sign of life,
/// and how often it gives one.
pub const HOST_LEASE: Duration = Duration::from_secs(60);
pub const HOST_LEASE_EVERY: Duration = Duration::from_secs(20);
/// How long a server counts as running without a sign of life, how often it gives one, and when it
/// tries again after a failure. Leases of ended servers are removed after a while.
pub const SERVER_LEASE: Duration = Duration::from_secs(60);
pub const SERVER_LEASE_EVERY: Duration = Duration::from_secs(20);
pub const SERVER_LEASE_RETRY: Duration = Duration::from_secs(2);
pub const SERVER_LEASE_KEPT: Duration = Duration::from_secs(3600);
/// How long a shutdown waits until the lease is removed.
pub const SERVER_LEASE_DROP_MAX: Duration = Duration::from_secs(2);
/// How often in a row a server must be found without a lease before others finish its requests, and
/// how many such servers are found at once.
pub const ENDED_LOOKS: u32 = 3;
pub const ENDED_SERVERS_MAX: u64 = 100;

/// Spans that wait to be sent to a collector; later ones are dropped and counted. Then the spans
/// in one batch, and how long the first of them waits for others.
pub const SPAN_QUEUE_MAX: usize = 4096;
pub const SPAN_BATCH_MAX: usize = 512;
pub const SPAN_DELAY: Duration = Duration::from_secs(1);
const _: () = assert!(SPAN_BATCH_MAX < SPAN_QUEUE_MAX, "while a batch is sent there is room for the next");
/// Longest text in a span.
pub const SPAN_TEXT_CHARS_MAX: usize = 1024;
/// Timeout of a collector for one batch, and how many bytes of its response are read.
pub const COLLECTOR_ANSWER_MAX: Duration = Duration::from_secs(10);
pub const COLLECTOR_ANSWER_BYTES_MAX: usize = 64 * 1024;
pub const COLLECTOR_HEAD_BYTES_MAX: usize = 16 * 1024;
/// Delay after each failed try of a batch. After the last one the batch is dropped. A collector may
/// ask for a longer delay, up to the maximum.
pub const COLLECTOR_BACKOFF: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(3), Duration::from_secs(10), Duration::from_secs(30)];
pub const COLLECTOR_WAIT_MAX: Duration = Duration::from_secs(60);
/// How long a shutdown waits until the last spans are sent.
pub const SPAN_FLUSH_MAX: Duration = Duration::from_secs(3);

/// How long a login lasts, and logins of one user. Past this number the oldest end.
pub const SESSION_AGE_MAX: Duration = Duration::from_secs(30 * 24 * 3600);
pub const SESSIONS_PER_USER_MAX: u64 = 50;
/// How long a one-time link logs in, and links that are open at the same time.
pub const LINK_AGE_MAX: Duration = Duration::from_secs(15 * 60);
pub const LINKS_OPEN_MAX: usize = 1024;
/// Bytes of the name of a client program that are kept with a login.
pub const AGENT_BYTES_MAX: usize = 200;
/// Accounts that the operator's list shows.
pub const ACCOUNTS_LISTED_MAX: u64 = 10_000;
/// How long a link to reset a password works.
pub const RESET_AGE_MAX: Duration = Duration::from_secs(24 * 3600);
/// Letters with a reset link to one user, and letters with invites by one user. Further ones are
/// not sent.
pub const RESET_LETTERS_PER_HOUR: u32 = 3;
pub const INVITE_LETTERS_PER_HOUR: u32 = 50;
/// Users whose letters are counted, and requests for a reset link that are worked on at once.
pub const LETTER_COUNTS_MAX: usize = 10_000;
pub const RESETS_AT_ONCE: usize = 64;
/// Owners and admins of an organisation who get an alert about its budget.
pub const ALERT_LETTERS_MAX: u64 = 50;
/// Failed logins from one address before the first delay. Many people may share an address.
pub const LOGIN_ADDRESS_FAILURES_FREE: u32 = 20;
/// Time for an answer of the identity provider.
pub const PROVIDER_MAX: Duration = Duration::from_secs(10);
/// Logins at the identity provider that have begun, and how long the code at their end works.
pub const OIDC_LOGINS_MAX: u64 = 10_000;
pub const LOGIN_CODE_AGE_MAX: Duration = Duration::from_secs(60);
/// Longest address that a browser is sent to after a login.
pub const REDIRECT_BYTES_MAX: usize = 500;

/// Longest id of an organisation in a header.
pub const ORG_ID_BYTES_MAX: usize = 64;
/// Organisations that one user may own.
pub const ORGS_PER_OWNER_MAX: u64 = 100;
/// How long an invite works, and open invites of one organisation.
pub const INVITE_AGE_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
pub const INVITES_PER_ORG_MAX: u64 = 1000;

/// How often each server looks for revocations of other servers, and how long they are kept.
pub const REVOCATIONS_EVERY: Duration = Duration::from_millis(400);
pub const REVOCATIONS_AGE_MAX: Duration = Duration::from_secs(3600);
const _: () = assert!(REVOCATIONS_EVERY.as_millis() <= 500, "a revocation counts on every server within a second");
/// How often expired logins and links are removed, and removals of organisations are tried again.
pub const ACCESS_PRUNE_EVERY: Duration = Duration::from_secs(60);

/// How often usage is read from the host and counted, and events are posted to Stripe.
pub const METERING_EVERY: Duration = Duration::from_secs(60);
/// How long the server that does this work keeps it without a sign of life.
pub const METERING_LEASE: Duration = Duration::from_secs(150);
/// Facts that are read and stored at once, and subjects that are counted at once.
pub const USAGE_FACTS_BATCH: usize = 500;
pub const USAGE_COUNT_BATCH: u64 = 100;
/// How long an hour of usage may still change.
pub const USAGE_SETTLED_AFTER: Duration = Duration::from_secs(6 * 3600);
/// How long usage is kept.
pub const USAGE_KEPT: Duration = Duration::from_secs(400 * 24 * 3600);
/// Days and rows of one report.
pub const USAGE_REPORT_DAYS_MAX: u64 = 366;
pub const USAGE_REPORT_ROWS_MAX: u64 = 10_000;
/// How long a claimed meter event is left to the server that claimed it.
pub const METER_CLAIM: Duration = Duration::from_secs(120);
/// Meter events that are posted in one turn of the worker.
pub const METER_POSTS_MAX: usize = 500;
/// How long ids of applied events of Stripe are kept. Stripe repeats an event for three days.
pub const STRIPE_EVENTS_KEPT: Duration = Duration::from_secs(35 * 24 * 3600);
/// Largest budget of a month, in dollars.
pub const BUDGET_USD_MAX: f64 = 1_000_000_000.0;
/// Sandboxes of a workspace that are put to sleep at once when its budget is used up.
pub const CAP_SLEEPS_AT_ONCE: usize = 4;
/// Workspaces whose sandboxes are put to sleep at once, and how many more wait for that. Others are
/// found again in the next turn of the worker.
pub const HELD_AT_ONCE: usize = 8;
pub const HELD_WAITING_MAX: usize = 1024;

/// How long a session in the machine of a database may take to set a password. A statement in it
/// ends before.
pub const DATABASE_SESSION_MAX: Duration = Duration::from_secs(10);

/// Size of the volume of a new database. It takes space only as it is written.
pub const DATABASE_VOLUME: ByteSize = ByteSize::gib(5);
/// Idle time after which a database sleeps.
pub const DATABASE_IDLE_SECONDS: u64 = 300;
/// Time to make an empty cluster, which happens once for each template.
pub const DATABASE_INIT_MAX: Duration = Duration::from_secs(300);
/// How often templates of databases are looked for that were baked while this server runs.
pub const DATABASE_PREPARE_LOOK: Duration = Duration::from_secs(5);
/// Pause after a first failure to prepare one, and the longest pause. It doubles with each failure.
pub const DATABASE_PREPARE_RETRY: Duration = Duration::from_secs(60);
pub const DATABASE_PREPARE_RETRY_MAX: Duration = Duration::from_secs(1800);
/// How long such work waits at most until no user's sandbox starts.
pub const DATABASE_PREPARE_QUIET_MAX: Duration = Duration::from_secs(60);
/// Time to start a server that may have to recover, and to stop one.
pub const DATABASE_START_MAX: Duration = Duration::from_secs(600);
/// Time to restore a database from its archive.
pub const DATABASE_RESTORE_MAX: Duration = Duration::from_secs(6 * 3600);
/// Time to check a restored database.
pub const DATABASE_CHECK_MAX: Duration = Duration::from_secs(3600);
/// Time to take a base backup.
pub const DATABASE_BACKUP_MAX: Duration = Duration::from_secs(6 * 3600);
/// Age of the newest base backup at which another one is taken.
pub const DATABASE_BACKUP_AGE: Duration = Duration::from_secs(24 * 3600);
/// Time after which a backup that failed is tried again, and how many run at once.
pub const DATABASE_BACKUP_RETRY: Duration = Duration::from_secs(15 * 60);
pub const DATABASE_BACKUPS_AT_ONCE: usize = 2;
/// How long work waits for the archive right after the server's start.
pub const DATABASE_ARCHIVE_SET_MAX: Duration = Duration::from_secs(10);
/// Time to compare two schemas line by line; after it the diff is coarser.
pub const DATABASE_DIFF_MAX: Duration = Duration::from_secs(2);
/// Base backups that are kept at least, and for how long all of them are kept.
pub const DATABASE_BACKUPS_MIN: usize = 2;
pub const DATABASE_BACKUPS_AGE: Duration = Duration::from_secs(7 * 24 * 3600);
/// How long ago the time of a clone must be: what happened later may not be archived yet.
pub const DATABASE_CLONE_DELAY: Duration = Duration::from_secs(120);
/// How long a database that is put to sleep stays awake until the last of its log is stored.
pub const DATABASE_SLEEP_ARCHIVE_WAIT: Duration = Duration::from_secs(5);
/// How long a clone of the latest state waits for the last of the log.
pub const DATABASE_ARCHIVE_WAIT: Duration = Duration::from_secs(30);
/// Pause between looks at databases: dead ones, full volumes, backups that are due.
pub const DATABASE_LOOK_PAUSE: Duration = Duration::from_secs(15);
/// Databases that are looked at at the same time.
pub const DATABASE_LOOKS_AT_ONCE: usize = 8;
/// Restore drills that run at the same time: nobody pays for their machines.
pub const DATABASE_DRILLS_AT_ONCE: usize = 2;
/// What an errand may take beyond its time, before its connection is given up.
pub const DATABASE_ERRAND_GRACE: Duration = Duration::from_secs(30);
/// Least time between two looks at the volume of one database.
pub const DATABASE_VOLUME_LOOK: Duration = Duration::from_secs(60);
/// Percent of a volume at which it grows, and the most that it grows to.
pub const DATABASE_VOLUME_FULL_PERCENT: u64 = 80;
pub const DATABASE_VOLUME_MAX: ByteSize = ByteSize::gib(100);
/// Space of the host that growing databases leave to others.
pub const DATABASE_HOST_FREE: ByteSize = ByteSize::gib(10);
/// How often users are told that a volume is nearly full and cannot grow.
pub const DATABASE_FULL_TOLD: Duration = Duration::from_secs(3600);
/// Restarts of a database that keeps dying, in an hour. After them it stays failed.
pub const DATABASE_RESTARTS_MAX: usize = 3;
/// Time for one errand in a database's machine.
pub const DATABASE_ERRAND_MAX: Duration = Duration::from_secs(60);
/// Bytes kept of what an errand prints.
pub const DATABASE_OUTPUT_BYTES_MAX: usize = 1 << 20;
/// Lines of a database's log that one request may ask for.
pub const DATABASE_LOG_LINES: std::ops::RangeInclusive<u32> = 10..=2000;
pub const DATABASE_LOG_LINES_DEFAULT: u32 = 300;
