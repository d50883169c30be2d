/** One sandbox: commands, code, files, forks, sleep. */

import type { Client } from "./client.js";
import { clientOf } from "./client-of.js";
import { CodeContext } from "./code.js";
import type { ExecResult, OutputCallbacks, RunningCommand } from "./command.js";
import type { ClientConfig } from "./config.js";
import type * as models from "./core/models.js";
import * as operations from "./core/operations.js";
import { sleep } from "./deadline.js";
import { defined } from "./defined.js";
import { NotFoundError } from "./errors.js";
import type { CommandLine, ExecOptions, ExecStreamOptions } from "./exec.js";
import { runCommand, streamCommand } from "./exec.js";
import type { ExecSocketOptions } from "./exec-socket.js";
import { ExecSocket } from "./exec-socket.js";
import type { Candidate, ExploreOptions, ExploreResult } from "./explore.js";
import { explore } from "./explore.js";
import { FilesystemNamespace } from "./files.js";
import { ForkTree } from "./fork-tree.js";
import type { LogsOptions } from "./logs.js";
import { consoleLines, sandboxEvents } from "./logs.js";
import { Ports } from "./ports.js";
import type { SandboxProcess, SpawnOptions } from "./processes.js";
import { Processes } from "./processes.js";
import { environment } from "./runtime.js";
import type { SandboxCreateOptions } from "./sandboxes.js";
import type { SnapshotInfo } from "./snapshots.js";
import type { TerminalOptions } from "./terminal.js";
import { Terminal } from "./terminal.js";
import type { CallOptions } from "./transport.js";

/** A sandbox, as the server describes it. */
export interface SandboxInfo {
  id: string;
  template: string;
  cpu: number;
  memory_mb: number;
  /** `creating`, `running`, `paused`, `hibernated`, `stopping`, `failed` and others. */
  status: string;
  /** Why the sandbox failed. */
  status_reason?: string;
  guest_ip?: string;
  host_tap?: string;
  mac?: string;
  vsock_cid?: number;
  metadata?: Record<string, string>;
  from_snapshot?: string;
  boot_ms?: number;
  boot_mode?: string;
  created_at?: string;
  persistent?: boolean;
  ttl_seconds?: number;
  egress_allowlist?: string[];
  egress_mbps?: number;
  isolation?: string;
  isolation_warning?: string;
  volumes?: models.VolumeAttachment[];
  /** The managed database that this is the machine of. */
  database_id?: string;
}

/** The idle limit of a sandbox. */
export interface LifecycleInfo {
  ttl_seconds: number;
  persistent: boolean;
  idle_seconds: number;
}

/** What a promotion did. */
export interface PromoteResult {
  winner: string;
  tree_id?: string;
  deleted?: string[];
  failures?: Record<string, string>;
}

/** Options of a fork. */
export interface SandboxForkOptions extends CallOptions {
  metadata?: Record<string, string> | undefined;
}

/** Options of a fork tree. */
export interface SandboxForkTreeOptions extends SandboxForkOptions {
  count: number;
}

/** Options of a promotion. */
export interface PromoteOptions extends CallOptions {
  /** Deletes all other branches of the tree. */
  cleanupSiblings?: boolean | undefined;
  treeId?: string | undefined;
}

/** Options of a comparison. */
export interface DiffOptions extends CallOptions {
  /** Compares only what is below this absolute path. */
  path?: string | undefined;
}

/** Callbacks and time limit of `execStream`. */
export interface ExecStreamCallbacks extends ExecStreamOptions {}

const SNAPSHOT_MS = 180_000;
const DIFF_MS = 120_000;
const READY_MS_DEFAULT = 20_000;
// What a server says while the machine of a new sandbox is not yet reachable.
const NOT_READY_TEXTS = ["connect: connection refused", "no route to host", "i/o timeout"];

/**
 * A sandbox: a Linux machine of its own.
 *
 * ```ts
 * await using sandbox = await Sandbox.create({ template: "code-interpreter" });
 * const { stdout } = await sandbox.exec("uname -a");
 * ```
 *
 * `await using` deletes the sandbox at the end of the block.
 */
