// Written by `cargo xtask sdk` from docs/openapi.json. Do not edit.

/** The objects of the API, as they are on the wire. */

/** What an accepted invite gave. */
export interface AcceptedInvite {
  org_id: string;
  role: string;
}

/** An API key. */
export interface ApiKey {
  created_at: string;
  /** The id of the key that created this one, or `operator` if it was created on the server. */
  created_by: string;
  /** Whether it is the key of this request. */
  current: boolean;
  expires_at?: string;
  id: string;
  label?: string;
  /** When it was last used, accurate to half a minute. */
  last_used_at?: string;
  /** The start of the key, which may be shown. */
  prefix: string;
  /** The whole key. Only present in the response that creates it. */
  token?: string;
}

/** A list of API keys. */
export interface ApiKeys {
  items: ApiKey[];
}

/** Asks for a reset link by e-mail. */
export interface AskReset {
  email?: string;
}

/** The result of a host audit: counts of everything that is accounted for, and every leak. */
export interface Audit {
  disks: number;
  layers: number;
  /** One text for each resource that has no owner, or that is recorded but missing. */
  leaks: string[];
  machines: number;
  /** Leaks that this audit removed. */
  repaired: string[];
  slots: number;
  volumes: number;
}

/** One changing request of the caller's workspace. The request body is not recorded. */
export interface AuditEntry {
  /** Who sent the request: `user:` and an id, or `key:` and the start of a key. */
  actor?: string;
  /** The e-mail address of a person. */
  actor_email?: string;
  /** The network address of the client. */
  address?: string;
  duration_ms: number;
  /** The id in exports. */
  entry: string;
  /** The same as `number`. 0 for entries of old servers. */
  id: number;
  /** The start of the key that was used. Empty for a person. */
  key_prefix: string;
  method: string;
  /** The place in the workspace's hash chain. Entries of old servers have none. */
  number?: number;
  /** The path without its query. */
  path: string;
  request_id: string;
  /** The route's pattern, such as `/v1/sandboxes/{id}`. */
  route: string;
  /** The answer. 499 if the client hung up before it. */
  status: number;
  /** When the request arrived. */
  ts: string;
  workspace: string;
}

/** A list of audit entries, newest first. */
export interface AuditTrail {
  entries: AuditEntry[];
  /** Start of the listed period. */
  since: string;
}

/** A restore drill: a backup is restored in a scratch machine and checked. */
export interface BackupDrill {
  /** The base backup that it started from. */
  backup?: string;
  /** Bytes of the restored databases. */
  db_size_bytes?: number;
  error?: string;
  finished_at?: string;
  /** Tables and indexes whose structure was checked. */
  relations_checked?: number;
  /** RFC 3339. */
  started_at: string;
  /** `running`, `passed` or `failed`. */
  status: string;
  target_time?: string;
}

/** What a workspace used and costs in this calendar month (UTC). */
export interface Bill {
  /** Whether the server is connected to Stripe. */
  billing_enabled: boolean;
  budget: WorkspaceBudget | null;
  /** The plan's credit for a month, and how much of it is used. */
  credit_usd: number;
  credit_used_usd: number;
  /** Why nothing new may start: `billing.budget` or `billing.unpaid`. Null if it may. */
  hold: string | null;
  /** The same as text. */
  hold_reason: string | null;
  meter_events_dead: number;
  /** Hours of usage that are not yet posted to Stripe, and those that need the operator. */
  meter_events_pending: number;
  /** What is charged: cost minus credit. */
  mtd_charged_usd: number;
  /** All usage of the month so far, storage included. */
  mtd_cost_usd: number;
  mtd_memory_cost_usd: number;
  mtd_memory_gib_seconds: number;
  /** Only storage above the amount that the plan includes. */
  mtd_storage_cost_usd: number;
  mtd_storage_gib_seconds: number;
  mtd_vcpu_cost_usd: number;
  mtd_vcpu_seconds: number;
  period_end: string;
  /** First and last day of the month. */
  period_start: string;
  plan: string;
  /** Null without a subscription. */
  subscription: BilledSubscription | null;
  workspace: string;
}

/** A subscription at Stripe. */
export interface BilledSubscription {
  cancel_at_period_end: boolean;
  /** When an unpaid subscription makes the workspace read-only. */
  grace_until: string | null;
  /** End of the paid period. */
  period_end: string | null;
  plan: string | null;
  /** Stripe's word, such as `active` or `past_due`. */
  status: string;
}

/** A page at Stripe for a browser. */
export interface BillingPage {
  url: string;
}

/** A summary of boot times, in milliseconds. */
export interface BootBucket {
  count: number;
  max_ms: number;
  mean_ms: number;
  min_ms: number;
  p50_ms: number;
  p90_ms: number;
  p99_ms: number;
}

/** One boot. */
export interface BootSample {
  boot_mode: string;
  boot_ms: number;
  sandbox_id: string;
  template: string;
  time: string;
  /** The same as `time`. */
  ts: string;
}

/** Boot times of recent sandboxes. */
export interface BootStats {
  by_mode: Record<string, BootBucket>;
  by_template: Record<string, BootBucket>;
  overall: BootBucket;
  /** The last boots, newest first. */
  recent: BootSample[];
  total_samples: number;
  /** Time from the oldest sample until now. */
  window_seconds: number;
}

/** Branches a database. */
export interface BranchDatabase {
  label?: string | null;
}

