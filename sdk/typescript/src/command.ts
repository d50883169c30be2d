/** A command that runs in a sandbox: its output as it comes, its input, and its end. */

import { CommandError, ExecInterrupted, PandaStackError } from "./errors.js";

/** A piece of output. It can be cut anywhere between two characters. */
export interface CommandOutput {
  readonly stream: "stdout" | "stderr";
  readonly data: string;
}

/** The result of a command. */
export interface ExecResult {
  stdout: string;
  stderr: string;
  exit_code: number;
  duration_ms?: number;
  exitCode: number;
  /** Whether output beyond 16 MiB was left out. */
  truncated?: boolean;
}

/** How a command is observed. */
export interface OutputCallbacks {
  onStdout?: ((chunk: string) => void) | undefined;
  onStderr?: ((chunk: string) => void) | undefined;
}

/** What runs a command calls this. One of `exit`, `fail` and `cut` is called, last. */
export interface CommandSink {
  /** Takes output. Wait for the promise before more is read, if there is one. */
  output(stream: "stdout" | "stderr", data: string): Promise<void> | undefined;
  exit(code: number, durationMs?: number): void;
  fail(error: unknown): void;
  /** The connection broke: fails with the output so far. */
  cut(reason: string, cause?: unknown): void;
}

/** How a running command is controlled. */
export interface CommandControl {
  cancel(): void | Promise<void>;
  write?(data: string): void | Promise<void>;
  closeStdin?(): void | Promise<void>;
  signal?(signal: string): void | Promise<void>;
}

const KEPT_CHARS_MAX = 16 * 1024 * 1024;

/**
 * A running command. Iterate over it for its output, or wait for its result, or both.
 *
 * ```ts
 * const command = sandbox.stream("make test");
 * for await (const { stream, data } of command) process[stream].write(data);
 * const { exitCode } = await command.wait();
 * ```
 */
export class RunningCommand implements AsyncIterable<CommandOutput>, AsyncDisposable {
  readonly #name: string;
  readonly #callbacks: OutputCallbacks;
  readonly #control: CommandControl;
  readonly #started = Date.now();
  readonly #kept = { stdout: new KeptText(), stderr: new KeptText() };
  readonly #end: Promise<ExecResult>;
  #resolve: (result: ExecResult) => void = () => undefined;
  #reject: (error: unknown) => void = () => undefined;
  #queue: CommandOutput[] = [];
  #queuedChars = 0;
  #isRead = false;
  #abandoned = false;
  #ended: { readonly error?: unknown } | undefined;
  #wakeReader: (() => void) | undefined;
  #wakeWriter: (() => void) | undefined;

