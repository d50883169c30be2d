/**
 * Many commands on one WebSocket. It saves the handshake of a request for each command.
 *
 * The server ends the commands of a socket that is lost. So a command in progress then fails with
 * `ExecInterrupted`, and the next command opens a new socket. A command with `resumable` runs as a
 * process instead: it survives the cut, and its output goes on after the last byte received.
 */

import type { CommandControl, CommandSink, ExecResult, OutputCallbacks } from "./command.js";
import { RunningCommand } from "./command.js";
import * as operations from "./core/operations.js";
import { orAborted, sleep } from "./deadline.js";
import { defined } from "./defined.js";
import {
  BadRequestError,
  CommandCancelled,
  NetworkError,
  PandaStackError,
  SandboxTimeout,
  ServerError,
  TimeoutError,
} from "./errors.js";
import type { CommandLine, CommandOptions } from "./exec.js";
import { commandFailure, commandFields, nameOf } from "./exec.js";
import { Processes } from "./processes.js";
import type { SocketEnd, SocketLink } from "./socket/link.js";
import { SilenceWatch } from "./socket/silence.js";
import type { CallOptions, Transport } from "./transport.js";

/** Options of an exec socket. */
export interface ExecSocketOptions {
  /** How long opening a socket may take, with all tries. 30 s by default. */
  connectTimeoutMs?: number | undefined;
  /** Silence after which the socket is tested, and after as much again given up. 20 s by default. */
  silenceMs?: number | undefined;
}

/** Options of a command on an exec socket. */
export interface SocketCommandOptions extends CommandOptions, OutputCallbacks {
  /** Text for standard input, or `true` to keep it open for `write`. */
  stdin?: string | boolean | undefined;
  /** Cancels the command. */
  signal?: AbortSignal | undefined;
  /** Fails the command if it has not ended after this many milliseconds. None by default. */
  timeoutMs?: number | undefined;
  /**
   * Runs the command as a process, so that a broken connection or a restart of the server does not
   * end it. Costs two more requests.
   */
  resumable?: boolean | undefined;
}

const CONNECT_TIMEOUT_MS = 30_000;
const SILENCE_MS = 20_000;
const RECONNECT_WAIT_MS_MAX = 2_000;
// Limits of the server, see docs/limits.md. More commands wait here for their turn.
const COMMANDS_MAX = 64;
const MESSAGE_BYTES_MAX = 1024 * 1024;

interface Running {
  readonly sink: CommandSink;
  readonly name: string;
}

/** One socket for many commands. Get it from `sandbox.execSocket()`. */
export class ExecSocket implements AsyncDisposable {
  readonly #transport: Transport;
  readonly #sandboxId: string;
  readonly #options: ExecSocketOptions;
  readonly #running = new Map<string, Running>();
  readonly #waiting: { resolve: () => void; reject: (reason: unknown) => void }[] = [];
  readonly #processes = new Set<AbortController>();
  #slots = COMMANDS_MAX;
  #link: SocketLink | undefined;
  #opening: Promise<SocketLink> | undefined;
  #nextId = 1;
  #watch: SilenceWatch | undefined;
  readonly #closed = new AbortController();

  constructor(transport: Transport, sandboxId: string, options: ExecSocketOptions = {}) {
    this.#transport = transport;
    this.#sandboxId = sandboxId;
    this.#options = options;
  }

  /** Whether the socket is open at the moment. It opens with the first command. */
  get connected(): boolean {
    return this.#link !== undefined;
  }

  /** Number of commands in progress. */
  get inProgress(): number {
    return this.#running.size;
  }