/** The answer to a comparison of two sandboxes. */
export interface BranchDiff {
  /** By path. A changed folder is listed only if its kind or its permissions differ. */
  files: FileDiff[];
  /** The folders that were compared. */
  paths: string[];
  /** Processes of the sandbox that the other one does not have. */
  processes: RunningProgram[];
  sandbox_id: string;
  /** Whether there are more files than were compared or are listed. */
  truncated: boolean;
  /** The other sandbox. */
  with_id: string;
  /** Processes of the other sandbox that this one does not have. */
  with_processes: RunningProgram[];
}

/** One build of a template. */
export interface Build {
  /** Size of the upload in bytes. */
  bytes?: number;
  cpu?: number;
  ended_at?: string;
  /** Why the build failed, with the name of the failed step. */
  error?: string;
  id: string;
  image_ref?: string;
  memory_mb?: number;
  name: string;
  size_mb: number;
  started_at: string;
  /** `queued`, `running`, `baking`, then `done` or `failed`. */
  status: string;
}

/** Asks for a page at Stripe to buy a plan. */
export interface BuyPlan {
  /** `month` (default) or `year`. */
  interval?: string | null;
  /** `pro` or `team`. */
  plan: string;
}

/** The result of a cell. */
export interface CellResult {
  duration_ms: number;
  /** The traceback, if the code raised an exception. */
  error?: string;
  exit: number;
  /** The same as `exit`, under the name that commands use. */
  exit_code: number;
  /** Whether the session's kernel was restarted. The state of earlier cells is then lost. */
  restarted?: boolean;
  results: Record<string, string>[];
  stderr: string;
  stdout: string;
  /** Whether output beyond the limit was dropped. The text then ends with a line that says so. */
  truncated?: boolean;
}

/** Data of a `change` event. */
export interface Change {
  /** The same number in both events of a move. */
  cookie?: number;
  is_dir: boolean;
  path: string;
  /**
   * `created`, `modified`, `written` (closed after writing), `deleted`, `moved_from`, `moved_to`,
   * `attributes`.
   */
  type: string;
}

/** Changes a database. */
export interface ChangeDatabase {
  always_on?: boolean | null;
}

/** Changes the role of a member. */
export interface ChangeMember {
  role?: string;
}

/** Changes the caller's password. All other sessions end. */
export interface ChangePassword {
  /**
   * For our own pages: answer with a session cookie instead of a token. Needs the header
   * `x-pandastack-csrf: 1`.
   */
  cookie?: boolean;
  current_password?: string;
  new_password?: string;
}

/** Changes a webhook. Missing fields keep their value. */
export interface ChangeWebhook {
  description?: string | null;
  enabled?: boolean | null;
  events?: string[] | null;
  url?: string | null;
}

/** The result of a change to a path. */
export interface Changed {
  path: string;
}

/** Sets permission bits. */
export interface Chmod {
  /** Octal digits as text, such as `"0755"`. */
  mode: string;
  path: string;
  /** Whether to apply them to everything below the path too. */
  recursive?: boolean;
}

/** Clones a database. */
export interface CloneDatabase {
  label?: string | null;
  /** `1g`, `4g` or `16g`; without it the size of the source. */
  size?: string | null;
  /** RFC 3339; without it the latest that is archived. */
  target_time?: string | null;
}

/** A code session. It keeps its state between cells. */
export interface CodeSession {
  /** Number of cells that were started. */
  cells: number;
  created_at: string;
  id: string;
  language: string;
  sandbox_id: string;
  /** The same as `id`, under the name that the documentation uses. */
  session_id: string;
}

/** Creates an API key. */
export interface CreateApiKey {
  /** The key expires after this many days. Without it the key never expires. */
  expires_in_days?: number | null;
  /** What the key is for. */
  label?: string | null;
}

/** Creates a database. */
export interface CreateDatabase {
  always_on?: boolean | null;
  /** Accepted; the template decides. */
  cpu?: number | null;
  label?: string | null;
  /** Accepted; the template decides. */
  memory_mb?: number | null;
  /** `1g`, `4g` or `16g`. */
  size?: string | null;
}

/** Invites somebody to an organisation. */
export interface CreateInvite {
  email?: string;
  /** `member` (the default) or `admin`. */
  role?: string | null;
}

/** Creates an organisation. */
export interface CreateOrg {
  name?: string;
  /** Made from the name if it is absent. */
  slug?: string | null;
}

/**
 * Creates a sandbox. Other fields, such as `cpu`, are ignored, because the template defines the
 * size.
 */
export interface CreateSandbox {
  /** Host names, `*.suffix` or IPv4 networks. An empty list allows nothing. */
  egress_allowlist?: string[] | null;
  egress_mbps?: number | null;
  /** Environment variables of every process in the sandbox. */
  env?: Record<string, string> | null;
  /** The snapshot to start from. It overrides `template`, which published clients always send. */
  from_snapshot?: string | null;
  /** Text keys with text values. Other values are refused. */
  metadata?: Record<string, string> | null;
  persistent?: boolean | null;
  template?: string | null;
  ttl_seconds?: number | null;
  volumes?: VolumeAttachmentRequest[] | null;
}

/** Creates a volume. */
export interface CreateVolume {
  name: string;
  size_mb?: number | null;
}

/** Creates a webhook. */
export interface CreateWebhook {
  description?: string | null;
  enabled?: boolean | null;
  events: string[];
  url: string;
}

/** Chooses the organisation that later requests act in. */
export interface CurrentOrg {
  org_id: string;
}

/** Chooses the organisation that later requests act in. */
export interface CurrentOrgRequest {
  org_id?: string;
}