  /** `start` begins the work and reports to the sink. */
  constructor(
    name: string,
    callbacks: OutputCallbacks,
    start: (sink: CommandSink) => CommandControl,
  ) {
    this.#name = name;
    this.#callbacks = callbacks;
    this.#end = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    // A failure that nobody waits for is no crash.
    this.#end.catch(() => undefined);
    this.#control = start({
      output: (stream, data) => this.#output(stream, data),
      exit: (code, durationMs) => this.#exit(code, durationMs),
      fail: (error) => this.#fail(error),
      cut: (reason, cause) => this.#fail(this.#interrupted(reason, cause)),
    });
  }

  /** The result, when the command has ended. With `check` an exit code other than 0 is an error. */
  async wait(options: { check?: boolean | undefined } = {}): Promise<ExecResult> {
    const result = await this.#end;
    return options.check ? checked(this.#name, result) : result;
  }

  /** Ends the command. {@link wait} then rejects with `CommandCancelled`. */
  async cancel(): Promise<void> {
    if (this.#ended === undefined) await this.#control.cancel();
  }

  /** Writes to standard input. The command must have been started with open input. */
  async write(data: string): Promise<void> {
    if (this.#control.write === undefined) throw unsupported("standard input");
    await this.#control.write(data);
  }

  /** Closes standard input. */
  async closeStdin(): Promise<void> {
    if (this.#control.closeStdin === undefined) throw unsupported("standard input");
    await this.#control.closeStdin();
  }

  /** Sends a signal, such as `INT`, to the command and its children. */
  async signal(signal: string): Promise<void> {
    if (this.#control.signal === undefined) throw unsupported("signals");
    await this.#control.signal(signal);
  }

  /** Yields the output in the order in which it came, from the start. */
  async *[Symbol.asyncIterator](): AsyncGenerator<CommandOutput, void> {
    if (this.#isRead) throw new PandaStackError("the output of a command can be read only once");
    this.#isRead = true;
    try {
      for (;;) {
        const piece = this.#queue.shift();
        if (piece !== undefined) {
          this.#queuedChars -= piece.data.length;
          this.#wakeWriter?.();
          yield piece;
        } else if (this.#ended !== undefined) {
          if (this.#ended.error !== undefined) throw this.#ended.error;
          return;
        } else {
          await new Promise<void>((resolve) => {
            this.#wakeReader = resolve;
          });
        }
      }
    } finally {
      // A loop that was left early must not hold up the command.
      this.#queue = [];
      this.#queuedChars = 0;
      this.#abandoned = true;
      this.#wakeWriter?.();
    }
  }

  /** The output as a web stream of text. */
  readable(stream?: "stdout" | "stderr"): ReadableStream<string> {
    const pieces = this[Symbol.asyncIterator]();
    return new ReadableStream<string>({
      async pull(controller) {
        for (;;) {
          const { value, done } = await pieces.next();
          if (done) return controller.close();
          if (stream === undefined || value.stream === stream)
            return controller.enqueue(value.data);
        }
      },
      async cancel() {
        await pieces.return(undefined);
      },
    });
  }

  /** Ends the command if it still runs. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.cancel();
  }

  #output(stream: "stdout" | "stderr", data: string): Promise<void> | undefined {
    if (data === "" || this.#ended !== undefined) return undefined;
    this.#kept[stream].add(data);
    try {
      if (stream === "stdout") this.#callbacks.onStdout?.(data);
      else this.#callbacks.onStderr?.(data);
    } catch (error) {
      // An error of the caller's own code ends the command, not the connection.
      this.#fail(error);
      Promise.resolve(this.#control.cancel()).catch(() => undefined);
      return undefined;
    }
    if (this.#abandoned) return undefined;
    this.#queue.push({ stream, data });
    this.#queuedChars += data.length;
    this.#wakeReader?.();
    if (this.#queuedChars <= KEPT_CHARS_MAX) return undefined;
    if (!this.#isRead) {
      // Nobody reads, so the oldest output is given up. The result keeps its own copy.
      while (this.#queuedChars > KEPT_CHARS_MAX) {
        this.#queuedChars -= this.#queue.shift()?.data.length ?? 0;
      }
      return undefined;
    }
    return new Promise((resolve) => {
      this.#wakeWriter = resolve;
    });
  }

  #exit(code: number, durationMs = Date.now() - this.#started): void {
    if (this.#ended !== undefined) return;
    const { stdout, stderr } = this.#kept;
    const result: ExecResult = {
      stdout: stdout.text(),
      stderr: stderr.text(),
      exit_code: code,
      duration_ms: durationMs,
      exitCode: code,
    };
    if (stdout.truncated || stderr.truncated) result.truncated = true;
    this.#ended = {};
    this.#resolve(result);
    this.#wakeReader?.();
  }

  #fail(error: unknown): void {
    if (this.#ended !== undefined) return;
    this.#ended = { error };
    this.#reject(error);
    this.#wakeReader?.();
  }

  #interrupted(reason: string, cause?: unknown): ExecInterrupted {
    return new ExecInterrupted(
      `${this.#name}: the connection broke before the command ended: ${reason}`,
      this.#kept.stdout.text(),
      this.#kept.stderr.text(),
      { cause },
    );
  }
}

/** Refuses a result whose exit code is not 0. */
export function checked(name: string, result: ExecResult): ExecResult {
  if (result.exitCode === 0) return result;
  throw new CommandError(
    `command exited with code ${result.exitCode}: ${name}`,
    result.exitCode,
    result.stdout,
    result.stderr,
  );
}

/** Text that grows up to a limit. */
class KeptText {
  readonly #pieces: string[] = [];
  #chars = 0;
  truncated = false;

  add(piece: string): void {
    const room = KEPT_CHARS_MAX - this.#chars;
    if (piece.length > room) this.truncated = true;
    if (room <= 0) return;
    this.#pieces.push(piece.length > room ? piece.slice(0, room) : piece);
    this.#chars += Math.min(piece.length, room);
  }

  text(): string {
    return this.#pieces.join("");
  }
}

function unsupported(what: string): PandaStackError {
  return new PandaStackError(
    `${what} cannot reach this command; start it on an exec socket or as a process`,
  );
}
