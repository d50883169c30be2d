/** A WebSocket client on `node:http`, for runtimes whose own cannot send headers. */

import type { Deadline } from "../deadline.js";
import { errorFromResponse, NetworkError } from "../errors.js";
import type { NodeHttp, NodeResponse, NodeSocket } from "../runtime.js";
import { nodeModule } from "../runtime.js";
import { closePayload, encodeFrame, FrameError, FrameReader, Opcode } from "./frames.js";
import type { SocketEnd, SocketHandlers, SocketLink } from "./link.js";

const MESSAGE_BYTES_MAX = 16 * 1024 * 1024;
const CLOSE_WAIT_MS = 3_000;
const PROTOCOL_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/** Opens a WebSocket. A refusal by the server is the same error as of any other request. */
export async function openNodeSocket(
  address: string,
  headers: Record<string, string>,
  deadline: Deadline,
): Promise<SocketLink> {
  const module = address.startsWith("https:") ? "node:https" : "node:http";
  const http = await nodeModule<NodeHttp>(module, "a WebSocket");
  const key = base64(crypto.getRandomValues(new Uint8Array(16)));
  const accepted = await acceptOf(key);
  deadline.check();
  return new Promise<SocketLink>((resolve, reject) => {
    const request = http.request(address, {
      agent: false,
      headers: {
        ...headers,
        connection: "Upgrade",
        upgrade: "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": key,
      },
    });
    const stop = (): void => {
      request.destroy();
      reject(deadline.failure());
    };
    const settle = (): void => deadline.signal.removeEventListener("abort", stop);
    deadline.signal.addEventListener("abort", stop, { once: true });
    request.on("error", (cause) => {
      settle();
      const text = `cannot open a WebSocket to ${address}: ${cause.message}`;
      reject(new NetworkError(text, undefined, undefined, { cause }));
    });
    request.on("response", (response) => {
      settle();
      refusal(response).then(reject, reject);
    });
    request.on("upgrade", (response, socket, head) => {
      settle();
      if (response.headers["sec-websocket-accept"] !== accepted) {
        socket.destroy();
        reject(new NetworkError(`${address} does not speak WebSocket; check the address`));
        return;
      }
      resolve(new NodeLink(socket, head));
    });
    request.end();
  });
}

class NodeLink implements SocketLink {
  readonly handlers: SocketHandlers = {};
  readonly #socket: NodeSocket;
  readonly #reader = new FrameReader(MESSAGE_BYTES_MAX);
  readonly #masks = new Uint8Array(4 * 256);
  #nextMask = 4 * 256;
  #closing: SocketEnd | undefined;
  #ended = false;
  #closeTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(socket: NodeSocket, head: Uint8Array) {
    this.#socket = socket;
    socket.setNoDelay(true);
    // The opener sets its handlers in this turn. Nothing may be read before that.
    socket.pause();
    socket.on("data", (bytes: Uint8Array) => this.#take(bytes));
    socket.on("error", (error: Error) => this.#end(1006, error.message));
    socket.on("close", () => this.#end(1006, "the connection was closed"));
    setTimeout(() => {
      if (head.byteLength > 0) this.#take(head);
      socket.resume();
    }, 0);
  }

  get bufferedBytes(): number {
    return this.#socket.writableLength;
  }

  send(data: string | Uint8Array): void {
    if (typeof data === "string") this.#frame(Opcode.text, new TextEncoder().encode(data));
    else this.#frame(Opcode.binary, data);
  }

  ping(): boolean {
    this.#frame(Opcode.ping, new Uint8Array(0));
    return true;
  }

  close(code = 1000, reason = ""): void {
    if (this.#ended || this.#closing !== undefined) return;
    this.#frame(Opcode.close, closePayload(code, reason));
    this.#closing = { code, reason };
    this.#closeTimer = setTimeout(
      () => this.abort("the server did not answer the close"),
      CLOSE_WAIT_MS,
    );
  }

  abort(reason: string): void {
    this.#end(1006, reason);
  }

  #frame(opcode: number, payload: Uint8Array): void {
    if (this.#ended || this.#closing !== undefined) return;
    this.#socket.write(encodeFrame(opcode, payload, this.#mask()));
  }

  /** Masks are drawn many at a time, because one draw costs more than the rest of a frame. */
  #mask(): Uint8Array {
    if (this.#nextMask >= this.#masks.byteLength) {
      crypto.getRandomValues(this.#masks);
      this.#nextMask = 0;
    }
    this.#nextMask += 4;
    return this.#masks.subarray(this.#nextMask - 4, this.#nextMask);
  }

  #take(bytes: Uint8Array): void {
    if (this.#ended) return;
    try {
      const messages = this.#reader.push(bytes);
      this.handlers.onAlive?.();
      for (const message of messages) {
        if (this.#ended) return;
        if (message.kind === "text") this.handlers.onText?.(message.text);
        else if (message.kind === "binary") this.handlers.onBytes?.(message.bytes);
        else if (message.kind === "ping") this.#frame(Opcode.pong, message.bytes);
        else if (message.kind === "close") this.#closed(message.code, message.reason);
      }
    } catch (error) {
      if (!(error instanceof FrameError)) throw error;
      this.#frame(Opcode.close, closePayload(error.code, ""));
      this.#end(1006, `the server broke the protocol: ${error.message}`);
    }
  }

  #closed(code: number, reason: string): void {
    if (this.#closing === undefined) {
      this.#frame(Opcode.close, closePayload(code === 1005 ? 1000 : code, ""));
    }
    this.#end(code, reason);
  }

  #end(code: number, reason: string): void {
    if (this.#ended) return;
    this.#ended = true;
    clearTimeout(this.#closeTimer);
    // A close that this side began is the one to report, however the connection ended.
    const end = code === 1006 && this.#closing !== undefined ? this.#closing : { code, reason };
    if (code === 1006) this.#socket.destroy();
    else {
      this.#socket.end();
      // A peer that never ends its side must not hold the socket.
      const timer = setTimeout(() => this.#socket.destroy(), CLOSE_WAIT_MS);
      (timer as { unref?: () => void }).unref?.();
    }
    this.handlers.onEnd?.(end);
  }
}

/** The answer that proves that the server speaks the protocol. */
async function acceptOf(key: string): Promise<string> {
  const text = new TextEncoder().encode(key + PROTOCOL_GUID);
  return base64(new Uint8Array(await crypto.subtle.digest("SHA-1", text)));
}

function base64(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes));
}

/** Reads the refusal of an upgrade, at most its first part. */
async function refusal(response: NodeResponse): Promise<unknown> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const piece of response) {
    text += decoder.decode(piece, { stream: true });
    if (text.length > 64 * 1024) break;
  }
  const headers = new Headers();
  for (const [name, value] of Object.entries(response.headers)) {
    if (typeof value === "string") headers.set(name, value);
  }
  const status = response.statusCode ?? 500;
  if (status < 200 || status > 599) return new NetworkError(`the server answered ${status}`);
  const bodiless = status === 204 || status === 304;
  return errorFromResponse(new Response(bodiless ? null : text, { status, headers }));
}