/** State of the archive of a database's write-ahead log. */
export interface DatabaseArchive {
  error?: string;
  /** `ok`, `behind`, `failing` or `off`. */
  health: string;
  /** RFC 3339. */
  last_archived_at?: string;
  last_segment?: string;
  pending_bytes: number;
  /** Segments that are on this host but not yet in the store. */
  pending_segments: number;
}

/** A base backup. It was verified when it was taken. */
export interface DatabaseBackup {
  name: string;
  size_bytes: number;
  /** RFC 3339. */
  taken_at: string;
}

/** What a database could be restored from. */
export interface DatabaseBackups {
  archive: DatabaseArchive;
  count: number;
  /** The last restore drill. */
  drill?: BackupDrill;
  /** Base backups, newest first. */
  items: DatabaseBackup[];
  /** The database can be cloned as of any second in it. None before the first backup. */
  window?: RestoreWindow;
}

/** How to connect to a database. */
export interface DatabaseConnection {
  broker_token: string;
  broker_url: string;
  connection_url: string;
}

/** The last lines of the server's log. */
export interface DatabaseLogs {
  logs: string;
}

/**
 * How far the server is with the machine that databases of a template start from. It makes that
 * machine once for each bake, in the background.
 */
export interface DatabasePreparation {
  /** Why the last attempt failed. */
  error?: string;
  /** When the server tries again. */
  next_try_at?: string;
  /** When the attempt that runs began. */
  since?: string;
  /** The state of such a preparation. `waiting`: it begins soon. */
  status: "waiting" | "preparing" | "ready" | "failed";
}

/** Figures of a running database. */
export interface DatabaseStats {
  /** From 0 to 1. */
  cache_hit_ratio: number;
  connections: number;
  db_size_bytes: number;
  disk_avail_bytes: number;
  disk_size_bytes: number;
  disk_used_bytes: number;
  /** From 0 to 100. */
  disk_used_pct: number;
  max_connections: number;
  postgres_version?: string;
  uptime_seconds: number;
}

/** The start of a wake. */
export interface DatabaseWake {
  id: string;
  status: string;
}

/** Declares a port. */
export interface DeclarePort {
  label?: string | null;
  port: number;
}

/** The delivery of one event to one webhook. */
export interface Delivery {
  /** The last attempts, oldest first. */
  attempts: DeliveryAttempt[];
  created_at: string;
  /** The body that is sent. */
  event: Record<string, unknown>;
  event_id: string;
  finished_at?: string;
  id: string;
  next_attempt_at?: string;
  sequence: number;
  /** `pending`, `failed` (to be retried), `delivered` or `dead`. */
  status: string;
  type: string;
  webhook_id: string;
}

/** One attempt to deliver an event. */
export interface DeliveryAttempt {
  /** The start of the receiver's response body. */
  answer?: string;
  at: string;
  /** Why the attempt failed. */
  error?: string;
  latency_ms: number;
  /** The status of the receiver's response. */
  status?: number;
}

/** The answer to a directory listing. */
export interface DirListing {
  entries: Entry[];
  path: string;
  /** Whether a recursive listing is incomplete. */
  truncated?: boolean;
}

/**
 * A sandbox's egress allowlist. Null means no list: the sandbox may reach everything that the host
 * allows.
 */
export interface EgressList {
  egress_allowlist: string[] | null;
}

/** One file or directory. */
export interface Entry {
  /** False for a link to a directory. */
  is_dir: boolean;
  /** One letter: `f` file, `d` directory, `l` link, `o` anything else. */
  mode: string;
  /** Unix seconds. */
  mtime: number;
  name: string;
  path: string;
  /** Permission bits in octal, such as `0644`. */
  permissions?: string;
  size: number;
  /** The target of a link. */
  target?: string;
}

/**
 * The body of every error. It is flat, because the published clients need `error` to be a string.
 */
export interface ErrorBody {
  code: string;
  detail?: string;
  error: string;
  request_id: string;
  /** The workspace that sent too many requests. Only in a refusal by the rate limit. */
  workspace?: string;
}

/** One event. `time` and `ts` are the same, and so are `payload` and `metadata`. */
export interface Event {
  metadata: Record<string, unknown>;
  payload: Record<string, unknown>;
  sandbox_id: string;
  time: string;
  ts: string;
  /** The kind, such as `sandbox.paused` or `egress.denied`. */
  type: string;
}

/** A list of events, oldest first. */
export interface EventList {
  events: Event[];
}

/** A place in a stream of events. */
export interface EventPlace {
  cursor: string;
}

/** Exchanges the code of a login at an identity provider for a session. */
export interface ExchangeCode {
  code?: string;
  /**
   * For our own pages: answer with a session cookie instead of a token. Needs the header
   * `x-pandastack-csrf: 1`.
   */
  cookie?: boolean;
  /** The text whose SHA-256 was the `challenge` of the login. */
  verifier?: string;
}

/** Data of a `stdout` or `stderr` event. */
export interface ExecChunk {
  chunk: string;
}

/** Data of the `exit` event. */
export interface ExecExit {
  exit_code: number;
}

/** Data of the `error` event. */
export interface ExecFailure {
  error: string;
}

/**
 * Runs a command. `cmd` is a shell command line. `argv` is a program with its arguments, run
 * without a shell.
 */
export interface ExecRequest {
  argv?: string[] | null;
  cmd?: string | null;
  cwd?: string | null;
  env?: Record<string, string> | null;
  /** Text for standard input, which is then closed. */
  stdin?: string | null;
  /** The command is ended after this many seconds. Missing or zero means no limit. */
  timeout_seconds?: number | null;
  user?: string | null;
}

