/** What the operations of the API describe: one request, and the kind of its answer. */

import { BadRequestError } from "../errors.js";

/** Values that a query parameter can have. Undefined ones are left out. */
export type QueryValue = string | number | boolean | undefined;

/** A request body that is sent as it is. */
export type RequestBytes =
  | string
  | Uint8Array
  | ArrayBuffer
  | Blob
  | ReadableStream<Uint8Array>
  | AsyncIterable<Uint8Array>;

interface CallBase {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** The path from the root of the server, with its parameters filled in. */
  readonly path: string;
  readonly query?: Readonly<Record<string, QueryValue>>;
  readonly json?: unknown;
  readonly bytes?: RequestBytes;
  readonly form?: FormData;
}

/** A request that is answered with JSON of the type `T`. */
export interface JsonCall<T> extends CallBase {
  readonly kind: "json";
  /** Carries the type of the answer. It never has a value. */
  readonly answer?: T;
}

/** A request that is answered with text. */
export interface TextCall extends CallBase {
  readonly kind: "text";
}

/** A request that is answered with raw bytes. */
export interface BytesCall extends CallBase {
  readonly kind: "bytes";
}

/** A request that is answered with server-sent events. */
export interface EventsCall extends CallBase {
  readonly kind: "events";
}

/** A request that is answered without a body. */
export interface EmptyCall extends CallBase {
  readonly kind: "empty";
}

/** A request that opens a WebSocket. */
export interface SocketCall extends CallBase {
  readonly kind: "socket";
}

/** Any request. */
export type Call = JsonCall<unknown> | TextCall | BytesCall | EventsCall | EmptyCall | SocketCall;

/**
 * Encodes one segment of a path. An empty segment and the segments `.` and `..` are refused,
 * because a URL with them names another resource.
 */
export function segment(value: string | number): string {
  const text = String(value);
  if (text === "" || text === "." || text === "..") {
    throw new BadRequestError(`${JSON.stringify(text)} is not an id or a name`);
  }
  return encodeURIComponent(text);
}
