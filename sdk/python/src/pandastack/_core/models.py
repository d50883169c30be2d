# Written by `cargo xtask sdk` from docs/openapi.json. Do not edit.
"""The objects of the API, as they are on the wire."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

__all__ = [
    "AcceptedInvite",
    "ApiKey",
    "ApiKeys",
    "AskReset",
    "Audit",
    "AuditEntry",
    "AuditTrail",
    "BackupDrill",
    "Bill",
    "BilledSubscription",
    "BillingPage",
    "BootBucket",
    "BootSample",
    "BootStats",
    "BranchDatabase",
    "BranchDiff",
    "Build",
    "BuyPlan",
    "CellResult",
    "Change",
    "ChangeDatabase",
    "ChangeMember",
    "ChangePassword",
    "ChangeWebhook",
    "Changed",
    "Chmod",
    "CloneDatabase",
    "CodeSession",
    "CreateApiKey",
    "CreateDatabase",
    "CreateInvite",
    "CreateOrg",
    "CreateSandbox",
    "CreateVolume",
    "CreateWebhook",
    "CurrentOrg",
    "CurrentOrgRequest",
    "DatabaseArchive",
    "DatabaseBackup",
    "DatabaseBackups",
    "DatabaseConnection",
    "DatabaseLogs",
    "DatabasePreparation",
    "DatabaseStats",
    "DatabaseWake",
    "DeclarePort",
    "Delivery",
    "DeliveryAttempt",
    "DirListing",
    "EgressList",
    "Entry",
    "ErrorBody",
    "Event",
    "EventList",
    "EventPlace",
    "ExchangeCode",
    "ExecChunk",
    "ExecExit",
    "ExecFailure",
    "ExecRequest",
    "ExecResponse",
    "ExportedAuditEntry",
    "FamilyTree",
    "Fed",
    "FileDiff",
    "FollowedChunk",
    "FollowedExit",
    "Fork",
    "ForkFailure",
    "ForkRequest",
    "ForkTree",
    "GrowVolume",
    "Health",
    "InviteInfo",
    "Lifecycle",
    "LogIn",
    "LogLine",
    "LoggedIn",
    "LoginMethods",
    "LoginSession",
    "LostOutput",
    "MachineMetrics",
    "MakeDir",
    "ManagedDatabase",
    "ManagedDatabaseList",
    "Me",
    "MeterFlush",
    "MetricSeries",
    "MovePath",
    "NodeCost",
    "OpenSession",
    "Org",
    "OrgInvite",
    "OrgMember",
    "OutputChunk",
    "Ping",
    "Port",
    "Preview",
    "PreviewRequest",
    "Pricing",
    "PricingTier",
    "Process",
    "ProcessOutput",
    "PromoteRequest",
    "Promotion",
    "QuotaLimits",
    "Quotas",
    "QuotasUsed",
    "RanOnce",
    "RefusedPath",
    "Register",
    "RenameOrg",
    "ResetPassword",
    "RestoreWindow",
    "RotateSecret",
    "RunCell",
    "RunOnce",
    "RunningProgram",
    "Sandbox",
    "SchemaDiff",
    "SetEgress",
    "SetLifecycle",
    "SetUp",
    "SignInLink",
    "SignalRequest",
    "Snapshot",
    "SnapshotList",
    "SpawnRequest",
    "Status",
    "Template",
    "TransferOrg",
    "TreeNode",
    "Unpacked",
    "UsageRates",
    "UsageReport",
    "UsageRow",
    "UseLink",
    "VerifyBackup",
    "Version",
    "Volume",
    "VolumeAttachment",
    "VolumeAttachmentRequest",
    "WatchNote",
    "Webhook",
    "WorkspaceBudget",
    "WorkspaceBudgetRequest",
    "WorkspaceEvent",
    "WorkspaceEvents",
    "Written",
]


class AcceptedInvite(TypedDict):
    """What an accepted invite gave."""

    org_id: str
    role: str


class _ApiKeyRequired(TypedDict):
    created_at: str
    # The id of the key that created this one, or `operator` if it was created on the server.
    created_by: str
    # Whether it is the key of this request.
    current: bool
    id: str
    # The start of the key, which may be shown.
    prefix: str


class ApiKey(_ApiKeyRequired, total=False):
    """An API key."""

    expires_at: str
    label: str
    # When it was last used, accurate to half a minute.
    last_used_at: str
    # The whole key. Only present in the response that creates it.
    token: str


class ApiKeys(TypedDict):
    """A list of API keys."""

    items: list[ApiKey]


class AskReset(TypedDict, total=False):
    """Asks for a reset link by e-mail."""

    email: str


class Audit(TypedDict):
    """The result of a host audit: counts of everything that is accounted for, and every leak."""

    disks: int
    layers: int
    # One text for each resource that has no owner, or that is recorded but missing.
    leaks: list[str]
    machines: int
    # Leaks that this audit removed.
    repaired: list[str]
    slots: int
    volumes: int


class _AuditEntryRequired(TypedDict):
    duration_ms: int
    # The id in exports.
    entry: str
    # The same as `number`. 0 for entries of old servers.
    id: int
    # The start of the key that was used. Empty for a person.
    key_prefix: str
    method: str
    # The path without its query.
    path: str
    request_id: str
    # The route's pattern, such as `/v1/sandboxes/{id}`.
    route: str
    # The answer. 499 if the client hung up before it.
    status: int
    # When the request arrived.
    ts: str
    workspace: str


class AuditEntry(_AuditEntryRequired, total=False):
    """One changing request of the caller's workspace. The request body is not recorded."""

    # Who sent the request: `user:` and an id, or `key:` and the start of a key.
    actor: str
    # The e-mail address of a person.
    actor_email: str
    # The network address of the client.
    address: str
    # The place in the workspace's hash chain. Entries of old servers have none.
    number: int


class AuditTrail(TypedDict):
    """A list of audit entries, newest first."""

    entries: list[AuditEntry]
    # Start of the listed period.
    since: str


class _BackupDrillRequired(TypedDict):
    # RFC 3339.
    started_at: str
    # `running`, `passed` or `failed`.
    status: str