/** The result of a command. */
export interface ExecResponse {
  duration_ms: number;
  exit_code: number;
  stderr: string;
  stdout: string;
  /** Whether output beyond the limit was dropped. The text then ends with a line that says so. */
  truncated?: boolean;
}

/** One line of an export: an audit entry with what is needed to check the hash chain. */
export interface ExportedAuditEntry {
  /** Who sent the request: `user:` and an id, or `key:` and the start of a key. */
  actor?: string;
  /** The e-mail address of a person. */
  actor_email?: string;
  /** The network address of the client. */
  address?: string;
  /**
   * When the request arrived, in nanoseconds since 1970. Text, because it exceeds the exact numbers
   * of many programs.
   */
  at_ns: string;
  duration_ms: number;
  hash: string;
  id: string;
  /** The start of the key that was used. Empty for a person. */
  key_prefix: string;
  method: string;
  /** The place in the workspace's hash chain. Entries of old servers have none. */
  number?: number;
  /** The path without its query. */
  path: string;
  /** The hash of the entry before. Empty for the first one. */
  previous_hash: string;
  request_id: string;
  /** The route's pattern, such as `/v1/sandboxes/{id}`. */
  route: string;
  /** The answer. 499 if the client hung up before it. */
  status: number;
  /** When the request arrived. */
  ts: string;
  workspace: string;
}

/**
 * All related sandboxes, starting with the oldest known ancestor. Parents come before their
 * children.
 */
export interface FamilyTree {
  nodes: TreeNode[];
  root_id: string;
  sandbox_id: string;
}

/** The result of a write to standard input. */
export interface Fed {
  bytes: number;
}

/** A file that two sandboxes do not share. */
export interface FileDiff {
  /** `added` if only the other sandbox has it, `removed` if only this one has it, or `changed`. */
  change: string;
  /** One letter, as in listings: `f` file, `d` directory, `l` link, `o` anything else. */
  mode: string;
  path: string;
  /** The size here, unless it was added. */
  size?: number;
  /** The size in the other sandbox, unless it was removed. */
  with_size?: number;
}

/** Data of a `stdout` or `stderr` event of a followed process. */
export interface FollowedChunk {
  chunk: string;
  /** The offset after this chunk. */
  offset: number;
}

/** Data of the `exit` event of a followed process. */
export interface FollowedExit {
  exit_code: number;
  offset: number;
  status: string;
  timed_out?: boolean;
}

/** The result of a fork. `sandbox` is the first child. */
export interface Fork {
  at: string;
  children: Sandbox[];
  errors?: ForkFailure[];
  parent_id: string;
  sandbox: Sandbox;
  snapshot_id: string;
}

/** Why one child could not be created. */
export interface ForkFailure {
  err: string;
  index: number;
}

/** Forks a sandbox. */
export interface ForkRequest {
  count?: number | null;
  metadata?: Record<string, string> | null;
}

/**
 * The result of a fork tree. `children` lists only the children that run. The others are under
 * `errors`.
 */
export interface ForkTree {
  at: string;
  children: Sandbox[];
  errors: ForkFailure[];
  parent_id: string;
  snapshot_id: string;
  tree_id: string;
}

/** Grows a volume. */
export interface GrowVolume {
  size_mb: number | null;
}

/** Whether the server works. `status` is `ok` or `unhealthy`. */
export interface Health {
  /** Every checked part with its result. */
  checks: Record<string, string>;
  status: string;
}

/** An invite as the invited person sees it before accepting. */
export interface InviteInfo {
  email: string;
  expires_at: string;
  org_name: string;
  role: string;
}

/** A sandbox's idle limit. */
export interface Lifecycle {
  /** How long the sandbox has not been used. */
  idle_seconds: number;
  /** Whether the sandbox sleeps at the idle limit instead of being deleted. */
  persistent: boolean;
  /** Idle limit in seconds; 0 means no limit. */
  ttl_seconds: number;
}

/** Logs in with a password. */
export interface LogIn {
  /**
   * For our own pages: answer with a session cookie instead of a token. Needs the header
   * `x-pandastack-csrf: 1`.
   */
  cookie?: boolean;
  email?: string;
  password?: string;
}

/** One line of a console, as the data of an event. */
export interface LogLine {
  line: string;
}

/** A new session. Its token is sent as a bearer token. */
export interface LoggedIn {
  email: string;
  expires_at: string;
  /** Only shown here. Missing if the answer sets a cookie instead. */
  token?: string;
  user_id: string;
}

/** How people can log in to this server. */
export interface LoginMethods {
  /** Whether an identity provider is set up. */
  oidc: boolean;
  password: boolean;
  /** Whether forgotten passwords can be reset by e-mail. */
  reset_by_email: boolean;
  /** Nobody has an account yet: the operator makes the first one with the API key of the server. */
  setup_required: boolean;
  /** Development: nobody needs to log in, a request without a credential is one of a fixed user. */
  stub: boolean;
}

/** A session of the caller. */
export interface LoginSession {
  /** The network address of the login. */
  address: string;
  /** The program of the login, as it named itself. */
  agent: string;
  created_at: string;
  /** Whether it is the session of this request. */
  current: boolean;
  expires_at: string;
  id: string;
  /** When it was last used, accurate to half a minute. */
  last_used_at: string;
}

/** Data of a `lost` event: this many bytes before the offset are no longer kept. */
export interface LostOutput {
  bytes: number;
  offset: number;
}

