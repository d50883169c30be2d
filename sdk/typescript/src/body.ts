/** Request bodies: what is sent, whether it can be sent again, and how far it is. */

import type { Call, RequestBytes } from "./core/call.js";
import type { Deadline } from "./deadline.js";
import { hasNodeModules } from "./runtime.js";
import { canWatchUpload } from "./upload.js";

/** How far a transfer is. */
export interface Progress {
  /** Bytes so far. */
  readonly bytes: number;
  /** Bytes in all, if that is known. */
  readonly total: number | undefined;
}

/** Called while data is transferred. */
export type OnProgress = (progress: Progress) => void;

/** The body and headers of `fetch`. These types exist with those of browsers and those of Node. */
export type FetchBody = NonNullable<RequestInit["body"]>;
export type FetchHeaders = NonNullable<RequestInit["headers"]>;

/** A body as `fetch` takes it. */
export interface PreparedBody {
  readonly body: FetchBody | undefined;
  readonly type: string | undefined;
  readonly streamed: boolean;
  /** Whether the sender tells how much it has sent. Only in browsers. */
  readonly watched?: boolean;
}

const PIECE_BYTES = 64 * 1024;
// Larger bodies are sent in pieces, so that a slow but working line does not meet the deadline.
const WHOLE_BYTES_MAX = 1024 * 1024;

/** Whether the body can be sent a second time. */
export function canRepeat(call: Call): boolean {
  return call.bytes === undefined || !isStream(call.bytes);
}

/** The number of bytes of a body, if it is known before it is read. */
export function bodySize(bytes: RequestBytes): number | undefined {
  if (typeof bytes === "string") return new TextEncoder().encode(bytes).length;
  if (bytes instanceof Blob) return bytes.size;
  if (bytes instanceof ArrayBuffer || bytes instanceof Uint8Array) return bytes.byteLength;
  return undefined;
}

/** Makes the body of one try. */
export async function prepareBody(
  call: Call,
  deadline: Deadline,
  mayWatch: boolean,
  onProgress: OnProgress | undefined,
): Promise<PreparedBody> {
  if (call.form !== undefined) return { body: call.form, type: undefined, streamed: false };
  if (call.bytes !== undefined) {
    return bytesBody(call.bytes, deadline, mayWatch, onProgress);
  }
  if (call.json !== undefined) {
    return { body: JSON.stringify(call.json), type: "application/json", streamed: false };
  }
  const sendsBody = call.method === "POST" || call.method === "PUT" || call.method === "PATCH";
  return { body: sendsBody ? "" : undefined, type: undefined, streamed: false };
}

async function bytesBody(
  bytes: RequestBytes,
  deadline: Deadline,
  mayWatch: boolean,
  onProgress: OnProgress | undefined,
): Promise<PreparedBody> {
  const type = "application/octet-stream";
  const total = bodySize(bytes);
  const small = total !== undefined && total <= WHOLE_BYTES_MAX;
  if (small && onProgress === undefined) return { body: whole(bytes), type, streamed: false };
  if (mayWatch && total !== undefined && !hasNodeModules() && canWatchUpload()) {
    return { body: whole(bytes), type, streamed: false, watched: true };
  }
  const stream = watched(pieces(bytes), total, deadline, onProgress);
  if (hasNodeModules()) return { body: streamOf(stream), type, streamed: true };
  // Browsers send a stream only over HTTP/2, so the data is collected first.
  const parts: BlobPart[] = [];
  for await (const piece of stream) parts.push(piece as Uint8Array<ArrayBuffer>);
  return { body: new Blob(parts), type, streamed: false };
}

function isStream(
  bytes: RequestBytes,
): bytes is ReadableStream<Uint8Array> | AsyncIterable<Uint8Array> {
  return bodySize(bytes) === undefined;
}

function whole(bytes: RequestBytes): FetchBody {
  return bytes as FetchBody;
}

async function* watched(
  source: AsyncIterable<Uint8Array>,
  total: number | undefined,
  deadline: Deadline,
  onProgress: OnProgress | undefined,
): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  for await (const piece of source) {
    deadline.touch();
    yield piece;
    bytes += piece.byteLength;
    onProgress?.({ bytes, total });
  }
  deadline.touch();
}

/** The data in pieces of a size that is good to send. */
async function* pieces(bytes: RequestBytes): AsyncGenerator<Uint8Array> {
  if (typeof bytes === "string") yield* cut(new TextEncoder().encode(bytes));
  else if (bytes instanceof ArrayBuffer) yield* cut(new Uint8Array(bytes));
  else if (bytes instanceof Uint8Array) yield* cut(bytes);
  else for await (const piece of chunksOf(bytes)) yield* cut(piece);
}

function* cut(bytes: Uint8Array): Generator<Uint8Array> {
  for (let start = 0; start < bytes.byteLength; start += PIECE_BYTES) {
    yield bytes.subarray(start, start + PIECE_BYTES);
  }
}

async function* chunksOf(
  source: Blob | ReadableStream<Uint8Array> | AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  if (source instanceof Blob) yield* readAll(source.stream());
  else if (source instanceof ReadableStream) yield* readAll(source);
  else yield* source;
}

/** The chunks of a web stream. Not every browser can iterate over a stream by itself. */
export async function* readAll(stream: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
  const reader = stream.getReader();
  let ended = false;
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) {
        ended = true;
        return;
      }
      yield value;
    }
  } finally {
    if (!ended) await reader.cancel().catch(() => undefined);
    reader.releaseLock();
  }
}

function streamOf(source: AsyncGenerator<Uint8Array>): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { value, done } = await source.next();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      async cancel() {
        await source.return(undefined);
      },
    },
    { highWaterMark: 0 },
  );
}

/** The bytes of an answer, with their number if it is known. */
export interface ByteStream {
  readonly total: number | undefined;
  readonly pieces: AsyncGenerator<Uint8Array>;
}

/** All bytes of an answer. */
export async function collected(
  source: ByteStream,
  onProgress?: OnProgress | undefined,
): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  let size = 0;
  for await (const piece of source.pieces) {
    pieces.push(piece);
    size += piece.byteLength;
    onProgress?.({ bytes: size, total: source.total });
  }
  if (pieces.length === 1) return pieces[0] as Uint8Array;
  const bytes = new Uint8Array(size);
  let at = 0;
  for (const piece of pieces) {
    bytes.set(piece, at);
    at += piece.byteLength;
  }
  return bytes;
}