class BackupDrill(_BackupDrillRequired, total=False):
    """A restore drill: a backup is restored in a scratch machine and checked."""

    # The base backup that it started from.
    backup: str
    # Bytes of the restored databases.
    db_size_bytes: int
    error: str
    finished_at: str
    # Tables and indexes whose structure was checked.
    relations_checked: int
    target_time: str


class Bill(TypedDict):
    """What a workspace used and costs in this calendar month (UTC)."""

    # Whether the server is connected to Stripe.
    billing_enabled: bool
    budget: WorkspaceBudget | None
    # The plan's credit for a month, and how much of it is used.
    credit_usd: float
    credit_used_usd: float
    # Why nothing new may start: `billing.budget` or `billing.unpaid`. Null if it may.
    hold: str | None
    # The same as text.
    hold_reason: str | None
    meter_events_dead: int
    # Hours of usage that are not yet posted to Stripe, and those that need the operator.
    meter_events_pending: int
    # What is charged: cost minus credit.
    mtd_charged_usd: float
    # All usage of the month so far, storage included.
    mtd_cost_usd: float
    mtd_memory_cost_usd: float
    mtd_memory_gib_seconds: float
    # Only storage above the amount that the plan includes.
    mtd_storage_cost_usd: float
    mtd_storage_gib_seconds: float
    mtd_vcpu_cost_usd: float
    mtd_vcpu_seconds: float
    period_end: str
    # First and last day of the month.
    period_start: str
    plan: str
    # Null without a subscription.
    subscription: BilledSubscription | None
    workspace: str


class BilledSubscription(TypedDict):
    """A subscription at Stripe."""

    cancel_at_period_end: bool
    # When an unpaid subscription makes the workspace read-only.
    grace_until: str | None
    # End of the paid period.
    period_end: str | None
    plan: str | None
    # Stripe's word, such as `active` or `past_due`.
    status: str


class BillingPage(TypedDict):
    """A page at Stripe for a browser."""

    url: str


class BootBucket(TypedDict):
    """A summary of boot times, in milliseconds."""

    count: int
    max_ms: int
    mean_ms: float
    min_ms: int
    p50_ms: int
    p90_ms: int
    p99_ms: int


class BootSample(TypedDict):
    """One boot."""

    boot_mode: str
    boot_ms: int
    sandbox_id: str
    template: str
    time: str
    # The same as `time`.
    ts: str


class BootStats(TypedDict):
    """Boot times of recent sandboxes."""

    by_mode: dict[str, BootBucket]
    by_template: dict[str, BootBucket]
    overall: BootBucket
    # The last boots, newest first.
    recent: list[BootSample]
    total_samples: int
    # Time from the oldest sample until now.
    window_seconds: int


class BranchDatabase(TypedDict, total=False):
    """Branches a database."""

    label: str | None


class BranchDiff(TypedDict):
    """The answer to a comparison of two sandboxes."""

    # By path. A changed folder is listed only if its kind or its permissions differ.
    files: list[FileDiff]
    # The folders that were compared.
    paths: list[str]
    # Processes of the sandbox that the other one does not have.
    processes: list[RunningProgram]
    sandbox_id: str
    # Whether there are more files than were compared or are listed.
    truncated: bool
    # The other sandbox.
    with_id: str
    # Processes of the other sandbox that this one does not have.
    with_processes: list[RunningProgram]


class _BuildRequired(TypedDict):
    id: str
    name: str
    size_mb: int
    started_at: str
    # `queued`, `running`, `baking`, then `done` or `failed`.
    status: str


class Build(_BuildRequired, total=False):
    """One build of a template."""

    # Size of the upload in bytes.
    bytes: int
    cpu: int
    ended_at: str
    # Why the build failed, with the name of the failed step.
    error: str
    image_ref: str
    memory_mb: int


class _BuyPlanRequired(TypedDict):
    # `pro` or `team`.
    plan: str


class BuyPlan(_BuyPlanRequired, total=False):
    """Asks for a page at Stripe to buy a plan."""

    # `month` (default) or `year`.
    interval: str | None


class _CellResultRequired(TypedDict):
    duration_ms: int
    exit: int
    # The same as `exit`, under the name that commands use.
    exit_code: int
    results: list[dict[str, str]]
    stderr: str
    stdout: str


class CellResult(_CellResultRequired, total=False):
    """The result of a cell."""

    # The traceback, if the code raised an exception.
    error: str
    # Whether the session's kernel was restarted. The state of earlier cells is then lost.
    restarted: bool
    # Whether output beyond the limit was dropped. The text then ends with a line that says so.
    truncated: bool


class _ChangeRequired(TypedDict):
    is_dir: bool
    path: str
    # `created`, `modified`, `written` (closed after writing), `deleted`, `moved_from`, `moved_to`,
    # `attributes`.
    type: str


class Change(_ChangeRequired, total=False):
    """Data of a `change` event."""

    # The same number in both events of a move.
    cookie: int


class ChangeDatabase(TypedDict, total=False):
    """Changes a database."""

    always_on: bool | None


class ChangeMember(TypedDict, total=False):
    """Changes the role of a member."""

    role: str


class ChangePassword(TypedDict, total=False):
    """Changes the caller's password. All other sessions end."""

    # For our own pages: answer with a session cookie instead of a token. Needs the header
    # `x-pandastack-csrf: 1`.
    cookie: bool
    current_password: str
    new_password: str


class ChangeWebhook(TypedDict, total=False):
    """Changes a webhook. Missing fields keep their value."""

    description: str | None
    enabled: bool | None
    events: list[str] | None
    url: str | None


class Changed(TypedDict):
    """The result of a change to a path."""

    path: str


class _ChmodRequired(TypedDict):
    # Octal digits as text, such as `"0755"`.
    mode: str
    path: str


class Chmod(_ChmodRequired, total=False):
    """Sets permission bits."""

    # Whether to apply them to everything below the path too.
    recursive: bool


class CloneDatabase(TypedDict, total=False):
    """Clones a database."""

    label: str | None
    # `1g`, `4g` or `16g`; without it the size of the source.
    size: str | None
    # RFC 3339; without it the latest that is archived.
    target_time: str | None