/** Current resource usage of a sandbox's machine process on its host. */
export interface MachineMetrics {
  /** CPU usage since the last sample, in percent of one CPU. */
  host_cpu_percent: number;
  host_rss_bytes: number;
  host_vsz_bytes: number;
  pid: number;
  threads: number;
  uptime_seconds: number;
}

/** Creates a folder. */
export interface MakeDir {
  /** Whether to create missing parent folders. An existing folder is then not an error. */
  parents?: boolean;
  path: string;
}

/** A PostgreSQL server in a machine of its own. */
export interface ManagedDatabase {
  always_on?: boolean;
  /** The database that this one was branched from. */
  branched_from?: string;
  broker_token?: string;
  broker_url?: string;
  /** The database that this one was cloned from. */
  cloned_from?: string;
  /** Without a query string, so that clients may append one. */
  connection_url?: string;
  /** Seconds since 1970. */
  created_at?: number;
  database?: string;
  /** Why it failed, or what it waits for. */
  error?: string;
  /** Only if it failed: whether it can be rebuilt from its archive. */
  failover_available?: boolean;
  failover_eta_seconds?: number;
  failover_reason?: string;
  host?: string;
  /** Also the id of the sandbox that it runs in. */
  id: string;
  label?: string;
  password?: string;
  port?: number;
  sandbox_id?: string;
  size?: string;
  /**
   * `provisioning`, `running`, `hibernated`, `waking` or `failed`. A running database has
   * credentials.
   */
  status: string;
  template: string;
  /** Whether a restart would bring a newer version of its template. */
  update_available?: boolean;
  username?: string;
}

/** The databases of a workspace, without credentials. */
export interface ManagedDatabaseList {
  count: number;
  items: ManagedDatabase[];
}

/** The owner of the request's credential. */
export interface Me {
  /**
   * `token` for an API key, `session` after a login, `jwt` for a token of a provider, `stub`
   * without authentication.
   */
  auth_method: string;
  /**
   * The organisation that this request acts in. Null for an API key, as published clients expect.
   */
  current_org: Org | null;
  current_org_id: string | null;
  email: string;
  /** Whether the caller may administer the server. */
  operator?: boolean;
  /** The caller's organisations, oldest membership first. */
  orgs: Org[];
  /** For an API key, the workspace. */
  user_id: string;
  /** The workspace that this request acts in. */
  workspace: string;
}

/** What a flush of the meter queue did. */
export interface MeterFlush {
  pending: number;
  posted: number;
}

/**
 * Values over time. Each name has a list of pairs of a time such as `2026-11-17 09:12:00` (UTC) and
 * a value, oldest first. A sandbox has `cpu_pct`, `mem_bytes`, `vsz_bytes` and `threads`. A
 * workspace has `sandboxes`, `sandboxes_running`, `cpu_percent` and `rss_bytes`, and, for steps in
 * which there were some, requests (`http_rps`: their number, `http_errors`: those answered with 500
 * or more, `http_p50` and `http_p95` in milliseconds), created sandboxes (`sb_creates`), and boots
 * (`boot_p50` and `boot_p95` in milliseconds, `boot_warm_pct`: the percentage that was not cold).
 */
export interface MetricSeries {
  from: string;
  series: Record<string, unknown[][]>;
  step: string;
  to: string;
}

/** Moves or renames a path. */
export interface MovePath {
  from: string;
  /** Whether to replace an existing file. */
  overwrite?: boolean;
  to: string;
}

/** What one sandbox takes and costs. */
export interface NodeCost {
  cpu: number;
  /** Size of its disk as its guest sees it. */
  disk_mb: number;
  /** Memory that its machine held on the host at the last measurement. Absent without a machine. */
  held_bytes?: number;
  memory_mb: number;
  /** List price of an hour in its present state, in dollars: before credit and included storage. */
  usd_per_hour: number;
}

/** Opens a code session. */
export interface OpenSession {
  /** The language; `python` by default. */
  language?: string | null;
}

/** An organisation, as one of its members sees it. */
export interface Org {
  created_at: string;
  id: string;
  member_count?: number;
  name: string;
  owner_user_id: string;
  /** The caller's role: `owner`, `admin` or `member`. */
  role: string;
  /** The workspace of everything that the organisation owns. */
  slug: string;
}

/** An invite to an organisation. */
export interface OrgInvite {
  email: string;
  expires_at: string;
  id: string;
  /** The link to send. Only present in the response that creates it. */
  invite_url?: string;
  invited_by: string;
  org_id: string;
  role: string;
  /** The secret of the link. Only present in the response that creates it. */
  token?: string;
}

/** A member of an organisation. */
export interface OrgMember {
  email: string;
  joined_at: string;
  name?: string;
  role: string;
  user_id: string;
}

/** A piece of output. */
export interface OutputChunk {
  chunk: string;
  /** `stdout` or `stderr`. */
  stream: string;
}

/** The result of a ping. */
export interface Ping {
  /** The start of the receiver's response body. */
  answer?: string;
  at: string;
  delivered: boolean;
  /** Why the attempt failed. */
  error?: string;
  event_id: string;
  latency_ms: number;
  /** The status of the receiver's response. */
  status?: number;
}

/** One port. */
export interface Port {
  label?: string;
  listening: boolean;
  /**
   * Whether the program listens only on the sandbox's loopback interface. Requests cannot reach it
   * then.
   */
  loopback_only?: boolean;
  port: number;
  /** Name of the listening program, as reported by the sandbox. */
  process?: string;
  /** URL for requests to the port, with an API key. */
  proxy_url: string;
  /** `user` if the port was declared, `detected` if it was found. */
  source: string;
}