  /** Opens the socket now, instead of with the first command. */
  async connect(options: CallOptions = {}): Promise<this> {
    await orAborted(this.#open(), options.signal);
    return this;
  }

  /**
   * Runs a command and returns its result.
   *
   * ```ts
   * await using socket = sandbox.execSocket();
   * const results = await Promise.all(files.map((file) => socket.exec(["wc", "-l", file])));
   * ```
   */
  exec(
    command: CommandLine,
    options: SocketCommandOptions & { check?: boolean | undefined } = {},
  ): Promise<ExecResult> {
    return this.start(command, options).wait(options);
  }

  /** Starts a command. Its output, input and signals go through the returned object. */
  start(command: CommandLine, options: SocketCommandOptions = {}): RunningCommand {
    const name = nameOf(command);
    return new RunningCommand(name, options, (sink) => {
      const watched = endWatch(sink, name, options, () => control.cancel());
      const control = options.resumable
        ? this.#asProcess(command, options, watched)
        : this.#onSocket(command, options, watched);
      return control;
    });
  }

  /** Ends all commands and closes the socket. */
  async close(): Promise<void> {
    const reason = new CommandCancelled("the exec socket was closed");
    if (!this.#closed.signal.aborted) this.#closed.abort(reason);
    for (const { reject } of this.#waiting.splice(0)) reject(reason);
    for (const process of this.#processes) process.abort(reason);
    this.#watch?.stop();
    const link = this.#link;
    this.#link = undefined;
    link?.close();
    for (const [id, { sink, name }] of [...this.#running]) {
      this.#finish(id);
      sink.fail(new CommandCancelled(`command cancelled, because its socket was closed: ${name}`));
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #onSocket(
    command: CommandLine,
    options: SocketCommandOptions,
    sink: CommandSink,
  ): CommandControl {
    const name = nameOf(command);
    const id = String(this.#nextId++);
    const { cwd, env, user, stdin, timeoutSeconds: timeout_seconds } = options;
    const frame = JSON.stringify({
      id,
      ...commandFields(command),
      ...defined({ cwd, env, user, timeout_seconds }),
      ...(stdin === undefined || stdin === false ? {} : { stdin }),
    });
    let given = false;
    // Input that comes before the command was sent waits here.
    let early: string[] = [];
    const send = (fields: object): void => {
      const text = JSON.stringify({ id, ...fields });
      if (!given) early.push(text);
      else if (this.#running.has(id)) this.#link?.send(text);
    };
    const start = async (): Promise<void> => {
      refuseLong(frame);
      await this.#slot();
      try {
        const link = await this.#open();
        if (cancelled) throw new CommandCancelled(`command cancelled: ${name}`);
        this.#running.set(id, { sink, name });
        given = true;
        link.send(frame);
        for (const text of early) link.send(text);
        early = [];
      } catch (error) {
        this.#free();
        throw error;
      }
    };
    let cancelled = false;
    start().catch((error: unknown) => sink.fail(error));
    return {
      cancel: () => {
        cancelled = true;
        if (this.#running.has(id)) this.#link?.send(JSON.stringify({ id, cancel: true }));
        else sink.fail(new CommandCancelled(`command cancelled: ${name}`));
      },
      write: async (data) => {
        for (const part of textParts(data)) {
          await this.#drained();
          send({ stdin: part });
        }
      },
      closeStdin: () => send({ stdin_close: true }),
      signal: (signal) => send({ signal }),
    };
  }

  #asProcess(
    command: CommandLine,
    options: SocketCommandOptions,
    sink: CommandSink,
  ): CommandControl {
    const processes = new Processes(this.#transport, this.#sandboxId);
    const { cwd, env, user, stdin, timeoutSeconds } = options;
    const keepsInput = stdin !== undefined && stdin !== false;
    const stop = new AbortController();
    this.#processes.add(stop);
    if (this.#closed.signal.aborted) stop.abort(this.#closed.signal.reason);
    const started = processes.start(command, {
      ...defined({ cwd, env, user, timeoutSeconds }),
      stdin: keepsInput,
      signal: stop.signal,
    });
    const run = async (): Promise<void> => {
      const process = await started;
      try {
        if (typeof stdin === "string") await process.write(stdin, { end: true });
        for await (const event of process.follow({ signal: stop.signal })) {
          if (event.type === "stdout" || event.type === "stderr") {
            await sink.output(event.type, event.data);
          } else if (event.type === "exit") {
            if (event.timedOut) throw new SandboxTimeout(`command timed out: ${nameOf(command)}`);
            sink.exit(event.exitCode);
          }
        }
      } finally {
        // The sandbox remembers a limited number of processes.
        await process.kill().catch(() => undefined);
      }
    };
    run()
      .catch((error: unknown) => sink.fail(error))
      .finally(() => this.#processes.delete(stop));
    return {
      cancel: async () => {
        const reason = new CommandCancelled(`command cancelled: ${nameOf(command)}`);
        sink.fail(reason);
        // Only a process that has an id can be killed, so its start is not interrupted.
        await (await started).kill();
        stop.abort(reason);
      },
      write: async (data) => {
        await (await started).write(data);
      },
      closeStdin: async () => (await started).closeStdin(),
      signal: async (signal) => (await started).signal(signal),
    };
  }

  async #slot(): Promise<void> {
    if (this.#slots > 0) {
      this.#slots--;
      return;
    }
    await new Promise<void>((resolve, reject) => this.#waiting.push({ resolve, reject }));
  }

  #free(): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#slots++;
    else next.resolve();
  }

  /** Forgets a command after its last frame. */
  #finish(id: string): void {
    if (this.#running.delete(id)) this.#free();
  }

  /** The open socket; opens one if there is none. */
  async #open(): Promise<SocketLink> {
    this.#closed.signal.throwIfAborted();
    if (this.#link !== undefined) return this.#link;
    this.#opening ??= this.#connect().finally(() => {
      this.#opening = undefined;
    });
    return this.#opening;
  }

  async #connect(): Promise<SocketLink> {
    const end = Date.now() + (this.#options.connectTimeoutMs ?? CONNECT_TIMEOUT_MS);
    for (let wait = 100; ; wait = Math.min(wait * 2, RECONNECT_WAIT_MS_MAX)) {
      try {
        const call = operations.getSandboxesIdExecWs(this.#sandboxId);
        const timeoutMs = Math.max(1, end - Date.now());
        const signal = this.#closed.signal;
        return this.#attach(await this.#transport.socket(call, { timeoutMs, signal }));
      } catch (error) {
        const again = error instanceof NetworkError || error instanceof ServerError;
        if (!again || error instanceof TimeoutError || Date.now() + wait > end) throw error;
        await sleep(wait, this.#closed.signal);
      }
    }
  }

  #attach(link: SocketLink): SocketLink {
    if (this.#closed.signal.aborted) {
      link.close();
      throw this.#closed.signal.reason;
    }
    this.#link = link;
    link.handlers.onText = (text) => this.#frame(link, text);
    link.handlers.onEnd = (end) => this.#lost(link, end);
    const silenceMs = this.#options.silenceMs ?? SILENCE_MS;
    // Where there is no ping, a frame without an id is answered with an error.
    this.#watch = new SilenceWatch(link, silenceMs, () => {
      if (!link.ping()) link.send("{}");
      return true;
    });
    return link;
  }

  #frame(link: SocketLink, text: string): void {
    const frame = parsedFrame(text);
    if (frame === undefined) {
      link.abort("the server sent a frame that is not JSON");
      return;
    }
    const running = this.#running.get(frame.id);
    if (running === undefined) return;
    const { sink, name } = running;
    if (frame.data !== undefined) {
      const full = sink.output(frame.stream === "stderr" ? "stderr" : "stdout", frame.data);
      if (full === undefined) return;
      // One slow reader must not hold up the other commands of the socket.
      link.send(JSON.stringify({ id: frame.id, cancel: true }));
      this.#finish(frame.id);
      sink.fail(new PandaStackError(`the output is read too slowly: ${name}; use sandbox.stream`));
    } else if (frame.exit !== undefined) {
      this.#finish(frame.id);
      sink.exit(frame.exit);
    } else if (frame.error !== undefined) {
      this.#finish(frame.id);
      sink.fail(commandFailure(frame.error, name));
    }
  }

  #lost(link: SocketLink, end: SocketEnd): void {
    if (this.#link !== link) return;
    this.#link = undefined;
    this.#watch?.stop();
    for (const [id, { sink }] of [...this.#running]) {
      this.#finish(id);
      sink.cut(end.reason || `the socket closed with code ${end.code}`);
    }
  }

  /** Waits while much input is on its way. */
  async #drained(): Promise<void> {
    while ((this.#link?.bufferedBytes ?? 0) > MESSAGE_BYTES_MAX) await sleep(5);
  }
}

interface Frame {
  readonly id: string;
  readonly stream?: string;
  readonly data?: string;
  readonly exit?: number;
  readonly error?: string;
}

function parsedFrame(text: string): Frame | undefined {
  try {
    const frame = JSON.parse(text) as Frame | null;
    return typeof frame?.id === "string" ? frame : undefined;
  } catch {
    return undefined;
  }
}

function refuseLong(frame: string): void {
  // A character has at most three bytes for each unit of its text.
  if (frame.length * 3 <= MESSAGE_BYTES_MAX) return;
  if (new TextEncoder().encode(frame).byteLength > MESSAGE_BYTES_MAX) {
    throw new BadRequestError("the command is longer than 1 MiB; write it to a file and run that");
  }
}

/** Text in parts that fit a message whatever their characters are. */
function* textParts(text: string): Generator<string> {
  const size = 64 * 1024;
  for (let start = 0; start < text.length; ) {
    let end = Math.min(start + size, text.length);
    const last = text.charCodeAt(end - 1);
    // A pair of surrogates is one character.
    if (end < text.length && last >= 0xd800 && last <= 0xdbff) end++;
    yield text.slice(start, end);
    start = end;
  }
}

/** Joins a command with its signal and its deadline, which both cancel it. */
function endWatch(
  sink: CommandSink,
  name: string,
  options: SocketCommandOptions,
  cancel: () => void | Promise<void>,
): CommandSink {
  const { signal, timeoutMs } = options;
  const finish = (): void => {
    clearTimeout(timer);
    signal?.removeEventListener("abort", aborted);
  };
  const give = (error: unknown): void => {
    // The error is set first, so that the server's "cancelled" does not replace it.
    sink.fail(error);
    finish();
    Promise.resolve(cancel()).catch(() => undefined);
  };
  const aborted = (): void => give(signal?.reason);
  const late = (): void =>
    give(new TimeoutError(`command did not end within ${(timeoutMs ?? 0) / 1000} s: ${name}`));
  const timer = timeoutMs ? setTimeout(late, timeoutMs) : undefined;
  if (signal?.aborted) queueMicrotask(aborted);
  else signal?.addEventListener("abort", aborted, { once: true });
  return {
    output: (stream, data) => sink.output(stream, data),
    exit: (code, durationMs) => {
      finish();
      sink.exit(code, durationMs);
    },
    fail: (error) => {
      finish();
      sink.fail(error);
    },
    cut: (reason, cause) => {
      finish();
      sink.cut(reason, cause);
    },
  };
}
