/** Processes that outlive the request that started them. Their output has offsets. */

import type { ExecResult, OutputCallbacks } from "./command.js";
import { checked, RunningCommand } from "./command.js";
import type { RequestBytes } from "./core/call.js";
import type * as models from "./core/models.js";
import * as operations from "./core/operations.js";
import { sleep } from "./deadline.js";
import { defined } from "./defined.js";
import {
  CommandCancelled,
  NetworkError,
  NotFoundError,
  PandaStackError,
  SandboxTimeout,
  ServerError,
} from "./errors.js";
import type { CommandLine, CommandOptions } from "./exec.js";
import { commandFields, nameOf } from "./exec.js";
import { eventObject } from "./sse.js";
import type { CallOptions, Transport } from "./transport.js";

/** A process, as the server describes it. */
export type ProcessInfo = models.Process;

/** How a process is started. */
export interface SpawnOptions extends CommandOptions, CallOptions {
  /** Keeps standard input open for {@link SandboxProcess.write}. */
  stdin?: boolean | undefined;
  /** A name of the caller's choice. */
  tag?: string | undefined;
}

/** How output is followed. */
export interface FollowOptions extends CallOptions {
  /** Where to start, in bytes of both streams together. 0 by default. */
  offset?: number | undefined;
  /** How long a broken connection is opened again before the error is thrown. 60 s by default. */
  reconnectMs?: number | undefined;
}

/** An event of a followed process. `exit` is last. */
export type ProcessEvent =
  | { readonly type: "stdout" | "stderr"; readonly data: string; readonly offset: number }
  /** Output before the offset is no longer kept. */
  | { readonly type: "lost"; readonly bytes: number; readonly offset: number }
  | {
      readonly type: "exit";
      readonly exitCode: number;
      readonly status: string;
      readonly timedOut: boolean;
      readonly offset: number;
    };

const RECONNECT_MS = 60_000;
const RECONNECT_WAIT_MS_MAX = 2_000;

/** The processes of one sandbox. */
export class Processes {
  readonly #transport: Transport;
  readonly #sandboxId: string;

  constructor(transport: Transport, sandboxId: string) {
    this.#transport = transport;
    this.#sandboxId = sandboxId;
  }