/** A signed preview. */
export interface Preview {
  expires_at: string;
  paths: string[];
  port: number;
  sandbox_id: string;
  token: string;
  url: string;
}

/** Creates a signed preview. */
export interface PreviewRequest {
  /** Path prefixes that are allowed. Without any, every path is allowed. */
  paths?: string[] | null;
  port: number;
  /** Validity in seconds, at most one week. A longer time is reduced to a week. */
  ttl_seconds?: number | null;
}

/** What usage costs, and the plans. */
export interface Pricing {
  /** Prices under the plan that a new workspace gets. */
  rates: UsageRates;
  /** All plans, the smallest first. */
  tiers: PricingTier[];
}

/** A plan. A limit of null means that there is none. */
export interface PricingTier {
  /** Usage of a month that costs nothing. */
  credit_usd: number;
  hourly_create_limit: number | null;
  max_cpu_total: number | null;
  max_memory_mb_total: number | null;
  max_sandboxes: number | null;
  max_volume_size_gib: number | null;
  max_volume_total_gib: number | null;
  max_volumes: number | null;
  /** The basic price of a month. */
  monthly_usd: number;
  name: string;
  /** Whether usage above the credit is charged. Otherwise sandboxes stop. */
  overage: boolean;
  rates: UsageRates;
  /** Storage that costs nothing. */
  storage_included_gib: number;
  ttl_seconds_max: number | null;
}

/** A process. */
export interface Process {
  /** The start of the command. */
  cmd: string;
  ended_at?: string;
  exit_code?: number;
  id: string;
  /** Offset of the oldest output byte that is still kept. Offsets count both streams together. */
  kept_from: number;
  pid: number;
  /** The signal that ended the process. */
  signal?: number;
  started_at: string;
  /** `running`, `exited`, or `killed` if a signal or the timeout ended it. */
  status: string;
  stderr_bytes: number;
  /** Whether standard input can be written. */
  stdin: boolean;
  /** Bytes written so far, including bytes that are no longer kept. */
  stdout_bytes: number;
  tag?: string;
  /** Whether `timeout_seconds` ended the process. */
  timed_out?: boolean;
}

/** Current output of a process, from an offset on. */
export interface ProcessOutput {
  /** The same output, in the order in which it was written. */
  chunks: OutputChunk[];
  exit_code?: number;
  /** The offset for the next request. */
  next_offset: number;
  status: string;
  stderr: string;
  stdout: string;
  /** Bytes after the requested offset that are no longer kept. */
  truncated: number;
}

/** Keeps one child of a fork tree. */
export interface PromoteRequest {
  /** Whether to delete every other child of the tree. */
  cleanup_siblings?: boolean;
  tree_id?: string | null;
}

/** The result of a promotion. */
export interface Promotion {
  deleted: string[];
  failures: Record<string, string>;
  /** Empty if the winner does not belong to a tree. */
  tree_id: string;
  winner: string;
}

/** Limits. Null means that there is none. */
export interface QuotaLimits {
  /** Template builds at the same time. */
  builds_concurrent_max: number | null;
  /** Requests and streams at the same time. */
  connections_max: number | null;
  /** Sandboxes that may be created in 60 minutes. Forks count; wakes do not. */
  hourly_create_limit: number | null;
  /** CPUs of all sandboxes that are not asleep. */
  max_cpu_total: number | null;
  /** Disks of all sandboxes. */
  max_disk_gib_total: number | null;
  /** Memory of all sandboxes that are not asleep. */
  max_memory_mb_total: number | null;
  /** Sandboxes at the same time, sleeping ones included. */
  max_sandboxes: number | null;
  max_volume_size_gib: number | null;
  max_volume_total_gib: number | null;
  max_volumes: number | null;
  /** Requests at once after a pause. */
  requests_burst: number | null;
  requests_per_second: number | null;
  /** Longest idle time of a sandbox. */
  ttl_seconds_max: number | null;
}

/** The limits of a workspace, and what it uses now. */
export interface Quotas {
  limits: QuotaLimits;
  /** `free`, `pro`, `team` or `custom`. */
  plan: string;
  usage: QuotasUsed;
  workspace: string;
}

/** What a workspace uses now. */
export interface QuotasUsed {
  cpu: number;
  creates_last_hour: number;
  disk_gib: number;
  memory_mb: number;
  sandboxes: number;
  volume_total_gib: number;
  volumes: number;
}

/** The result of code that ran without a session. */
export interface RanOnce {
  duration_ms: number;
  exit_code: number;
  language: string;
  stderr: string;
  stdout: string;
  truncated?: boolean;
}

/** The error body for a path that the preview does not allow. */
export interface RefusedPath {
  allowed_paths: string[];
  code: string;
  detail?: string;
  error: string;
  request_id: string;
  requested: string;
  /** The workspace that sent too many requests. Only in a refusal by the rate limit. */
  workspace?: string;
}

/** Makes an account for somebody who was invited, and accepts the invite. */
export interface Register {
  /**
   * For our own pages: answer with a session cookie instead of a token. Needs the header
   * `x-pandastack-csrf: 1`.
   */
  cookie?: boolean;
  /** The secret part of the invite's link. */
  invite?: string;
  name?: string;
  password?: string;
}

/** Renames an organisation. Its slug stays. */
export interface RenameOrg {
  name?: string;
}

/** Sets a new password with the secret of a reset link. */
export interface ResetPassword {
  password?: string;
  token?: string;
}

/** The times that a database can be restored to, as RFC 3339. */
export interface RestoreWindow {
  earliest: string;
  latest: string;
}