class CodeSession(TypedDict):
    """A code session. It keeps its state between cells."""

    # Number of cells that were started.
    cells: int
    created_at: str
    id: str
    language: str
    sandbox_id: str
    # The same as `id`, under the name that the documentation uses.
    session_id: str


class CreateApiKey(TypedDict, total=False):
    """Creates an API key."""

    # The key expires after this many days. Without it the key never expires.
    expires_in_days: int | None
    # What the key is for.
    label: str | None


class CreateDatabase(TypedDict, total=False):
    """Creates a database."""

    always_on: bool | None
    # Accepted; the template decides.
    cpu: int | None
    label: str | None
    # Accepted; the template decides.
    memory_mb: int | None
    # `1g`, `4g` or `16g`.
    size: str | None


class CreateInvite(TypedDict, total=False):
    """Invites somebody to an organisation."""

    email: str
    # `member` (the default) or `admin`.
    role: str | None


class CreateOrg(TypedDict, total=False):
    """Creates an organisation."""

    name: str
    # Made from the name if it is absent.
    slug: str | None


class CreateSandbox(TypedDict, total=False):
    """Creates a sandbox. Other fields, such as `cpu`, are ignored, because the template defines the
    size.
    """

    # Host names, `*.suffix` or IPv4 networks. An empty list allows nothing.
    egress_allowlist: list[str] | None
    egress_mbps: int | None
    # Environment variables of every process in the sandbox.
    env: dict[str, str] | None
    # The snapshot to start from. It overrides `template`, which published clients always send.
    from_snapshot: str | None
    # Text keys with text values. Other values are refused.
    metadata: dict[str, str] | None
    persistent: bool | None
    template: str | None
    ttl_seconds: int | None
    volumes: list[VolumeAttachmentRequest] | None


class _CreateVolumeRequired(TypedDict):
    name: str


class CreateVolume(_CreateVolumeRequired, total=False):
    """Creates a volume."""

    size_mb: int | None


class _CreateWebhookRequired(TypedDict):
    events: list[str]
    url: str


class CreateWebhook(_CreateWebhookRequired, total=False):
    """Creates a webhook."""

    description: str | None
    enabled: bool | None


class CurrentOrg(TypedDict):
    """Chooses the organisation that later requests act in."""

    org_id: str


class CurrentOrgRequest(TypedDict, total=False):
    """Chooses the organisation that later requests act in."""

    org_id: str


class _DatabaseArchiveRequired(TypedDict):
    # `ok`, `behind`, `failing` or `off`.
    health: str
    pending_bytes: int
    # Segments that are on this host but not yet in the store.
    pending_segments: int


class DatabaseArchive(_DatabaseArchiveRequired, total=False):
    """State of the archive of a database's write-ahead log."""

    error: str
    # RFC 3339.
    last_archived_at: str
    last_segment: str


class DatabaseBackup(TypedDict):
    """A base backup. It was verified when it was taken."""

    name: str
    size_bytes: int
    # RFC 3339.
    taken_at: str


class _DatabaseBackupsRequired(TypedDict):
    archive: DatabaseArchive
    count: int
    # Base backups, newest first.
    items: list[DatabaseBackup]


class DatabaseBackups(_DatabaseBackupsRequired, total=False):
    """What a database could be restored from."""

    # The last restore drill.
    drill: BackupDrill
    # The database can be cloned as of any second in it. None before the first backup.
    window: RestoreWindow


class DatabaseConnection(TypedDict):
    """How to connect to a database."""

    broker_token: str
    broker_url: str
    connection_url: str


class DatabaseLogs(TypedDict):
    """The last lines of the server's log."""

    logs: str


class _DatabasePreparationRequired(TypedDict):
    # The state of such a preparation. `waiting`: it begins soon.
    status: Literal["waiting", "preparing", "ready", "failed"]


class DatabasePreparation(_DatabasePreparationRequired, total=False):
    """How far the server is with the machine that databases of a template start from. It makes that
    machine once for each bake, in the background.
    """

    # Why the last attempt failed.
    error: str
    # When the server tries again.
    next_try_at: str
    # When the attempt that runs began.
    since: str


class _DatabaseStatsRequired(TypedDict):
    # From 0 to 1.
    cache_hit_ratio: float
    connections: int
    db_size_bytes: int
    disk_avail_bytes: int
    disk_size_bytes: int
    disk_used_bytes: int
    # From 0 to 100.
    disk_used_pct: float
    max_connections: int
    uptime_seconds: int


class DatabaseStats(_DatabaseStatsRequired, total=False):
    """Figures of a running database."""

    postgres_version: str


class DatabaseWake(TypedDict):
    """The start of a wake."""

    id: str
    status: str


class _DeclarePortRequired(TypedDict):
    port: int


class DeclarePort(_DeclarePortRequired, total=False):
    """Declares a port."""

    label: str | None


class _DeliveryRequired(TypedDict):
    # The last attempts, oldest first.
    attempts: list[DeliveryAttempt]
    created_at: str
    # The body that is sent.
    event: dict[str, Any]
    event_id: str
    id: str
    sequence: int
    # `pending`, `failed` (to be retried), `delivered` or `dead`.
    status: str
    type: str
    webhook_id: str


class Delivery(_DeliveryRequired, total=False):
    """The delivery of one event to one webhook."""

    finished_at: str
    next_attempt_at: str


class _DeliveryAttemptRequired(TypedDict):
    at: str
    latency_ms: int


class DeliveryAttempt(_DeliveryAttemptRequired, total=False):
    """One attempt to deliver an event."""

    # The start of the receiver's response body.
    answer: str
    # Why the attempt failed.
    error: str
    # The status of the receiver's response.
    status: int


class _DirListingRequired(TypedDict):
    entries: list[Entry]
    path: str


class DirListing(_DirListingRequired, total=False):
    """The answer to a directory listing."""

    # Whether a recursive listing is incomplete.
    truncated: bool


class EgressList(TypedDict):
    """A sandbox's egress allowlist. Null means no list: the sandbox may reach everything that the
    host allows.
    """

    egress_allowlist: list[str] | None


