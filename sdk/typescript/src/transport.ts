/**
 * Sends the calls of the generated core: headers, deadlines, retries and errors. Everything that
 * this package sends goes through here.
 */

import type { ByteStream, FetchHeaders, OnProgress } from "./body.js";
import { canRepeat, prepareBody, readAll } from "./body.js";
import type {
  BytesCall,
  Call,
  EmptyCall,
  EventsCall,
  JsonCall,
  SocketCall,
  TextCall,
} from "./core/call.js";
import { Deadline, sleep } from "./deadline.js";
import {
  errorFromResponse,
  NetworkError,
  NotFoundError,
  PandaStackError,
  TimeoutError,
} from "./errors.js";
import { retryWait } from "./retry.js";
import { isBrowser } from "./runtime.js";
import type { SocketLink } from "./socket/link.js";
import { openLink } from "./socket/open.js";
import type { ServerEvent } from "./sse.js";
import { EventParser } from "./sse.js";
import { sendWatched } from "./upload.js";
import { VERSION } from "./version.js";

/** Options that every call takes. */
export interface CallOptions {
  /** Cancels the call. It then rejects with the reason of the signal. */
  signal?: AbortSignal | undefined;
  /**
   * Deadline of one try, in milliseconds; 0 means none. For streams it is the longest silence.
   * The default is that of the client.
   */
  timeoutMs?: number | undefined;
}

/** Options of one call that only this package uses. */
export interface SendOptions extends CallOptions {
  /** Repeats the call while the server has no room. Only for creates and forks. */
  readonly creates?: boolean;
  /** Does not repeat a GET or DELETE that was answered with 404. */
  readonly noRetry?: boolean;
  readonly headers?: FetchHeaders | undefined;
  readonly onProgress?: OnProgress | undefined;
  /** Called when a stream of events is open, before its first event. */
  readonly onOpen?: (() => void) | undefined;
}

/** Where requests go, and with what. */
export interface TransportConfig {
  readonly apiUrl: string;
  readonly apiKey: string | undefined;
  readonly timeoutMs: number;
  readonly maxCreateRetrySeconds: number;
  readonly org: string | undefined;
  /** The browser sends a session cookie. */
  readonly cookie: boolean;
  readonly fetch: typeof fetch | undefined;
}

// A new or deleted resource may be unknown to a replica for a moment.
const NOT_FOUND_WAIT_MS = 200;
const READ_RETRY_WAITS_MS = [100, 400];
// Chromium drops every open request when the host gets a network interface, as for a new machine.
const BROWSER_RETRY_WAITS_MS = [...READ_RETRY_WAITS_MS, 1000, 2000];
// The server sends a comment at least every 15 seconds.
const STREAM_SILENCE_MS = 90_000;

export class Transport {
  /** Resolves where requests go; waits for the config file if it must be read later. */
  readonly #config: () => TransportConfig | Promise<TransportConfig>;

  constructor(config: () => TransportConfig | Promise<TransportConfig>) {
    this.#config = config;
  }

  /** Sends a call and decodes its JSON. */
  async json<T>(call: JsonCall<T>, options: SendOptions = {}): Promise<T> {
    const text = await this.#whole(call, options, "application/json");
    // An empty answer has no value, as for the published client.
    if (text === "") return undefined as T;
    try {
      return JSON.parse(text) as T;
    } catch (cause) {
      throw new NetworkError(
        `${nameOf(call)}: the answer is not JSON, so it is not from a PandaStack server; ` +
          `check the address of the server. It starts with ${JSON.stringify(text.slice(0, 80))}`,
        undefined,
        undefined,
        { cause },
      );
    }
  }

  /** Sends a call and returns its text. */
  text(call: TextCall, options: SendOptions = {}): Promise<string> {
    return this.#whole(call, options, "text/plain");
  }

  /** Sends a call whose answer has no body. */
  async empty(call: EmptyCall, options: SendOptions = {}): Promise<void> {
    await this.#whole(call, options, "application/json");
  }