/** Creates a new secret. */
export interface RotateSecret {
  /** How long deliveries are also signed with the old secret. */
  grace_seconds?: number | null;
}

/** Runs code in a session. */
export interface RunCell {
  code: string | null;
  /** The cell is interrupted after this many milliseconds. */
  timeout_ms?: number | null;
}

/** Runs code without a session, in a new process. */
export interface RunOnce {
  code: string | null;
  /** The language; `python` by default. */
  language?: string | null;
  timeout_ms?: number | null;
}

/** A process and its command line. */
export interface RunningProgram {
  command: string;
  pid: number;
}

/** A sandbox, as create, list, get and fork return it. */
export interface Sandbox {
  /**
   * How the sandbox was started: `snapshot-natid` from its template, else `snapshot`, `fork` or
   * `wake`.
   */
  boot_mode: string;
  boot_ms: number;
  /** Number of CPUs, from the template. */
  cpu: number;
  created_at: string;
  /** The managed database that this is the machine of. Absent for plain sandboxes. */
  database_id?: string;
  /** The destinations that the sandbox may reach. Absent if there is no list. */
  egress_allowlist?: string[];
  egress_mbps?: number;
  /** The snapshot that the sandbox was created from. */
  from_snapshot?: string;
  guest_ip?: string;
  id: string;
  /** Isolation from the host: `kvm` or `emulated`. */
  isolation: string;
  /** A warning about untrusted code at this isolation. Absent if there is none. */
  isolation_warning?: string;
  memory_mb: number;
  metadata: Record<string, string>;
  persistent: boolean;
  /**
   * `creating`, `running`, `paused`, `hibernating`, `hibernated`, `waking`, `stopping` or `failed`.
   */
  status: string;
  /** Why the sandbox failed. */
  status_reason?: string;
  template: string;
  ttl_seconds: number;
  volumes?: VolumeAttachment[];
}

/** The difference of two databases' schemas. */
export interface SchemaDiff {
  /** Unified diff of `pg_dump --schema-only`; empty if they are the same. */
  diff: string;
  from: string;
  /** Whether the schemas are the same. */
  same: boolean;
  to: string;
}

/**
 * Replaces the egress allowlist. The field is required, so that a missing field never opens access
 * by accident.
 */
export interface SetEgress {
  egress_allowlist: string[] | null;
}

/** Changes the idle limit. Missing fields keep their value. */
export interface SetLifecycle {
  persistent?: boolean | null;
  ttl_seconds?: number | null;
}

/** Makes the first account, which administers the server. */
export interface SetUp {
  /**
   * For our own pages: answer with a session cookie instead of a token. Needs the header
   * `x-pandastack-csrf: 1`.
   */
  cookie?: boolean;
  email?: string;
  /** The secret of a one-time link, instead of the API key of the server. */
  link?: string;
  name?: string;
  password?: string;
}

/** A link that logs in once, for a browser. It is only shown here. */
export interface SignInLink {
  expires_at: string;
  /** Whether the link makes the first account, instead of a login. */
  setup: boolean;
  token: string;
  url: string;
}

/** Sends a signal, given by name or number. */
export interface SignalRequest {
  signal: unknown;
}

/** Memory, disk and volumes of a sandbox at one moment. It outlives the sandbox. */
export interface Snapshot {
  created_at: string;
  id: string;
  sandbox_id: string;
  /** Size of the snapshot, without the data that it shares with its template. */
  size_bytes: number;
  template: string;
  /** The volumes in it. A sandbox from the snapshot gets copies of them. */
  volumes?: VolumeAttachment[];
  workspace: string;
}

/** A list of snapshots. */
export interface SnapshotList {
  snapshots: Snapshot[];
}

/**
 * Starts a process. `cmd` is a shell command line. `argv` is a program with its arguments, run
 * without a shell.
 */
export interface SpawnRequest {
  argv?: string[] | null;
  cmd?: string | null;
  cwd?: string | null;
  env?: Record<string, string> | null;
  /** Whether to keep standard input open. Otherwise it is empty. */
  stdin?: boolean | null;
  /** A name for the process, chosen by the caller. */
  tag?: string | null;
  /**
   * The process is ended after this many seconds of the sandbox's own clock. Missing or zero means
   * no limit.
   */
  timeout_seconds?: number | null;
  user?: string | null;
}

/** The state after the request. */
export interface Status {
  status: string;
}

/** A template that sandboxes can start from. */
export interface Template {
  /** The source of the template. */
  base?: string;
  cpu: number;
  /** Whether databases can start from it at once. Only of templates of databases. */
  databases?: DatabasePreparation;
  /** Whether the template belongs to the server. Such a template cannot be deleted. */
  is_global: boolean;
  memory_mb: number;
  /** Further information about the template and its sandboxes. */
  meta: Record<string, unknown>;
  name: string;
  /**
   * A name for the root file system, never a path on a host. One published client requires the
   * field.
   */
  rootfs_path: string;
  size_bytes: number;
  /**
   * Why sandboxes cannot start from the template now: `waiting` or `baking` while the server makes
   * it, `failed` if it could not. Absent for a template that can be used. `meta.description` says
   * more.
   */
  status?: string;
  /** The workspace that owns the template. Absent for templates of the server. */
  workspace?: string;
}

/** Makes another member the owner. */
export interface TransferOrg {
  user_id?: string;
}

/** One sandbox of a family tree. */
export interface TreeNode {
  /** What it takes. Absent for an ancestor that is deleted. */
  cost?: NodeCost;
  created_at?: string;
  fork_index?: number;
  fork_tree_id?: string;
  id: string;
  /** The label `name`, if it has one. */
  name?: string;
  parent_id?: string;
  /** The sandbox's status; `deleted` for an ancestor that is known only through its children. */
  status: string;
  template?: string;
}