class _EntryRequired(TypedDict):
    # False for a link to a directory.
    is_dir: bool
    # One letter: `f` file, `d` directory, `l` link, `o` anything else.
    mode: str
    # Unix seconds.
    mtime: int
    name: str
    path: str
    size: int


class Entry(_EntryRequired, total=False):
    """One file or directory."""

    # Permission bits in octal, such as `0644`.
    permissions: str
    # The target of a link.
    target: str


class _ErrorBodyRequired(TypedDict):
    code: str
    error: str
    request_id: str


class ErrorBody(_ErrorBodyRequired, total=False):
    """The body of every error. It is flat, because the published clients need `error` to be a
    string.
    """

    detail: str
    # The workspace that sent too many requests. Only in a refusal by the rate limit.
    workspace: str


class Event(TypedDict):
    """One event. `time` and `ts` are the same, and so are `payload` and `metadata`."""

    metadata: dict[str, Any]
    payload: dict[str, Any]
    sandbox_id: str
    time: str
    ts: str
    # The kind, such as `sandbox.paused` or `egress.denied`.
    type: str


class EventList(TypedDict):
    """A list of events, oldest first."""

    events: list[Event]


class EventPlace(TypedDict):
    """A place in a stream of events."""

    cursor: str


class ExchangeCode(TypedDict, total=False):
    """Exchanges the code of a login at an identity provider for a session."""

    code: str
    # For our own pages: answer with a session cookie instead of a token. Needs the header
    # `x-pandastack-csrf: 1`.
    cookie: bool
    # The text whose SHA-256 was the `challenge` of the login.
    verifier: str


class ExecChunk(TypedDict):
    """Data of a `stdout` or `stderr` event."""

    chunk: str


class ExecExit(TypedDict):
    """Data of the `exit` event."""

    exit_code: int


class ExecFailure(TypedDict):
    """Data of the `error` event."""

    error: str


class ExecRequest(TypedDict, total=False):
    """Runs a command. `cmd` is a shell command line. `argv` is a program with its arguments, run
    without a shell.
    """

    argv: list[str] | None
    cmd: str | None
    cwd: str | None
    env: dict[str, str] | None
    # Text for standard input, which is then closed.
    stdin: str | None
    # The command is ended after this many seconds. Missing or zero means no limit.
    timeout_seconds: float | None
    user: str | None


class _ExecResponseRequired(TypedDict):
    duration_ms: int
    exit_code: int
    stderr: str
    stdout: str


class ExecResponse(_ExecResponseRequired, total=False):
    """The result of a command."""

    # Whether output beyond the limit was dropped. The text then ends with a line that says so.
    truncated: bool


class _ExportedAuditEntryRequired(TypedDict):
    # When the request arrived, in nanoseconds since 1970. Text, because it exceeds the exact
    # numbers of many programs.
    at_ns: str
    duration_ms: int
    hash: str
    id: str
    # The start of the key that was used. Empty for a person.
    key_prefix: str
    method: str
    # The path without its query.
    path: str
    # The hash of the entry before. Empty for the first one.
    previous_hash: str
    request_id: str
    # The route's pattern, such as `/v1/sandboxes/{id}`.
    route: str
    # The answer. 499 if the client hung up before it.
    status: int
    # When the request arrived.
    ts: str
    workspace: str


class ExportedAuditEntry(_ExportedAuditEntryRequired, total=False):
    """One line of an export: an audit entry with what is needed to check the hash chain."""

    # Who sent the request: `user:` and an id, or `key:` and the start of a key.
    actor: str
    # The e-mail address of a person.
    actor_email: str
    # The network address of the client.
    address: str
    # The place in the workspace's hash chain. Entries of old servers have none.
    number: int


class FamilyTree(TypedDict):
    """All related sandboxes, starting with the oldest known ancestor. Parents come before their
    children.
    """

    nodes: list[TreeNode]
    root_id: str
    sandbox_id: str


class Fed(TypedDict):
    """The result of a write to standard input."""

    bytes: int


class _FileDiffRequired(TypedDict):
    # `added` if only the other sandbox has it, `removed` if only this one has it, or `changed`.
    change: str
    # One letter, as in listings: `f` file, `d` directory, `l` link, `o` anything else.
    mode: str
    path: str


class FileDiff(_FileDiffRequired, total=False):
    """A file that two sandboxes do not share."""

    # The size here, unless it was added.
    size: int
    # The size in the other sandbox, unless it was removed.
    with_size: int


class FollowedChunk(TypedDict):
    """Data of a `stdout` or `stderr` event of a followed process."""

    chunk: str
    # The offset after this chunk.
    offset: int


class _FollowedExitRequired(TypedDict):
    exit_code: int
    offset: int
    status: str


class FollowedExit(_FollowedExitRequired, total=False):
    """Data of the `exit` event of a followed process."""

    timed_out: bool


class _ForkRequired(TypedDict):
    at: str
    children: list[Sandbox]
    parent_id: str
    sandbox: Sandbox
    snapshot_id: str


class Fork(_ForkRequired, total=False):
    """The result of a fork. `sandbox` is the first child."""

    errors: list[ForkFailure]


class ForkFailure(TypedDict):
    """Why one child could not be created."""

    err: str
    index: int


class ForkRequest(TypedDict, total=False):
    """Forks a sandbox."""

    count: int | None
    metadata: dict[str, str] | None


class ForkTree(TypedDict):
    """The result of a fork tree. `children` lists only the children that run. The others are under
    `errors`.
    """

    at: str
    children: list[Sandbox]
    errors: list[ForkFailure]
    parent_id: str
    snapshot_id: str
    tree_id: str


class GrowVolume(TypedDict):
    """Grows a volume."""

    size_mb: int | None


class Health(TypedDict):
    """Whether the server works. `status` is `ok` or `unhealthy`."""

    # Every checked part with its result.
    checks: dict[str, str]
    status: str


class InviteInfo(TypedDict):
    """An invite as the invited person sees it before accepting."""

    email: str
    expires_at: str
    org_name: str
    role: str