  /** Sends a call and returns its bytes piece by piece, with their number if the server says it. */
  async bytes(call: BytesCall, options: SendOptions = {}): Promise<ByteStream> {
    const { response, deadline } = await this.#open(call, options, "*/*", undefined);
    const length = Number(response.headers.get("content-length") ?? Number.NaN);
    const total = Number.isFinite(length) ? length : undefined;
    return { total, pieces: this.#pieces(call, response, deadline) };
  }

  /** Sends a call and yields its events until the stream ends. */
  async *events(call: EventsCall, options: SendOptions = {}): AsyncGenerator<ServerEvent, void> {
    const silenceMs = options.timeoutMs ?? STREAM_SILENCE_MS;
    const { response, deadline } = await this.#open(call, options, "text/event-stream", silenceMs);
    options.onOpen?.();
    const parser = new EventParser();
    for await (const piece of this.#pieces(call, response, deadline)) yield* parser.push(piece);
  }

  /** The whole address of a call. Sends nothing. */
  async address(call: Call): Promise<string> {
    return addressOf((await this.#config()).apiUrl, call);
  }

  /** Opens a WebSocket. */
  async socket(call: SocketCall, options: SendOptions = {}): Promise<SocketLink> {
    const config = await this.#config();
    const deadline = new Deadline(
      nameOf(call),
      options.timeoutMs ?? config.timeoutMs,
      options.signal,
    );
    try {
      return await openLink(addressOf(config.apiUrl, call), headersOf(config), deadline);
    } finally {
      deadline.stop();
    }
  }

  async #whole(call: Call, options: SendOptions, accept: string): Promise<string> {
    for (let tries = 1; ; tries++) {
      const { response, deadline } = await this.#open(call, options, accept, undefined);
      try {
        return await response.text();
      } catch (cause) {
        const error = failure(call, deadline, cause);
        const repeats = error instanceof NetworkError && canRepeat(call);
        const wait = repeats ? waitAfterCut(error, call, tries) : undefined;
        if (wait === undefined) throw error;
        await sleep(wait, options.signal);
      } finally {
        deadline.stop();
      }
    }
  }

  async *#pieces(call: Call, response: Response, deadline: Deadline): AsyncGenerator<Uint8Array> {
    try {
      if (response.body === null) return;
      for await (const piece of readAll(response.body)) {
        // The time that the consumer takes is not the server's.
        deadline.pause();
        yield piece;
        deadline.touch();
      }
    } catch (cause) {
      throw failure(call, deadline, cause);
    } finally {
      deadline.stop();
    }
  }

  /** Sends a call until it is answered with success. The deadline goes on for the body. */
  async #open(
    call: Call,
    options: SendOptions,
    accept: string,
    timeoutMs: number | undefined,
  ): Promise<{ response: Response; deadline: Deadline }> {
    const config = await this.#config();
    const limit = options.timeoutMs ?? timeoutMs ?? config.timeoutMs;
    const started = Date.now();
    let repeatedNotFound = options.noRetry === true;
    for (let tries = 1; ; tries++) {
      const deadline = new Deadline(nameOf(call), limit, options.signal);
      try {
        const response = await this.#try(call, config, options, accept, deadline);
        if (response.ok) return { response, deadline };
        throw await this.#refused(call, config, response, deadline);
      } catch (error) {
        deadline.stop();
        if (error instanceof NotFoundError && !repeatedNotFound && isReadOrDelete(call)) {
          repeatedNotFound = true;
          await sleep(NOT_FOUND_WAIT_MS, options.signal);
          continue;
        }
        const wait = waitAfter(error, call, options, tries, started, config.maxCreateRetrySeconds);
        if (wait === undefined) throw error;
        await sleep(wait, options.signal);
      }
    }
  }

  async #try(
    call: Call,
    config: TransportConfig,
    options: SendOptions,
    accept: string,
    deadline: Deadline,
  ): Promise<Response> {
    deadline.check();
    const { body, type, streamed, watched } = await prepareBody(
      call,
      deadline,
      config.fetch === undefined,
      options.onProgress,
    );
    const headers = new Headers(options.headers);
    for (const [name, value] of Object.entries(headersOf(config))) {
      if (!headers.has(name)) headers.set(name, value);
    }
    if (!headers.has("accept")) headers.set("accept", accept);
    if (type !== undefined && !headers.has("content-type")) headers.set("content-type", type);
    const init: RequestInit & { duplex?: "half" } = {
      method: call.method,
      headers,
      // A redirect would turn a POST into a GET.
      redirect: "manual",
      signal: deadline.signal,
      ...(config.cookie ? { credentials: "same-origin" } : {}),
      ...(body === undefined ? {} : { body }),
      ...(streamed ? { duplex: "half" } : {}),
    };
    const send = config.fetch ?? fetch;
    const address = addressOf(config.apiUrl, call);
    try {
      if (watched && body !== undefined) {
        const request = { method: call.method, headers, body };
        return await sendWatched(address, request, deadline, options.onProgress);
      }
      return await send(address, init);
    } catch (cause) {
      deadline.check();
      throw new NetworkError(
        `cannot reach the PandaStack server at ${config.apiUrl}: ${reasonOf(cause)}`,
        undefined,
        undefined,
        { cause },
      );
    }
  }