export class Sandbox implements AsyncDisposable {
  readonly filesystem: FilesystemNamespace;
  readonly commands: CommandsNamespace;
  /** Processes that outlive the request that starts them. */
  readonly processes: Processes;
  /** Ports and links to them. */
  readonly ports: Ports;
  readonly #client: Client;
  #info: SandboxInfo;

  private constructor(info: SandboxInfo, client: Client) {
    this.#info = info;
    this.#client = client;
    this.filesystem = new FilesystemNamespace(client, info.id, this);
    this.commands = new CommandsNamespace(this);
    this.processes = new Processes(client.transport, info.id);
    this.ports = new Ports(client.transport, info.id);
  }

  /** The sandbox as it was last read. See {@link refresh}. */
  get info(): SandboxInfo {
    return this.#info;
  }

  /** The client that this sandbox was made with. */
  get client(): Client {
    return this.#client;
  }

  get id(): string {
    return this.#info.id;
  }

  get template(): string {
    return this.#info.template;
  }

  get status(): string {
    return this.#info.status;
  }

  get metadata(): Record<string, string> {
    return this.#info.metadata ?? {};
  }

  /** The same as {@link filesystem}. */
  get files(): FilesystemNamespace {
    return this.filesystem;
  }

  /** Creates a sandbox. Returns when it is ready. */
  static create(
    options: SandboxCreateOptions = {},
    config?: ClientConfig | Client,
  ): Promise<Sandbox> {
    return clientOf(config).sandboxes.create(options);
  }

  /** Creates a sandbox from a snapshot. */
  static fromSnapshot(
    snapshot: string | { id: string },
    options: SandboxCreateOptions = {},
    config?: ClientConfig | Client,
  ): Promise<Sandbox> {
    const id = typeof snapshot === "string" ? snapshot : snapshot.id;
    return Sandbox.create({ ...options, fromSnapshot: id }, config);
  }

  /** All sandboxes of the workspace, newest first. */
  static list(config?: ClientConfig | Client): Promise<Sandbox[]> {
    return clientOf(config).sandboxes.list();
  }

  /** A sandbox by its id. */
  static get(id: string, config?: ClientConfig | Client): Promise<Sandbox> {
    return clientOf(config).sandboxes.get(id);
  }

  /** A sandbox from what is known about it. Sends nothing. */
  static fromInfo(info: SandboxInfo, client: Client): Sandbox {
    return new Sandbox(info, client);
  }

  /** Reads the sandbox again. A sleeping sandbox is not woken. */
  async refresh(options: CallOptions = {}): Promise<this> {
    const call = operations.getSandboxesId(this.id);
    this.#info = await this.#client.transport.json(call, options);
    return this;
  }

  /** Repeats work for a while if the machine is not yet reachable. */
  async _retryOnWarmup<T>(work: () => Promise<T>): Promise<T> {
    const named = Number(environment("PANDASTACK_EXEC_READY_TIMEOUT_MS") ?? READY_MS_DEFAULT);
    const end = Date.now() + (Number.isFinite(named) ? named : READY_MS_DEFAULT);
    for (let wait = 500; ; wait = Math.min(wait * 1.5, 2000)) {
      try {
        return await work();
      } catch (error) {
        const text = error instanceof Error ? error.message : String(error);
        const isEarly = NOT_READY_TEXTS.some((one) => text.includes(one));
        if (!isEarly || Date.now() >= end) throw error;
        await sleep(wait);
      }
    }
  }

  /**
   * Runs a command and returns its output and exit code. A text is a shell command line; an array
   * is a program with its arguments, without a shell.
   *
   * ```ts
   * const { stdout } = await sandbox.exec("npm test", { timeoutSeconds: 300, check: true });
   * ```
   */
  exec(command: CommandLine, options: ExecOptions = {}): Promise<ExecResult> {
    const { transport, timeoutMs } = this.#client;
    return this._retryOnWarmup(() => runCommand(transport, this.id, command, options, timeoutMs));
  }