/** The result of unpacking an archive. */
export interface Unpacked {
  /** Total size of the unpacked files. */
  bytes: number;
  entries: number;
  path: string;
}

/** Prices of usage. */
export interface UsageRates {
  /** One GiB of memory for a second. */
  memory_usd_per_gib_second: number;
  /** One CPU for a second. */
  vcpu_usd_per_second: number;
  /** One GiB of disk, volume or database for a month. */
  volume_usd_per_gib_month: number;
}

/** Usage in some days, split by day, template, sandbox or member. */
export interface UsageReport {
  /** `day`, `template`, `sandbox` or `member`. */
  by: string;
  /** First and last day. */
  from: string;
  /** At most 10,000 rows, those with the highest cost. Days are in order. */
  rows: UsageRow[];
  to: string;
  total: UsageRow;
  workspace: string;
}

/** One row of a report. */
export interface UsageRow {
  /** At the prices of the plan, before credit and included storage. */
  cost_usd: number;
  /**
   * A day, the name of a template, or the id of a sandbox, volume or member. The volume of a
   * database or fork counts with it.
   */
  key: string;
  /** What the id stands for: the template of a sandbox, the e-mail address of a member. */
  label: string;
  memory_gib_seconds: number;
  storage_gib_seconds: number;
  vcpu_seconds: number;
}

/** Logs in with a one-time link. */
export interface UseLink {
  /**
   * For our own pages: answer with a session cookie instead of a token. Needs the header
   * `x-pandastack-csrf: 1`.
   */
  cookie?: boolean;
  /** The part of the link after the `#`. */
  token?: string;
}

/** Starts a restore drill. */
export interface VerifyBackup {
  /** RFC 3339; without it the latest that is archived. */
  target_time?: string | null;
}

/** The build of the server. */
export interface Version {
  arch: string;
  /** When the server was built. `unknown` if the build did not say. */
  build_time: string;
  commit: string;
  /** Always `none`: published clients expect the field, and this server is not written in Go. */
  go: string;
  /**
   * Isolation of sandboxes from the host: `kvm` or `emulated`. Absent if the host does not answer.
   */
  isolation?: string;
  /** A warning about untrusted code at this isolation. Absent if there is none. */
  isolation_warning?: string;
  os: string;
  semver: string;
  service: string;
}

/** A durable disk. */
export interface Volume {
  /** The sandboxes that use the volume, including sleeping ones. */
  attached_to: string[];
  created_at: string;
  name: string;
  /**
   * The sandbox that the volume was copied for, by a fork or from a snapshot. The volume is deleted
   * with it.
   */
  sandbox_id?: string;
  size_bytes: number;
  size_mb: number;
}

/** A volume that is attached to a sandbox. */
export interface VolumeAttachment {
  /** Where the volume is mounted; by default `/mnt/` and its name. */
  mount_path?: string;
  name: string;
  read_only?: boolean;
}

/** A volume that is attached to a sandbox. */
export interface VolumeAttachmentRequest {
  /** Where the volume is mounted; by default `/mnt/` and its name. */
  mount_path?: string | null;
  name: string;
  read_only?: boolean | null;
}

/** Data of the `ready` and `overflow` events. */
export interface WatchNote {
  path: string;
}

/** A webhook. */
export interface Webhook {
  created_at: string;
  description: string;
  /** Why the server disabled the webhook. */
  disabled_reason?: string;
  /** Events that were dropped because the queue was full. */
  dropped: number;
  enabled: boolean;
  events: string[];
  /** Since when every delivery has failed. Absent if deliveries succeed. */
  failing_since?: string;
  id: string;
  /** Until when deliveries are also signed with the previous secret. */
  old_secret_expires_at?: string;
  /** The secret that signs deliveries. Only present in the responses that create one. */
  secret?: string;
  updated_at: string;
  url: string;
}

/** A workspace's own limit for the cost of a month. */
export interface WorkspaceBudget {
  /** Share of the budget from which an alert is sent, in percent. 80 if it is not named. */
  alert_percent: number;
  /** Whether sandboxes are put to sleep, and nothing new starts, when the budget is used up. */
  hard_cap: boolean;
  /** What may be charged in a month. */
  monthly_usd: number;
}

/** A workspace's own limit for the cost of a month. */
export interface WorkspaceBudgetRequest {
  /** Share of the budget from which an alert is sent, in percent. 80 if it is not named. */
  alert_percent?: number;
  /** Whether sandboxes are put to sleep, and nothing new starts, when the budget is used up. */
  hard_cap?: boolean;
  /** What may be charged in a month. */
  monthly_usd: number;
}

/** One event of a workspace. */
export interface WorkspaceEvent {
  /** The managed database that the sandbox is the machine of. Absent for plain sandboxes. */
  database_id?: string;
  /** The place after this event, for `since` and `Last-Event-ID`. */
  id: string;
  /** The kind, such as `sandbox.paused` or `volume.changed`. */
  kind: string;
  /** Details. An event that changes a sandbox's state has the new `status`. */
  payload: Record<string, unknown>;
  sandbox_id?: string;
  ts: string;
}

/** Recent events of a workspace, oldest first. */
export interface WorkspaceEvents {
  /** The place after the last event, for `since`. */
  cursor: string;
  events: WorkspaceEvent[];
}

/** The answer to a file write. */
export interface Written {
  bytes: number;
  path: string;
}