  async #refused(
    call: Call,
    config: TransportConfig,
    response: Response,
    deadline: Deadline,
  ): Promise<unknown> {
    if (response.type === "opaqueredirect" || (response.status >= 300 && response.status < 400)) {
      await response.body?.cancel().catch(() => undefined);
      const target = response.headers.get("location") ?? "another address";
      return new PandaStackError(
        `${config.apiUrl} redirects to ${target}; set the address of the server to that one`,
        response.status,
        response,
      );
    }
    const error = await errorFromResponse(response);
    return deadline.signal.aborted ? failure(call, deadline, error) : error;
  }
}

/** Milliseconds until the next try, or undefined if the error is final. */
function waitAfter(
  error: unknown,
  call: Call,
  options: SendOptions,
  tries: number,
  started: number,
  budgetSeconds: number,
): number | undefined {
  if (!(error instanceof PandaStackError) || !canRepeat(call)) return undefined;
  if (error instanceof NetworkError) return waitAfterCut(error, call, tries);
  const seconds = retryWait({
    error,
    creates: options.creates === true,
    reads: call.method === "GET",
    tries,
    elapsedSeconds: (Date.now() - started) / 1000,
    budgetSeconds,
  });
  return seconds === undefined ? undefined : seconds * 1000;
}

/** A connection may have been closed between two requests. Reads and `PUT` are safe to repeat. */
function waitAfterCut(error: NetworkError, call: Call, tries: number): number | undefined {
  const isIdempotent = call.method === "GET" || call.method === "PUT";
  if (error instanceof TimeoutError || !isIdempotent) return undefined;
  return (isBrowser() ? BROWSER_RETRY_WAITS_MS : READ_RETRY_WAITS_MS)[tries - 1];
}

function isReadOrDelete(call: Call): boolean {
  return call.method === "GET" || call.method === "DELETE";
}

function nameOf(call: Call): string {
  return `${call.method} ${call.path}`;
}

/** The whole address of a call. */
export function addressOf(apiUrl: string, call: Call): string {
  const url = new URL(apiUrl + call.path);
  for (const [name, value] of Object.entries(call.query ?? {})) {
    if (value !== undefined) url.searchParams.set(name, String(value));
  }
  return url.toString();
}

/** The headers of every request. */
export function headersOf(config: TransportConfig): Record<string, string> {
  const headers: Record<string, string> = {};
  // Browsers name themselves, and a header of our own would need a preflight.
  if (!isBrowser()) headers["user-agent"] = `pandastack-ts/${VERSION}`;
  if (config.apiKey !== undefined) headers["authorization"] = `Bearer ${config.apiKey}`;
  // No other site can send this header with a cookie, unless the server allows it.
  if (config.cookie) headers["x-pandastack-csrf"] = "1";
  if (config.org !== undefined) headers["x-pandastack-org"] = config.org;
  return headers;
}

/** What to throw after a body broke off. */
function failure(call: Call, deadline: Deadline, cause: unknown): unknown {
  if (deadline.signal.aborted) return deadline.failure();
  if (cause instanceof PandaStackError) return cause;
  return new NetworkError(
    `${nameOf(call)}: the answer broke off: ${reasonOf(cause)}`,
    undefined,
    undefined,
    { cause },
  );
}

/** A short text for the cause of a network failure. Node puts it below "fetch failed". */
export function reasonOf(cause: unknown): string {
  if (!(cause instanceof Error)) return String(cause);
  const inner: unknown = cause.cause;
  if (!(inner instanceof Error)) return cause.message;
  const code = (inner as { code?: unknown }).code;
  const message = inner.message || cause.message;
  return typeof code === "string" && !message.includes(code) ? `${message} (${code})` : message;
}