class Lifecycle(TypedDict):
    """A sandbox's idle limit."""

    # How long the sandbox has not been used.
    idle_seconds: int
    # Whether the sandbox sleeps at the idle limit instead of being deleted.
    persistent: bool
    # Idle limit in seconds; 0 means no limit.
    ttl_seconds: int


class LogIn(TypedDict, total=False):
    """Logs in with a password."""

    # For our own pages: answer with a session cookie instead of a token. Needs the header
    # `x-pandastack-csrf: 1`.
    cookie: bool
    email: str
    password: str


class LogLine(TypedDict):
    """One line of a console, as the data of an event."""

    line: str


class _LoggedInRequired(TypedDict):
    email: str
    expires_at: str
    user_id: str


class LoggedIn(_LoggedInRequired, total=False):
    """A new session. Its token is sent as a bearer token."""

    # Only shown here. Missing if the answer sets a cookie instead.
    token: str


class LoginMethods(TypedDict):
    """How people can log in to this server."""

    # Whether an identity provider is set up.
    oidc: bool
    password: bool
    # Whether forgotten passwords can be reset by e-mail.
    reset_by_email: bool
    # Nobody has an account yet: the operator makes the first one with the API key of the server.
    setup_required: bool
    # Development: nobody needs to log in, a request without a credential is one of a fixed user.
    stub: bool


class LoginSession(TypedDict):
    """A session of the caller."""

    # The network address of the login.
    address: str
    # The program of the login, as it named itself.
    agent: str
    created_at: str
    # Whether it is the session of this request.
    current: bool
    expires_at: str
    id: str
    # When it was last used, accurate to half a minute.
    last_used_at: str


class LostOutput(TypedDict):
    """Data of a `lost` event: this many bytes before the offset are no longer kept."""

    bytes: int
    offset: int


class MachineMetrics(TypedDict):
    """Current resource usage of a sandbox's machine process on its host."""

    # CPU usage since the last sample, in percent of one CPU.
    host_cpu_percent: float
    host_rss_bytes: int
    host_vsz_bytes: int
    pid: int
    threads: int
    uptime_seconds: int


class _MakeDirRequired(TypedDict):
    path: str


class MakeDir(_MakeDirRequired, total=False):
    """Creates a folder."""

    # Whether to create missing parent folders. An existing folder is then not an error.
    parents: bool


class _ManagedDatabaseRequired(TypedDict):
    # Also the id of the sandbox that it runs in.
    id: str
    # `provisioning`, `running`, `hibernated`, `waking` or `failed`. A running database has
    # credentials.
    status: str
    template: str


class ManagedDatabase(_ManagedDatabaseRequired, total=False):
    """A PostgreSQL server in a machine of its own."""

    always_on: bool
    # The database that this one was branched from.
    branched_from: str
    broker_token: str
    broker_url: str
    # The database that this one was cloned from.
    cloned_from: str
    # Without a query string, so that clients may append one.
    connection_url: str
    # Seconds since 1970.
    created_at: int
    database: str
    # Why it failed, or what it waits for.
    error: str
    # Only if it failed: whether it can be rebuilt from its archive.
    failover_available: bool
    failover_eta_seconds: int
    failover_reason: str
    host: str
    label: str
    password: str
    port: int
    sandbox_id: str
    size: str
    # Whether a restart would bring a newer version of its template.
    update_available: bool
    username: str


class ManagedDatabaseList(TypedDict):
    """The databases of a workspace, without credentials."""

    count: int
    items: list[ManagedDatabase]


class _MeRequired(TypedDict):
    # `token` for an API key, `session` after a login, `jwt` for a token of a provider, `stub`
    # without authentication.
    auth_method: str
    # The organisation that this request acts in. Null for an API key, as published clients expect.
    current_org: Org | None
    current_org_id: str | None
    email: str
    # The caller's organisations, oldest membership first.
    orgs: list[Org]
    # For an API key, the workspace.
    user_id: str
    # The workspace that this request acts in.
    workspace: str


class Me(_MeRequired, total=False):
    """The owner of the request's credential."""

    # Whether the caller may administer the server.
    operator: bool


class MeterFlush(TypedDict):
    """What a flush of the meter queue did."""

    pending: int
    posted: int


# Values over time. Each name has a list of pairs of a time such as `2026-11-17 09:12:00` (UTC) and
# a value, oldest first. A sandbox has `cpu_pct`, `mem_bytes`, `vsz_bytes` and `threads`. A
# workspace has `sandboxes`, `sandboxes_running`, `cpu_percent` and `rss_bytes`, and, for steps in
# which there were some, requests (`http_rps`: their number, `http_errors`: those answered with 500
# or more, `http_p50` and `http_p95` in milliseconds), created sandboxes (`sb_creates`), and boots
# (`boot_p50` and `boot_p95` in milliseconds, `boot_warm_pct`: the percentage that was not cold).
MetricSeries = TypedDict(
    "MetricSeries",
    {
        "from": "str",
        "series": "dict[str, list[list[Any]]]",
        "step": "str",
        "to": "str",
    },
)


# Moves or renames a path.
MovePath = TypedDict(
    "MovePath",
    {
        "from": "str",
        "overwrite": "bool",
        "to": "str",
    },
    total=False,
)


class _NodeCostRequired(TypedDict):
    cpu: int
    # Size of its disk as its guest sees it.
    disk_mb: int
    memory_mb: int
    # List price of an hour in its present state, in dollars: before credit and included storage.
    usd_per_hour: float


class NodeCost(_NodeCostRequired, total=False):
    """What one sandbox takes and costs."""

    # Memory that its machine held on the host at the last measurement. Absent without a machine.
    held_bytes: int


class OpenSession(TypedDict, total=False):
    """Opens a code session."""

    # The language; `python` by default.
    language: str | None


class _OrgRequired(TypedDict):
    created_at: str
    id: str
    name: str
    owner_user_id: str
    # The caller's role: `owner`, `admin` or `member`.
    role: str
    # The workspace of everything that the organisation owns.
    slug: str


class Org(_OrgRequired, total=False):
    """An organisation, as one of its members sees it."""

    member_count: int


