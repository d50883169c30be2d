/** A terminal in a sandbox, over a WebSocket. */

import type { SocketCall } from "./core/call.js";
import { NetworkError, ServerError } from "./errors.js";
import type { SocketLink } from "./socket/link.js";
import { SilenceWatch } from "./socket/silence.js";
import type { CallOptions, Transport } from "./transport.js";

/** Options of a terminal. */
export interface TerminalOptions extends CallOptions {
  rows?: number | undefined;
  cols?: number | undefined;
  /** The program; a login shell by default. */
  cmd?: string | undefined;
}

const SILENCE_MS = 20_000;
const QUEUED_BYTES_MAX = 16 * 1024 * 1024;

/**
 * An open terminal. Iterate over it for its output.
 *
 * ```ts
 * await using terminal = await sandbox.terminal({ rows: 40, cols: 120 });
 * terminal.write("ls\n");
 * for await (const bytes of terminal) process.stdout.write(bytes);
 * console.log(await terminal.exitCode);
 * ```
 */
export class Terminal implements AsyncIterable<Uint8Array>, AsyncDisposable {
  /** The exit code of the program, when it has ended. Rejects if the connection breaks. */
  readonly exitCode: Promise<number>;
  readonly #link: SocketLink;
  readonly #watch: SilenceWatch;
  #resolve: (code: number) => void = () => undefined;
  #reject: (error: unknown) => void = () => undefined;
  #queue: Uint8Array[] = [];
  #queuedBytes = 0;
  #ended: { readonly error?: unknown } | undefined;
  #wake: (() => void) | undefined;

  constructor(link: SocketLink) {
    this.#link = link;
    this.#watch = new SilenceWatch(link, SILENCE_MS, () => link.ping());
    this.exitCode = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    this.exitCode.catch(() => undefined);
    link.handlers.onBytes = (bytes) => this.#output(bytes);
    link.handlers.onText = (text) => this.#note(text);
    link.handlers.onEnd = ({ code, reason }) =>
      this.#end({
        error: new NetworkError(`the terminal was closed: ${reason || `code ${code}`}`),
      });
  }

  /** Opens a terminal. */
  static async open(
    transport: Transport,
    call: SocketCall,
    options: CallOptions,
  ): Promise<Terminal> {
    return new Terminal(await transport.socket(call, options));
  }

  /** Sends input. */
  write(data: string | Uint8Array): void {
    this.#link.send(typeof data === "string" ? new TextEncoder().encode(data) : data);
  }

  /** Tells the program a new size. */
  resize(rows: number, cols: number): void {
    this.#link.send(JSON.stringify({ resize: { rows, cols } }));
  }

  /** Yields the output as it comes, until the program ends. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void> {
    for (;;) {
      const bytes = this.#queue.shift();
      if (bytes !== undefined) {
        this.#queuedBytes -= bytes.byteLength;
        yield bytes;
      } else if (this.#ended !== undefined) {
        if (this.#ended.error !== undefined) throw this.#ended.error;
        return;
      } else {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
    }
  }

  /** Ends the program and closes the terminal. */
  async close(): Promise<void> {
    this.#end({});
    this.#link.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #output(bytes: Uint8Array): void {
    this.#queue.push(bytes);
    this.#queuedBytes += bytes.byteLength;
    // A terminal is for people: what scrolled past long ago may go.
    while (this.#queuedBytes > QUEUED_BYTES_MAX) {
      this.#queuedBytes -= this.#queue.shift()?.byteLength ?? 0;
    }
    this.#wake?.();
  }

  #note(text: string): void {
    let note: { exit?: unknown; error?: unknown };
    try {
      note = JSON.parse(text) as { exit?: unknown; error?: unknown };
    } catch {
      return;
    }
    if (typeof note.exit === "number") {
      this.#resolve(note.exit);
      this.#end({});
    } else if (typeof note.error === "string") this.#end({ error: new ServerError(note.error) });
  }

  #end(end: { readonly error?: unknown }): void {
    if (this.#ended !== undefined) return;
    this.#ended = end;
    this.#watch.stop();
    // After an exit code this does nothing.
    this.#reject(end.error ?? new NetworkError("the terminal was closed before its program ended"));
    this.#wake?.();
  }
}
