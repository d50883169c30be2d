/** The frames of RFC 6455, from the side of a client. */

/** The kinds of frames. */
export const Opcode = {
  continuation: 0x0,
  text: 0x1,
  binary: 0x2,
  close: 0x8,
  ping: 0x9,
  pong: 0xa,
} as const;

/** A whole message, or a control frame. */
export type Message =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "binary"; readonly bytes: Uint8Array }
  | { readonly kind: "ping" | "pong"; readonly bytes: Uint8Array }
  | { readonly kind: "close"; readonly code: number; readonly reason: string };

/** The peer broke the protocol. `code` is the close code to send. */
export class FrameError extends Error {
  readonly code: number;

  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}

const CONTROL_BYTES_MAX = 125;

/** Makes one frame. `mask` has four random bytes; clients must mask. */
export function encodeFrame(opcode: number, payload: Uint8Array, mask: Uint8Array): Uint8Array {
  const size = payload.byteLength;
  const head = size < 126 ? 2 : size < 65_536 ? 4 : 10;
  const frame = new Uint8Array(head + 4 + size);
  const view = new DataView(frame.buffer);
  frame[0] = 0x80 | opcode;
  frame[1] = 0x80 | (head === 2 ? size : head === 4 ? 126 : 127);
  if (head === 4) view.setUint16(2, size);
  if (head === 10) view.setBigUint64(2, BigInt(size));
  frame.set(mask.subarray(0, 4), head);
  const start = head + 4;
  for (let at = 0; at < size; at++) {
    frame[start + at] = (payload[at] as number) ^ (mask[at & 3] as number);
  }
  return frame;
}

/** The payload of a close frame. */
export function closePayload(code: number, reason: string): Uint8Array {
  const text = new TextEncoder().encode(reason).subarray(0, CONTROL_BYTES_MAX - 2);
  const payload = new Uint8Array(2 + text.byteLength);
  new DataView(payload.buffer).setUint16(0, code);
  payload.set(text, 2);
  return payload;
}

/** Cuts the bytes of a server into messages. The bytes may be split anywhere. */
export class FrameReader {
  readonly #messageBytesMax: number;
  #rest: Uint8Array = new Uint8Array(0);
  #parts: Uint8Array[] = [];
  #partsBytes = 0;
  #opcode: number = Opcode.continuation;

  constructor(messageBytesMax: number) {
    this.#messageBytesMax = messageBytesMax;
  }

  /** Takes the next bytes and returns the messages that are complete. */
  push(bytes: Uint8Array): Message[] {
    // A Buffer of Node is not copied by its own slice, so it becomes a plain array of bytes.
    const plain = new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#rest = joined(this.#rest, plain);
    const messages: Message[] = [];
    for (;;) {
      const frame = this.#frame();
      if (frame === undefined) return messages;
      const message = this.#message(frame);
      if (message !== undefined) messages.push(message);
    }
  }

  #frame(): { opcode: number; final: boolean; payload: Uint8Array } | undefined {
    const rest = this.#rest;
    if (rest.byteLength < 2) return undefined;
    const [first, second] = rest as unknown as [number, number];
    const view = new DataView(rest.buffer, rest.byteOffset, rest.byteLength);
    const opcode = first & 0x0f;
    if ((first & 0x70) !== 0) throw new FrameError(1002, "a reserved bit is set");
    if ((second & 0x80) !== 0) throw new FrameError(1002, "the server masked a frame");
    let size = second & 0x7f;
    let head = 2;
    if (opcode >= 0x8 && (size > CONTROL_BYTES_MAX || (first & 0x80) === 0)) {
      throw new FrameError(1002, "a control frame is long or fragmented");
    }
    if (size === 126) {
      head = 4;
      if (rest.byteLength < head) return undefined;
      size = view.getUint16(2);
    } else if (size === 127) {
      head = 10;
      if (rest.byteLength < head) return undefined;
      const large = view.getBigUint64(2);
      size = large > BigInt(Number.MAX_SAFE_INTEGER) ? Number.POSITIVE_INFINITY : Number(large);
    }
    if (size + this.#partsBytes > this.#messageBytesMax) {
      throw new FrameError(1009, `a message is longer than ${this.#messageBytesMax} bytes`);
    }
    if (rest.byteLength < head + size) return undefined;
    this.#rest = rest.subarray(head + size);
    return { opcode, final: (first & 0x80) !== 0, payload: rest.subarray(head, head + size) };
  }

  #message(frame: { opcode: number; final: boolean; payload: Uint8Array }): Message | undefined {
    const { opcode, final, payload } = frame;
    switch (opcode) {
      case Opcode.ping:
        return { kind: "ping", bytes: payload.slice() };
      case Opcode.pong:
        return { kind: "pong", bytes: payload.slice() };
      case Opcode.close:
        return closeMessage(payload);
      case Opcode.text:
      case Opcode.binary:
        if (this.#opcode !== Opcode.continuation) {
          throw new FrameError(1002, "a message starts inside another");
        }
        this.#opcode = opcode;
        break;
      case Opcode.continuation:
        if (this.#opcode === Opcode.continuation) {
          throw new FrameError(1002, "a message continues that did not start");
        }
        break;
      default:
        throw new FrameError(1002, `unknown kind of frame ${opcode}`);
    }
    this.#parts.push(payload.slice());
    this.#partsBytes += payload.byteLength;
    if (!final) return undefined;
    const bytes =
      this.#parts.length === 1 ? (this.#parts[0] as Uint8Array) : joined(...this.#parts);
    const isText = this.#opcode === Opcode.text;
    this.#parts = [];
    this.#partsBytes = 0;
    this.#opcode = Opcode.continuation;
    return isText ? { kind: "text", text: utf8(bytes) } : { kind: "binary", bytes };
  }
}

function closeMessage(payload: Uint8Array): Message {
  if (payload.byteLength === 0) return { kind: "close", code: 1005, reason: "" };
  if (payload.byteLength === 1) throw new FrameError(1002, "a close frame has one byte");
  const code = ((payload[0] as number) << 8) | (payload[1] as number);
  return { kind: "close", code, reason: utf8(payload.subarray(2)) };
}

function utf8(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new FrameError(1007, "a text message is not UTF-8");
  }
}

function joined(...parts: Uint8Array[]): Uint8Array {
  const filled = parts.filter((part) => part.byteLength > 0);
  if (filled.length === 1) return filled[0] as Uint8Array;
  const bytes = new Uint8Array(filled.reduce((sum, part) => sum + part.byteLength, 0));
  let at = 0;
  for (const part of filled) {
    bytes.set(part, at);
    at += part.byteLength;
  }
  return bytes;
}