class _OrgInviteRequired(TypedDict):
    email: str
    expires_at: str
    id: str
    invited_by: str
    org_id: str
    role: str


class OrgInvite(_OrgInviteRequired, total=False):
    """An invite to an organisation."""

    # The link to send. Only present in the response that creates it.
    invite_url: str
    # The secret of the link. Only present in the response that creates it.
    token: str


class _OrgMemberRequired(TypedDict):
    email: str
    joined_at: str
    role: str
    user_id: str


class OrgMember(_OrgMemberRequired, total=False):
    """A member of an organisation."""

    name: str


class OutputChunk(TypedDict):
    """A piece of output."""

    chunk: str
    # `stdout` or `stderr`.
    stream: str


class _PingRequired(TypedDict):
    at: str
    delivered: bool
    event_id: str
    latency_ms: int


class Ping(_PingRequired, total=False):
    """The result of a ping."""

    # The start of the receiver's response body.
    answer: str
    # Why the attempt failed.
    error: str
    # The status of the receiver's response.
    status: int


class _PortRequired(TypedDict):
    listening: bool
    port: int
    # URL for requests to the port, with an API key.
    proxy_url: str
    # `user` if the port was declared, `detected` if it was found.
    source: str


class Port(_PortRequired, total=False):
    """One port."""

    label: str
    # Whether the program listens only on the sandbox's loopback interface. Requests cannot reach it
    # then.
    loopback_only: bool
    # Name of the listening program, as reported by the sandbox.
    process: str


class Preview(TypedDict):
    """A signed preview."""

    expires_at: str
    paths: list[str]
    port: int
    sandbox_id: str
    token: str
    url: str


class _PreviewRequestRequired(TypedDict):
    port: int


class PreviewRequest(_PreviewRequestRequired, total=False):
    """Creates a signed preview."""

    # Path prefixes that are allowed. Without any, every path is allowed.
    paths: list[str] | None
    # Validity in seconds, at most one week. A longer time is reduced to a week.
    ttl_seconds: int | None


class Pricing(TypedDict):
    """What usage costs, and the plans."""

    # Prices under the plan that a new workspace gets.
    rates: UsageRates
    # All plans, the smallest first.
    tiers: list[PricingTier]


class PricingTier(TypedDict):
    """A plan. A limit of null means that there is none."""

    # Usage of a month that costs nothing.
    credit_usd: float
    hourly_create_limit: int | None
    max_cpu_total: int | None
    max_memory_mb_total: int | None
    max_sandboxes: int | None
    max_volume_size_gib: int | None
    max_volume_total_gib: int | None
    max_volumes: int | None
    # The basic price of a month.
    monthly_usd: float
    name: str
    # Whether usage above the credit is charged. Otherwise sandboxes stop.
    overage: bool
    rates: UsageRates
    # Storage that costs nothing.
    storage_included_gib: int
    ttl_seconds_max: int | None


class _ProcessRequired(TypedDict):
    # The start of the command.
    cmd: str
    id: str
    # Offset of the oldest output byte that is still kept. Offsets count both streams together.
    kept_from: int
    pid: int
    started_at: str
    # `running`, `exited`, or `killed` if a signal or the timeout ended it.
    status: str
    stderr_bytes: int
    # Whether standard input can be written.
    stdin: bool
    # Bytes written so far, including bytes that are no longer kept.
    stdout_bytes: int


class Process(_ProcessRequired, total=False):
    """A process."""

    ended_at: str
    exit_code: int
    # The signal that ended the process.
    signal: int
    tag: str
    # Whether `timeout_seconds` ended the process.
    timed_out: bool


class _ProcessOutputRequired(TypedDict):
    # The same output, in the order in which it was written.
    chunks: list[OutputChunk]
    # The offset for the next request.
    next_offset: int
    status: str
    stderr: str
    stdout: str
    # Bytes after the requested offset that are no longer kept.
    truncated: int


class ProcessOutput(_ProcessOutputRequired, total=False):
    """Current output of a process, from an offset on."""

    exit_code: int


class PromoteRequest(TypedDict, total=False):
    """Keeps one child of a fork tree."""

    # Whether to delete every other child of the tree.
    cleanup_siblings: bool
    tree_id: str | None


class Promotion(TypedDict):
    """The result of a promotion."""

    deleted: list[str]
    failures: dict[str, str]
    # Empty if the winner does not belong to a tree.
    tree_id: str
    winner: str


class QuotaLimits(TypedDict):
    """Limits. Null means that there is none."""

    # Template builds at the same time.
    builds_concurrent_max: int | None
    # Requests and streams at the same time.
    connections_max: int | None
    # Sandboxes that may be created in 60 minutes. Forks count; wakes do not.
    hourly_create_limit: int | None
    # CPUs of all sandboxes that are not asleep.
    max_cpu_total: int | None
    # Disks of all sandboxes.
    max_disk_gib_total: int | None
    # Memory of all sandboxes that are not asleep.
    max_memory_mb_total: int | None
    # Sandboxes at the same time, sleeping ones included.
    max_sandboxes: int | None
    max_volume_size_gib: int | None
    max_volume_total_gib: int | None
    max_volumes: int | None
    # Requests at once after a pause.
    requests_burst: int | None
    requests_per_second: int | None
    # Longest idle time of a sandbox.
    ttl_seconds_max: int | None


class Quotas(TypedDict):
    """The limits of a workspace, and what it uses now."""

    limits: QuotaLimits
    # `free`, `pro`, `team` or `custom`.
    plan: str
    usage: QuotasUsed
    workspace: str


class QuotasUsed(TypedDict):
    """What a workspace uses now."""

    cpu: int
    creates_last_hour: int
    disk_gib: int
    memory_mb: int
    sandboxes: int
    volume_total_gib: int
    volumes: int


class _RanOnceRequired(TypedDict):
    duration_ms: int
    exit_code: int
    language: str
    stderr: str
    stdout: str


class RanOnce(_RanOnceRequired, total=False):
    """The result of code that ran without a session."""

    truncated: bool


