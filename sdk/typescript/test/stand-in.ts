/** A server that answers as a test says, also wrongly. */

import { createHash } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { PandaStack } from "../src/index.js";

export interface Seen {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingMessage["headers"];
  readonly body: Buffer;
}

export type Handler = (seen: Seen, response: ServerResponse) => void | Promise<void>;
export type Upgrade = (socket: ServerSocket, seen: Seen) => void;

/** A stand-in for a server, on a free port. */
export class StandIn implements AsyncDisposable {
  readonly seen: Seen[] = [];
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  handler: Handler = (_, response) => json(response, 200, {});
  upgrade: Upgrade | undefined;

  private constructor() {
    this.#server = createServer((request, response) => void this.#answer(request, response));
    this.#server.on("connection", (socket) => {
      this.#sockets.add(socket);
      socket.on("close", () => this.#sockets.delete(socket));
    });
    this.#server.on("upgrade", (request, socket: Socket) => this.#upgrade(request, socket));
  }

  static async start(handler?: Handler): Promise<StandIn> {
    const standIn = new StandIn();
    if (handler) standIn.handler = handler;
    await new Promise<void>((resolve) => standIn.#server.listen(0, "127.0.0.1", resolve));
    return standIn;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  client(config: ConstructorParameters<typeof PandaStack>[0] = {}): PandaStack {
    return new PandaStack({ baseUrl: this.url, apiKey: "pds_test", timeoutMs: 20_000, ...config });
  }

  /** Requests as `METHOD path`. */
  get calls(): string[] {
    return this.seen.map(({ method, path }) => `${method} ${path}`);
  }

  /** Breaks all open connections. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.cut();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const parts: Buffer[] = [];
    try {
      for await (const part of request) parts.push(part as Buffer);
    } catch {
      return;
    }
    const seen = seenOf(request, Buffer.concat(parts));
    this.seen.push(seen);
    await this.handler(seen, response);
  }

  #upgrade(request: IncomingMessage, socket: Socket): void {
    const seen = seenOf(request, Buffer.alloc(0));
    this.seen.push(seen);
    if (this.upgrade === undefined) {
      const body = JSON.stringify({ error: "sandbox not found", code: "sandbox.not_found" });
      const head = `content-type: application/json\r\ncontent-length: ${body.length}`;
      socket.end(`HTTP/1.1 404 Not Found\r\n${head}\r\nconnection: close\r\n\r\n${body}`);
      return;
    }
    const key = request.headers["sec-websocket-key"] ?? "";
    const accept = createHash("sha1")
      .update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`)
      .digest("base64");
    socket.write(
      "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n" +
        `sec-websocket-accept: ${accept}\r\n\r\n`,
    );
    this.upgrade(new ServerSocket(socket), seen);
  }
}

function seenOf(request: IncomingMessage, body: Buffer): Seen {
  const url = new URL(request.url ?? "/", "http://stand-in");
  const { method = "", headers } = request;
  return { method, path: url.pathname, query: url.searchParams, headers, body };
}

/** Answers with JSON. */
export function json(
  response: ServerResponse,
  status: number,
  body: unknown,
  headers: Record<string, string> = {},
): void {
  response.writeHead(status, { "content-type": "application/json", ...headers });
  response.end(JSON.stringify(body));
}

/** Starts a stream of events. */
export function events(response: ServerResponse): (name: string, data: unknown) => void {
  response.writeHead(200, { "content-type": "text/event-stream; charset=utf-8" });
  response.flushHeaders();
  return (name, data) => response.write(`event: ${name}\ndata: ${JSON.stringify(data)}\n\n`);
}

/** The server's side of a WebSocket: enough for tests, without any care. */
export class ServerSocket {
  readonly socket: Socket;
  onText: (text: string) => void = () => undefined;
  onBytes: (bytes: Buffer) => void = () => undefined;
  onPing: () => void = () => this.frame(0xa, Buffer.alloc(0));
  #rest = Buffer.alloc(0);

  constructor(socket: Socket) {
    this.socket = socket;
    socket.on("data", (bytes) => this.#take(bytes));
    socket.on("error", () => undefined);
  }

  send(value: unknown): void {
    this.frame(0x1, Buffer.from(JSON.stringify(value)));
  }

  frame(opcode: number, payload: Buffer, final = true): void {
    if (this.socket.writable) this.socket.write(serverFrame(opcode, payload, final));
  }

  #take(bytes: Buffer): void {
    this.#rest = Buffer.concat([this.#rest, bytes]);
    for (;;) {
      const rest = this.#rest;
      if (rest.length < 2) return;
      const opcode = (rest[0] as number) & 0x0f;
      let size = (rest[1] as number) & 0x7f;
      let head = 2;
      if (size === 126) {
        size = rest.readUInt16BE(2);
        head = 4;
      } else if (size === 127) {
        size = Number(rest.readBigUInt64BE(2));
        head = 10;
      }
      if (rest.length < head + 4 + size) return;
      const mask = rest.subarray(head, head + 4);
      const payload = Buffer.from(rest.subarray(head + 4, head + 4 + size));
      for (let at = 0; at < size; at++) {
        payload[at] = (payload[at] as number) ^ (mask[at & 3] as number);
      }
      this.#rest = rest.subarray(head + 4 + size);
      if (opcode === 0x1) this.onText(payload.toString());
      else if (opcode === 0x2) this.onBytes(payload);
      else if (opcode === 0x9) this.onPing();
      else if (opcode === 0x8) {
        this.frame(0x8, payload);
        this.socket.end();
      }
    }
  }
}

/** A frame as a server sends it, without a mask. */
export function serverFrame(opcode: number, payload: Buffer, final = true): Buffer {
  const size = payload.length;
  const head = Buffer.alloc(size < 126 ? 2 : size < 65536 ? 4 : 10);
  head[0] = (final ? 0x80 : 0) | opcode;
  head[1] = size < 126 ? size : size < 65536 ? 126 : 127;
  if (head.length === 4) head.writeUInt16BE(size, 2);
  if (head.length === 10) head.writeBigUInt64BE(BigInt(size), 2);
  return Buffer.concat([head, payload]);
}

/** A sandbox, as a server describes it. */
export function sandboxInfo(id = "sb-1"): Record<string, unknown> {
  return { id, template: "mini", cpu: 1, memory_mb: 256, status: "running", metadata: {} };
}

/** The error that a promise rejects with. */
export async function failureOf(work: Promise<unknown>): Promise<Error> {
  try {
    await work;
  } catch (error) {
    return error as Error;
  }
  throw new Error("it succeeded");
}

/** Waits until a condition holds, at most a minute. */
export async function until(condition: () => boolean): Promise<void> {
  for (const end = Date.now() + 60_000; !condition(); ) {
    if (Date.now() > end) throw new Error("the condition never held");
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