  /**
   * Starts a process. It goes on when this program ends.
   *
   * ```ts
   * const server = await sandbox.processes.start("python3 -m http.server 3000", { tag: "web" });
   * ```
   */
  async start(command: CommandLine, options: SpawnOptions = {}): Promise<SandboxProcess> {
    const { cwd, env, user, stdin, tag, timeoutSeconds: timeout_seconds } = options;
    const body: models.SpawnRequest = {
      ...commandFields(command),
      ...defined({ cwd, env, user, stdin, tag, timeout_seconds }),
    };
    const call = operations.postSandboxesIdProcesses(this.#sandboxId, body);
    return this.#handle(await this.#transport.json(call, options));
  }

  /** The processes that the sandbox remembers, oldest first. */
  async list(options: CallOptions = {}): Promise<SandboxProcess[]> {
    const call = operations.getSandboxesIdProcesses(this.#sandboxId);
    return (await this.#transport.json(call, options)).map((info) => this.#handle(info));
  }

  /** One process by its id. */
  async get(id: string, options: CallOptions = {}): Promise<SandboxProcess> {
    const call = operations.getSandboxesIdProcessesProcess(this.#sandboxId, id);
    return this.#handle(await this.#transport.json(call, options));
  }

  #handle(info: ProcessInfo): SandboxProcess {
    return new SandboxProcess(this.#transport, this.#sandboxId, info);
  }
}

/** One process. It and its output survive sleep; a fork has its own copy. */
export class SandboxProcess {
  /** The state when it was last read. */
  info: ProcessInfo;
  readonly #transport: Transport;
  readonly #sandboxId: string;

  constructor(transport: Transport, sandboxId: string, info: ProcessInfo) {
    this.#transport = transport;
    this.#sandboxId = sandboxId;
    this.info = info;
  }

  get id(): string {
    return this.info.id;
  }

  get pid(): number {
    return this.info.pid;
  }

  /** Reads the state again. */
  async refresh(options: CallOptions = {}): Promise<ProcessInfo> {
    const call = operations.getSandboxesIdProcessesProcess(this.#sandboxId, this.id);
    this.info = await this.#transport.json(call, options);
    return this.info;
  }

  /** The output after an offset, as it is now. */
  output(
    options: CallOptions & { offset?: number | undefined } = {},
  ): Promise<models.ProcessOutput> {
    const call = operations.getSandboxesIdProcessesProcessOutput(
      this.#sandboxId,
      this.id,
      defined({ offset: options.offset }),
    );
    return this.#transport.json(call, options);
  }

  /**
   * Yields the output as it comes, until the process ends. A broken connection is opened again and
   * goes on after the last byte that was received.
   */
  async *follow(options: FollowOptions = {}): AsyncGenerator<ProcessEvent, void> {
    const { signal, timeoutMs } = options;
    let offset = options.offset ?? 0;
    let brokenAt: number | undefined;
    for (let wait = 100; ; ) {
      try {
        const query = { offset, follow: true };
        const call = operations.getSandboxesIdProcessesProcessOutputStream(
          this.#sandboxId,
          this.id,
          query,
        );
        for await (const event of this.#transport.events(call, { signal, timeoutMs })) {
          brokenAt = undefined;
          wait = 100;
          const understood = processEvent(event.event, eventObject(event));
          if (understood === undefined) continue;
          offset = understood.offset;
          yield understood;
          if (understood.type === "exit") return;
        }
        throw new NetworkError(`process ${this.id}: the stream of its output ended early`);
      } catch (error) {
        if (signal?.aborted || !canReconnect(error)) throw error;
        brokenAt ??= Date.now();
        if (Date.now() - brokenAt > (options.reconnectMs ?? RECONNECT_MS)) throw error;
        await sleep(wait, signal);
        wait = Math.min(wait * 2, RECONNECT_WAIT_MS_MAX);
      }
    }
  }

  /** Waits for the end and returns the result. With `check` an exit code other than 0 is an error. */
  async wait(
    options: FollowOptions & OutputCallbacks & { check?: boolean | undefined } = {},
  ): Promise<ExecResult> {
    const result = await this.attach(options).wait();
    return options.check ? checked(this.info.cmd, result) : result;
  }

  /** The process as a command: its output, input and result. Cancelling it kills the process. */
  attach(options: FollowOptions & OutputCallbacks = {}): RunningCommand {
    const stop = new AbortController();
    const caller = options.signal;
    const abort = (): void => stop.abort(caller?.reason);
    if (caller?.aborted) abort();
    caller?.addEventListener("abort", abort, { once: true });
    const name = nameOf(this.info.cmd);
    return new RunningCommand(name, options, (sink) => {
      const read = async (): Promise<void> => {
        for await (const event of this.follow({ ...options, signal: stop.signal })) {
          if (event.type === "stdout" || event.type === "stderr") {
            await sink.output(event.type, event.data);
          } else if (event.type === "exit") {
            if (event.timedOut) throw new SandboxTimeout(`process timed out: ${name}`);
            return sink.exit(event.exitCode);
          }
        }
      };
      read()
        .catch((error: unknown) => sink.fail(error))
        .finally(() => caller?.removeEventListener("abort", abort));
      return {
        cancel: async () => {
          stop.abort(new CommandCancelled(`command cancelled: ${name}`));
          await this.kill();
        },
        write: async (data) => {
          await this.write(data);
        },
        closeStdin: () => this.closeStdin(),
        signal: (signal) => this.signal(signal),
      };
    });
  }

  /** Writes to standard input. Returns the number of bytes. */
  async write(data: RequestBytes, options: CallOptions & { end?: boolean } = {}): Promise<number> {
    const query = defined({ end: options.end });
    const call = operations.postSandboxesIdProcessesProcessStdin(
      this.#sandboxId,
      this.id,
      data,
      query,
    );
    return (await this.#transport.json(call, options)).bytes;
  }

  /** Closes standard input. */
  async closeStdin(options: CallOptions = {}): Promise<void> {
    await this.write("", { ...options, end: true });
  }

  /** Sends a signal by name, such as `INT`, or number, to the process and its children. */
  async signal(signal: string | number, options: CallOptions = {}): Promise<void> {
    const call = operations.postSandboxesIdProcessesProcessSignal(this.#sandboxId, this.id, {
      signal,
    });
    await this.#transport.empty(call, options);
  }

  /** Kills the process with its children, and forgets it. */
  async kill(options: CallOptions = {}): Promise<void> {
    const call = operations.deleteSandboxesIdProcessesProcess(this.#sandboxId, this.id);
    try {
      await this.#transport.empty(call, { ...options, noRetry: true });
    } catch (error) {
      if (!(error instanceof NotFoundError)) throw error;
    }
  }
}

function processEvent(name: string, data: Record<string, unknown>): ProcessEvent | undefined {
  const offset = Number(data["offset"] ?? 0);
  if (name === "stdout" || name === "stderr") {
    return { type: name, data: String(data["chunk"] ?? ""), offset };
  }
  if (name === "lost") return { type: "lost", bytes: Number(data["bytes"] ?? 0), offset };
  if (name === "exit") {
    return {
      type: "exit",
      exitCode: Number(data["exit_code"] ?? 0),
      status: String(data["status"] ?? ""),
      timedOut: data["timed_out"] === true,
      offset,
    };
  }
  // The sandbox was put to sleep, or the server stops: the same request goes on later.
  if (name === "error") throw new NetworkError(String(data["error"] ?? "the stream failed"));
  return undefined;
}

/** A cut, or a server that just restarts, is worth another try. A refusal is not. */
function canReconnect(error: unknown): boolean {
  if (error instanceof NetworkError) return true;
  return error instanceof ServerError && error instanceof PandaStackError && error.status !== 500;
}