class _RefusedPathRequired(TypedDict):
    allowed_paths: list[str]
    code: str
    error: str
    request_id: str
    requested: str


class RefusedPath(_RefusedPathRequired, total=False):
    """The error body for a path that the preview does not allow."""

    detail: str
    # The workspace that sent too many requests. Only in a refusal by the rate limit.
    workspace: str


class Register(TypedDict, total=False):
    """Makes an account for somebody who was invited, and accepts the invite."""

    # For our own pages: answer with a session cookie instead of a token. Needs the header
    # `x-pandastack-csrf: 1`.
    cookie: bool
    # The secret part of the invite's link.
    invite: str
    name: str
    password: str


class RenameOrg(TypedDict, total=False):
    """Renames an organisation. Its slug stays."""

    name: str


class ResetPassword(TypedDict, total=False):
    """Sets a new password with the secret of a reset link."""

    password: str
    token: str


class RestoreWindow(TypedDict):
    """The times that a database can be restored to, as RFC 3339."""

    earliest: str
    latest: str


class RotateSecret(TypedDict, total=False):
    """Creates a new secret."""

    # How long deliveries are also signed with the old secret.
    grace_seconds: int | None


class _RunCellRequired(TypedDict):
    code: str | None


class RunCell(_RunCellRequired, total=False):
    """Runs code in a session."""

    # The cell is interrupted after this many milliseconds.
    timeout_ms: float | None


class _RunOnceRequired(TypedDict):
    code: str | None


class RunOnce(_RunOnceRequired, total=False):
    """Runs code without a session, in a new process."""

    # The language; `python` by default.
    language: str | None
    timeout_ms: float | None


class RunningProgram(TypedDict):
    """A process and its command line."""

    command: str
    pid: int


class _SandboxRequired(TypedDict):
    # How the sandbox was started: `snapshot-natid` from its template, else `snapshot`, `fork` or
    # `wake`.
    boot_mode: str
    boot_ms: int
    # Number of CPUs, from the template.
    cpu: int
    created_at: str
    id: str
    # Isolation from the host: `kvm` or `emulated`.
    isolation: str
    memory_mb: int
    metadata: dict[str, str]
    persistent: bool
    # `creating`, `running`, `paused`, `hibernating`, `hibernated`, `waking`, `stopping` or
    # `failed`.
    status: str
    template: str
    ttl_seconds: int


class Sandbox(_SandboxRequired, total=False):
    """A sandbox, as create, list, get and fork return it."""

    # The managed database that this is the machine of. Absent for plain sandboxes.
    database_id: str
    # The destinations that the sandbox may reach. Absent if there is no list.
    egress_allowlist: list[str]
    egress_mbps: int
    # The snapshot that the sandbox was created from.
    from_snapshot: str
    guest_ip: str
    # A warning about untrusted code at this isolation. Absent if there is none.
    isolation_warning: str
    # Why the sandbox failed.
    status_reason: str
    volumes: list[VolumeAttachment]


# The difference of two databases' schemas.
SchemaDiff = TypedDict(
    "SchemaDiff",
    {
        "diff": "str",
        "from": "str",
        "same": "bool",
        "to": "str",
    },
)


class SetEgress(TypedDict):
    """Replaces the egress allowlist. The field is required, so that a missing field never opens
    access by accident.
    """

    egress_allowlist: list[str] | None


class SetLifecycle(TypedDict, total=False):
    """Changes the idle limit. Missing fields keep their value."""

    persistent: bool | None
    ttl_seconds: int | None


class SetUp(TypedDict, total=False):
    """Makes the first account, which administers the server."""

    # For our own pages: answer with a session cookie instead of a token. Needs the header
    # `x-pandastack-csrf: 1`.
    cookie: bool
    email: str
    # The secret of a one-time link, instead of the API key of the server.
    link: str
    name: str
    password: str


class SignInLink(TypedDict):
    """A link that logs in once, for a browser. It is only shown here."""

    expires_at: str
    # Whether the link makes the first account, instead of a login.
    setup: bool
    token: str
    url: str


class SignalRequest(TypedDict):
    """Sends a signal, given by name or number."""

    signal: Any


class _SnapshotRequired(TypedDict):
    created_at: str
    id: str
    sandbox_id: str
    # Size of the snapshot, without the data that it shares with its template.
    size_bytes: int
    template: str
    workspace: str


class Snapshot(_SnapshotRequired, total=False):
    """Memory, disk and volumes of a sandbox at one moment. It outlives the sandbox."""

    # The volumes in it. A sandbox from the snapshot gets copies of them.
    volumes: list[VolumeAttachment]


class SnapshotList(TypedDict):
    """A list of snapshots."""

    snapshots: list[Snapshot]


class SpawnRequest(TypedDict, total=False):
    """Starts a process. `cmd` is a shell command line. `argv` is a program with its arguments, run
    without a shell.
    """

    argv: list[str] | None
    cmd: str | None
    cwd: str | None
    env: dict[str, str] | None
    # Whether to keep standard input open. Otherwise it is empty.
    stdin: bool | None
    # A name for the process, chosen by the caller.
    tag: str | None
    # The process is ended after this many seconds of the sandbox's own clock. Missing or zero means
    # no limit.
    timeout_seconds: float | None
    user: str | None


class Status(TypedDict):
    """The state after the request."""

    status: str


class _TemplateRequired(TypedDict):
    cpu: int
    # Whether the template belongs to the server. Such a template cannot be deleted.
    is_global: bool
    memory_mb: int
    # Further information about the template and its sandboxes.
    meta: dict[str, Any]
    name: str
    # A name for the root file system, never a path on a host. One published client requires the
    # field.
    rootfs_path: str
    size_bytes: int


class Template(_TemplateRequired, total=False):
    """A template that sandboxes can start from."""

    # The source of the template.
    base: str
    # Whether databases can start from it at once. Only of templates of databases.
    databases: DatabasePreparation
    # Why sandboxes cannot start from the template now: `waiting` or `baking` while the server makes
    # it, `failed` if it could not. Absent for a template that can be used. `meta.description` says
    # more.
    status: str
    # The workspace that owns the template. Absent for templates of the server.
    workspace: str


