/** Ends a request at its deadline, or when its caller gives up. */

import { TimeoutError } from "./errors.js";

// A timer cannot be set longer; such a deadline is none.
const TIMER_MS_MAX = 2 ** 31 - 1;

/** The time limit of one try of a request, joined with the caller's signal. */
export class Deadline {
  readonly #controller = new AbortController();
  readonly #caller: AbortSignal | undefined;
  readonly #timeoutMs: number;
  readonly #what: string;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #expired = false;

  /** `what` names the work in error texts. A `timeoutMs` of 0 or Infinity means no limit. */
  constructor(what: string, timeoutMs: number, caller?: AbortSignal | undefined) {
    this.#what = what;
    this.#timeoutMs = timeoutMs;
    this.#caller = caller;
    if (caller?.aborted) this.#controller.abort(caller.reason);
    else caller?.addEventListener("abort", this.#cancelled, { once: true });
    this.touch();
  }

  /** Aborted at the deadline, or by the caller. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Starts the time limit again. Streams do this for every piece, so that only silence ends them. */
  touch(): void {
    clearTimeout(this.#timer);
    if (this.signal.aborted || !(this.#timeoutMs > 0 && this.#timeoutMs <= TIMER_MS_MAX)) return;
    this.#timer = setTimeout(() => {
      this.#expired = true;
      this.#controller.abort(this.failure());
    }, this.#timeoutMs);
  }

  /** Stops the clock until the next {@link touch}. */
  pause(): void {
    clearTimeout(this.#timer);
  }

  /** Stops the clock. Must be called in the end. */
  stop(): void {
    clearTimeout(this.#timer);
    this.#caller?.removeEventListener("abort", this.#cancelled);
  }

  /** Throws if the work must not go on. */
  check(): void {
    if (this.signal.aborted) throw this.failure();
  }

  /** The error to throw after an abort: the caller's own reason, or a {@link TimeoutError}. */
  failure(): unknown {
    if (!this.#expired && this.#caller?.aborted) return this.#caller.reason;
    const seconds = this.#timeoutMs / 1000;
    return new TimeoutError(
      `${this.#what}: no answer within ${seconds} s; set timeoutMs to wait longer`,
    );
  }

  readonly #cancelled = (): void => {
    clearTimeout(this.#timer);
    this.#controller.abort(this.#caller?.reason);
  };
}

/** Waits. Rejects with the signal's reason as soon as it is aborted. */
export function sleep(ms: number, signal?: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const stop = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    signal?.addEventListener("abort", stop, { once: true });
  });
}

/** The result of `work`, or the signal's reason if that is aborted first. */
export function orAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return work;
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason);
    const stop = (): void => reject(signal.reason);
    signal.addEventListener("abort", stop, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", stop));
  });
}