  /** The same as {@link exec}. */
  run(command: CommandLine, options: ExecOptions = {}): Promise<ExecResult> {
    return this.exec(command, options);
  }

  /**
   * Starts a command and streams its output. If the connection breaks, the command ends and the
   * stream fails with `ExecInterrupted`.
   *
   * ```ts
   * for await (const { data } of sandbox.stream("make")) process.stdout.write(data);
   * const { exitCode } = await sandbox.stream("make", { onStdout: print }).wait();
   * ```
   */
  stream(command: CommandLine, options: ExecStreamOptions = {}): RunningCommand {
    return streamCommand(this.#client.transport, this.id, command, options);
  }

  /** Runs a command, hands its output to callbacks and returns its exit code. */
  async execStream(command: CommandLine, options: ExecStreamCallbacks = {}): Promise<number> {
    return (await this.stream(command, options).wait(options)).exitCode;
  }

  /** One WebSocket for many commands, for loops that run many short ones. */
  execSocket(options: ExecSocketOptions = {}): ExecSocket {
    return new ExecSocket(this.#client.transport, this.id, options);
  }

  /** Starts a process that goes on when this program ends. The same as `processes.start`. */
  spawn(command: CommandLine, options: SpawnOptions = {}): Promise<SandboxProcess> {
    return this.processes.start(command, options);
  }

  /** Opens a terminal. */
  terminal(options: TerminalOptions = {}): Promise<Terminal> {
    const { rows, cols, cmd } = options;
    const call = operations.getSandboxesIdExecPty(this.id, defined({ rows, cols, cmd }));
    return Terminal.open(this.#client.transport, call, options);
  }

  /** Opens a terminal with a login shell, by the route of the `ssh` command. */
  ssh(options: Omit<TerminalOptions, "cmd"> = {}): Promise<Terminal> {
    const { rows, cols } = options;
    const call = operations.getSandboxesIdSsh(this.id, defined({ rows, cols }));
    return Terminal.open(this.#client.transport, call, options);
  }

  /** Runs code once, as a command. Use a code context to keep variables. */
  runCode(
    code: string,
    language: "python" | "shell" = "shell",
    options: ExecOptions = {},
  ): Promise<ExecResult> {
    if (language !== "python") return this.exec(code, options);
    // The end mark is random, so that no code can contain it. Pages without https have no randomUUID.
    const end = `END_${crypto.getRandomValues(new Uint32Array(4)).join("_")}`;
    return this.exec(`python3 - <<'${end}'\n${code}\n${end}`, options);
  }

  /** Runs code once in a new interpreter of a language, by the server. */
  runOnce(
    code: string,
    options: CallOptions & {
      language?: string | undefined;
      timeoutSeconds?: number | undefined;
    } = {},
  ): Promise<models.RanOnce> {
    const { language, timeoutSeconds } = options;
    const timeout_ms = timeoutSeconds === undefined ? undefined : Math.round(timeoutSeconds * 1000);
    const body = { code, ...defined({ language, timeout_ms }) };
    return this.#client.transport.json(operations.postSandboxesIdRepl(this.id, body), options);
  }

  /** Starts a kernel that keeps its variables from one cell to the next. */
  async createCodeContext(language = "python", options: CallOptions = {}): Promise<CodeContext> {
    const wanted = language === "py" || language === "python3" ? "python" : language;
    const call = operations.postSandboxesIdReplSessions(this.id, { language: wanted });
    const session = await this._retryOnWarmup(() => this.#client.transport.json(call, options));
    return new CodeContext(this.#client, this.id, session.id, wanted);
  }

  /** The kernels of this sandbox. A fork has copies of those of its parent, with the same ids. */
  async codeContexts(options: CallOptions = {}): Promise<CodeContext[]> {
    const call = operations.getSandboxesIdReplSessions(this.id);
    const sessions = await this.#client.transport.json(call, options);
    return sessions.map(({ id, language }) => new CodeContext(this.#client, this.id, id, language));
  }

  /** A kernel by its id, for example the copy in a fork. Sends nothing. */
  codeContext(id: string, language = "python"): CodeContext {
    return new CodeContext(this.#client, this.id, id, language);
  }

  /** Yields the lines of the console, and with `follow` further ones as they come. */
  logs(options: LogsOptions = {}): AsyncGenerator<string> {
    return consoleLines(this.#client.transport, this.id, options);
  }

  /** The recent events of this sandbox, oldest first. */
  async events(
    options: CallOptions & { tail?: number | undefined; since?: string | undefined } = {},
  ): Promise<models.Event[]> {
    const { tail, since } = options;
    const call = operations.getSandboxesIdEvents(this.id, defined({ tail, since }));
    return (await this.#client.transport.json(call, options)).events;
  }

  /** Yields events of this sandbox as they happen. Connects again after a cut. */
  followEvents(
    options: CallOptions & { tail?: number | undefined; since?: string | undefined } = {},
  ): AsyncGenerator<models.Event> {
    return sandboxEvents(this.#client.transport, this.id, options);
  }

  /** Current usage of the machine. */
  metrics(options: CallOptions = {}): Promise<models.MachineMetrics> {
    return this.#client.transport.json(operations.getSandboxesIdMetrics(this.id), options);
  }

  /** Deletes the sandbox. */
  async kill(options: CallOptions = {}): Promise<void> {
    await this.#client.sandboxes.delete(this.id, options);
  }

  /** The same as {@link kill}. */
  delete(options: CallOptions = {}): Promise<void> {
    return this.kill(options);
  }

  /** The same as {@link kill}; a sandbox that is already gone is no error. */
  async close(options: CallOptions = {}): Promise<void> {
    await this.kill(options).catch((error: unknown) => {
      if (!(error instanceof NotFoundError)) throw error;
    });
  }

  /** Stops the CPUs. The memory stays. */
  async pause(options: CallOptions = {}): Promise<void> {
    await this.#client.transport.empty(operations.postSandboxesIdPause(this.id), options);
  }

  /** Goes on after {@link pause}. */
  async resume(options: CallOptions = {}): Promise<void> {
    await this.#client.transport.empty(operations.postSandboxesIdResume(this.id), options);
  }

  /** Saves memory and disk. The sandbox goes on. Start others with `Sandbox.fromSnapshot`. */
  snapshot(options: CallOptions = {}): Promise<SnapshotInfo> {
    const call = operations.postSandboxesIdSnapshots(this.id);
    return this.#client.transport.json(call, { timeoutMs: SNAPSHOT_MS, ...defined(options) });
  }

  /** A running copy of this sandbox, with its memory and disk. */
  async fork(options: SandboxForkOptions = {}): Promise<Sandbox> {
    const { metadata } = options;
    const body = metadata === undefined ? undefined : { metadata };
    const call = operations.postSandboxesIdFork(this.id, body);
    const fork = await this.#client.transport.json(call, { ...options, creates: true });
    return new Sandbox(firstChild(fork, this.#info), this.#client);
  }

  /** Several running copies of this sandbox, as one tree. */
  async forkTree(
    count: number | SandboxForkTreeOptions,
    more: SandboxForkOptions = {},
  ): Promise<ForkTree> {
    const options = typeof count === "number" ? { ...more, count } : count;
    const body = { count: options.count, ...defined({ metadata: options.metadata }) };
    const call = operations.postSandboxesIdForkTree(this.id, body);
    const tree = await this.#client.transport.json(call, { ...options, creates: true });
    const children = childrenOf(tree).map((child) => childInfo(child, this.#info));
    return new ForkTree(
      children.map((info) => new Sandbox(info, this.#client)),
      {
        id: tree.tree_id ?? children[0]?.metadata?.["fork_tree_id"] ?? "",
        parentId: tree.parent_id ?? this.id,
        snapshotId: tree.snapshot_id ?? "",
        errors: tree.errors ?? [],
      },
    );
  }

  /** Makes this branch of a fork tree a sandbox of its own. */
  promote(options?: PromoteOptions): Promise<PromoteResult>;
  /** The same, with the id of the tree first. */
  promote(treeId: string, cleanupSiblings?: boolean | PromoteOptions): Promise<PromoteResult>;
  promote(
    first: string | PromoteOptions = {},
    second: boolean | PromoteOptions = {},
  ): Promise<PromoteResult> {
    const more = typeof second === "boolean" ? { cleanupSiblings: second } : second;
    const options: PromoteOptions = typeof first === "string" ? { ...more, treeId: first } : first;
    const body: models.PromoteRequest = {
      cleanup_siblings: options.cleanupSiblings ?? false,
      ...defined({ tree_id: options.treeId }),
    };
    const call = operations.postSandboxesIdPromote(this.id, body);
    return this.#client.transport.json(call, options);
  }

  /** Ancestors, siblings and descendants, parents before their children. */
  tree(options: CallOptions = {}): Promise<models.FamilyTree> {
    return this.#client.transport.json(operations.getSandboxesIdTree(this.id), options);
  }

  /**
   * What differs between this sandbox and another one of its family: changed files, and processes
   * that only one of them has. Wakes both if they sleep.
   */
  diff(other: string | Sandbox, options: DiffOptions = {}): Promise<models.BranchDiff> {
    const { path, signal, timeoutMs = DIFF_MS } = options;
    const query = { with: typeof other === "string" ? other : other.id, ...defined({ path }) };
    const call = operations.getSandboxesIdDiff(this.id, query);
    return this.#client.transport.json(call, { signal, timeoutMs });
  }

  /**
   * Tries several ways at once, each in its own fork, and keeps the best.
   *
   * ```ts
   * const { winner } = await sandbox.explore(["./solve --fast", "./solve --exact"], {
   *   scoreFn: (_, outcome) => (outcome.stdoutTail.includes("PASS") ? 1 : 0),
   * });
   * ```
   */
  explore(
    candidates: Array<Candidate | string>,
    options: ExploreOptions = {},
  ): Promise<ExploreResult> {
    return explore(this, candidates, options);
  }

  /** Puts the sandbox to sleep: memory and disk are saved, and it costs no CPU. */
  async hibernate(options: CallOptions = {}): Promise<void> {
    await this.#client.transport.json(operations.postSandboxesIdHibernate(this.id), options);
  }

  /** Wakes the sandbox. Any use of it does that too. */
  async wake(options: CallOptions = {}): Promise<void> {
    await this.#client.transport.json(operations.postSandboxesIdWake(this.id), options);
  }

  /** The same as {@link hibernate}, by its other route. */
  async stop(options: CallOptions = {}): Promise<void> {
    await this.#client.transport.json(operations.postSandboxesIdStop(this.id), options);
  }

  /** The same as {@link wake}, by its other route. */
  async start(options: CallOptions = {}): Promise<void> {
    await this.#client.transport.json(operations.postSandboxesIdStart(this.id), options);
  }

  /** Sets the idle limit in seconds. 0 means none. */
  setTtl(seconds: number, options: CallOptions = {}): Promise<LifecycleInfo> {
    const call = operations.patchSandboxesIdLifecycle(this.id, { ttl_seconds: seconds });
    return this.#client.transport.json(call, options);
  }

  /** Chooses whether the sandbox sleeps at its idle limit, instead of being deleted. */
  setPersistent(persistent: boolean, options: CallOptions = {}): Promise<LifecycleInfo> {
    const call = operations.patchSandboxesIdLifecycle(this.id, { persistent });
    return this.#client.transport.json(call, options);
  }

  /** The idle limit and the idle time. */
  lifecycle(options: CallOptions = {}): Promise<LifecycleInfo> {
    return this.#client.transport.json(operations.getSandboxesIdLifecycle(this.id), options);
  }

  /** The destinations that the sandbox may reach. Null means no list. */
  async egress(options: CallOptions = {}): Promise<string[] | null> {
    const call = operations.getSandboxesIdEgress(this.id);
    return (await this.#client.transport.json(call, options)).egress_allowlist;
  }

  /**
   * Sets the destinations that the sandbox may reach, at once: host names, `*.suffix` or IPv4
   * networks. An empty list allows nothing, null everything that the host allows.
   */
  async setEgress(allowlist: string[] | null, options: CallOptions = {}): Promise<string[] | null> {
    const call = operations.putSandboxesIdEgress(this.id, { egress_allowlist: allowlist });
    return (await this.#client.transport.json(call, options)).egress_allowlist;
  }

  /**
   * The public address of a port: `https://{port}-{id}.{host}`. Everybody who knows it can open it.
   * The host is that of the server without a leading `api.`; `previewHost` sets another.
   */
  previewUrl(port: number, scheme: "http" | "https" = "https"): string {
    if (!Number.isInteger(port) || port < 1 || port > 65535) {
      throw new RangeError(`${port} is not a port; use 1 to 65535`);
    }
    return `${scheme}://${port}-${this.id}.${this.#client.previewSuffix}`;
  }

  /** The public address of every port that is in use or declared. */
  async previewUrls(options: CallOptions = {}): Promise<Record<number, string>> {
    const ports = await this.ports.list(options);
    return Object.fromEntries(ports.map(({ port }) => [port, this.previewUrl(port)]));
  }

  /** Sends a request to a port of the sandbox, with the API key, through the server. */
  fetch(
    port: number,
    path = "/",
    init: RequestInit & { timeoutMs?: number | undefined } = {},
  ): Promise<Response> {
    return this.#client.proxied(this.id, port, path, init);
  }

  /** Sends a message of the Model Context Protocol (JSON-RPC) to the sandbox's tools. */
  mcp(message: unknown, options: CallOptions = {}): Promise<unknown> {
    return this.#client.transport.json(operations.postSandboxesIdMcp(this.id, message), options);
  }

  /** Deletes the sandbox, at the end of an `await using` block. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** A short form for logs. */
  toString(): string {
    return `Sandbox(${this.id}, ${this.template}, ${this.status})`;
  }

  toJSON(): SandboxInfo {
    return this.#info;
  }

  /** What Node's `console.log` shows. */
  [Symbol.for("nodejs.util.inspect.custom")](): string {
    return this.toString();
  }
}

/** Runs commands. The same as `exec` of the sandbox. */
export class CommandsNamespace {
  readonly #sandbox: Sandbox;

  constructor(sandbox: Sandbox) {
    this.#sandbox = sandbox;
  }

  run(command: CommandLine, options: ExecOptions = {}): Promise<ExecResult> {
    return this.#sandbox.exec(command, options);
  }

  stream(command: CommandLine, options: ExecStreamOptions & OutputCallbacks = {}): RunningCommand {
    return this.#sandbox.stream(command, options);
  }
}

/** Servers of other versions name only the ids of children, or leave out fields. */
type Child = string | SandboxInfo;

function firstChild(fork: models.Fork | SandboxInfo, parent: SandboxInfo): SandboxInfo {
  const answer = fork as { sandbox?: Child; children?: Child[] };
  const child = answer.sandbox ?? answer.children?.[0] ?? (fork as SandboxInfo);
  return childInfo(child, parent);
}

function childrenOf(tree: models.ForkTree): Child[] {
  if (Array.isArray(tree)) return tree as Child[];
  const other = tree as { items?: Child[]; sandboxes?: Child[] };
  return tree.children ?? other.items ?? other.sandboxes ?? [];
}

function childInfo(child: Child, parent: SandboxInfo): SandboxInfo {
  if (typeof child !== "string") return { ...child, status: child.status ?? "running" };
  const { template, cpu, memory_mb } = parent;
  return { id: child, template, cpu, memory_mb, status: "running" };
}