class TransferOrg(TypedDict, total=False):
    """Makes another member the owner."""

    user_id: str


class _TreeNodeRequired(TypedDict):
    id: str
    # The sandbox's status; `deleted` for an ancestor that is known only through its children.
    status: str


class TreeNode(_TreeNodeRequired, total=False):
    """One sandbox of a family tree."""

    # What it takes. Absent for an ancestor that is deleted.
    cost: NodeCost
    created_at: str
    fork_index: int
    fork_tree_id: str
    # The label `name`, if it has one.
    name: str
    parent_id: str
    template: str


class Unpacked(TypedDict):
    """The result of unpacking an archive."""

    # Total size of the unpacked files.
    bytes: int
    entries: int
    path: str


class UsageRates(TypedDict):
    """Prices of usage."""

    # One GiB of memory for a second.
    memory_usd_per_gib_second: float
    # One CPU for a second.
    vcpu_usd_per_second: float
    # One GiB of disk, volume or database for a month.
    volume_usd_per_gib_month: float


# Usage in some days, split by day, template, sandbox or member.
UsageReport = TypedDict(
    "UsageReport",
    {
        "by": "str",
        "from": "str",
        "rows": "list[UsageRow]",
        "to": "str",
        "total": "UsageRow",
        "workspace": "str",
    },
)


class UsageRow(TypedDict):
    """One row of a report."""

    # At the prices of the plan, before credit and included storage.
    cost_usd: float
    # A day, the name of a template, or the id of a sandbox, volume or member. The volume of a
    # database or fork counts with it.
    key: str
    # What the id stands for: the template of a sandbox, the e-mail address of a member.
    label: str
    memory_gib_seconds: float
    storage_gib_seconds: float
    vcpu_seconds: float


class UseLink(TypedDict, total=False):
    """Logs in with a one-time link."""

    # For our own pages: answer with a session cookie instead of a token. Needs the header
    # `x-pandastack-csrf: 1`.
    cookie: bool
    # The part of the link after the `#`.
    token: str


class VerifyBackup(TypedDict, total=False):
    """Starts a restore drill."""

    # RFC 3339; without it the latest that is archived.
    target_time: str | None


class _VersionRequired(TypedDict):
    arch: str
    # When the server was built. `unknown` if the build did not say.
    build_time: str
    commit: str
    # Always `none`: published clients expect the field, and this server is not written in Go.
    go: str
    os: str
    semver: str
    service: str


class Version(_VersionRequired, total=False):
    """The build of the server."""

    # Isolation of sandboxes from the host: `kvm` or `emulated`. Absent if the host does not answer.
    isolation: str
    # A warning about untrusted code at this isolation. Absent if there is none.
    isolation_warning: str


class _VolumeRequired(TypedDict):
    # The sandboxes that use the volume, including sleeping ones.
    attached_to: list[str]
    created_at: str
    name: str
    size_bytes: int
    size_mb: int


class Volume(_VolumeRequired, total=False):
    """A durable disk."""

    # The sandbox that the volume was copied for, by a fork or from a snapshot. The volume is
    # deleted with it.
    sandbox_id: str


class _VolumeAttachmentRequired(TypedDict):
    name: str


class VolumeAttachment(_VolumeAttachmentRequired, total=False):
    """A volume that is attached to a sandbox."""

    # Where the volume is mounted; by default `/mnt/` and its name.
    mount_path: str
    read_only: bool


class _VolumeAttachmentRequestRequired(TypedDict):
    name: str


class VolumeAttachmentRequest(_VolumeAttachmentRequestRequired, total=False):
    """A volume that is attached to a sandbox."""

    # Where the volume is mounted; by default `/mnt/` and its name.
    mount_path: str | None
    read_only: bool | None


class WatchNote(TypedDict):
    """Data of the `ready` and `overflow` events."""

    path: str


class _WebhookRequired(TypedDict):
    created_at: str
    description: str
    # Events that were dropped because the queue was full.
    dropped: int
    enabled: bool
    events: list[str]
    id: str
    updated_at: str
    url: str


class Webhook(_WebhookRequired, total=False):
    """A webhook."""

    # Why the server disabled the webhook.
    disabled_reason: str
    # Since when every delivery has failed. Absent if deliveries succeed.
    failing_since: str
    # Until when deliveries are also signed with the previous secret.
    old_secret_expires_at: str
    # The secret that signs deliveries. Only present in the responses that create one.
    secret: str


class WorkspaceBudget(TypedDict):
    """A workspace's own limit for the cost of a month."""

    # Share of the budget from which an alert is sent, in percent. 80 if it is not named.
    alert_percent: int
    # Whether sandboxes are put to sleep, and nothing new starts, when the budget is used up.
    hard_cap: bool
    # What may be charged in a month.
    monthly_usd: float


class _WorkspaceBudgetRequestRequired(TypedDict):
    # What may be charged in a month.
    monthly_usd: float


class WorkspaceBudgetRequest(_WorkspaceBudgetRequestRequired, total=False):
    """A workspace's own limit for the cost of a month."""

    # Share of the budget from which an alert is sent, in percent. 80 if it is not named.
    alert_percent: int
    # Whether sandboxes are put to sleep, and nothing new starts, when the budget is used up.
    hard_cap: bool


class _WorkspaceEventRequired(TypedDict):
    # The place after this event, for `since` and `Last-Event-ID`.
    id: str
    # The kind, such as `sandbox.paused` or `volume.changed`.
    kind: str
    # Details. An event that changes a sandbox's state has the new `status`.
    payload: dict[str, Any]
    ts: str


class WorkspaceEvent(_WorkspaceEventRequired, total=False):
    """One event of a workspace."""

    # The managed database that the sandbox is the machine of. Absent for plain sandboxes.
    database_id: str
    sandbox_id: str


class WorkspaceEvents(TypedDict):
    """Recent events of a workspace, oldest first."""

    # The place after the last event, for `since`.
    cursor: str
    events: list[WorkspaceEvent]


class Written(TypedDict):
    """The answer to a file write."""

    bytes: int
    path: str
