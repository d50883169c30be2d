/** The WebSocket of the runtime. */

import type { Deadline } from "../deadline.js";
import { errorFromResponse, NetworkError } from "../errors.js";
import type { SocketHandlers, SocketLink } from "./link.js";

type SocketClass = new (
  address: string,
  options?: string[] | { headers: Record<string, string> },
) => WebSocket;

/**
 * Opens a WebSocket of the runtime. Node and Bun send headers. A browser cannot: there the key
 * goes as the protocol `bearer.KEY`, and the organisation as `pds-org.ID`. The server removes both.
 */
export function openWebSocket(
  address: string,
  headers: Record<string, string>,
  sendsHeaders: boolean,
  deadline: Deadline,
): Promise<SocketLink> {
  const Socket = globalThis.WebSocket as unknown as SocketClass;
  const target = address.replace(/^http/, "ws");
  const socket = new Socket(target, sendsHeaders ? { headers } : protocolsOf(headers));
  socket.binaryType = "arraybuffer";
  return new Promise<SocketLink>((resolve, reject) => {
    const stop = (): void => {
      socket.close();
      reject(deadline.failure());
    };
    if (deadline.signal.aborted) return stop();
    deadline.signal.addEventListener("abort", stop, { once: true });
    const settle = (): void => deadline.signal.removeEventListener("abort", stop);
    const refused = (): void => {
      settle();
      refusal(address, headers, deadline).then(reject, reject);
    };
    socket.addEventListener("error", refused, { once: true });
    socket.addEventListener("close", refused, { once: true });
    socket.addEventListener(
      "open",
      () => {
        settle();
        socket.removeEventListener("error", refused);
        socket.removeEventListener("close", refused);
        resolve(new WebLink(socket));
      },
      { once: true },
    );
  });
}

/** The runtime does not tell why it was refused. The same request without an upgrade does. */
async function refusal(
  address: string,
  headers: Record<string, string>,
  deadline: Deadline,
): Promise<unknown> {
  const unknown = new NetworkError(`cannot open a WebSocket to ${address}`);
  try {
    const response = await fetch(address, { headers, signal: deadline.signal });
    if (response.ok || response.status === 426) {
      await response.body?.cancel();
      return unknown;
    }
    return await errorFromResponse(response);
  } catch {
    return deadline.signal.aborted ? deadline.failure() : unknown;
  }
}

function protocolsOf(headers: Record<string, string>): string[] {
  const protocols = ["pds"];
  const key = headers["authorization"]?.replace(/^Bearer /, "");
  if (key !== undefined) protocols.push(`bearer.${key}`);
  const org = headers["x-pandastack-org"];
  if (org !== undefined) protocols.push(`pds-org.${org}`);
  return protocols;
}

class WebLink implements SocketLink {
  readonly handlers: SocketHandlers = {};
  readonly #socket: WebSocket;
  #ended = false;

  constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.addEventListener("message", (event: MessageEvent<string | ArrayBuffer>) => {
      if (this.#ended) return;
      this.handlers.onAlive?.();
      if (typeof event.data === "string") this.handlers.onText?.(event.data);
      else this.handlers.onBytes?.(new Uint8Array(event.data));
    });
    socket.addEventListener("close", (event) => this.#end(event.code, event.reason));
    socket.addEventListener("error", () => this.#end(1006, "the connection broke"));
  }

  get bufferedBytes(): number {
    return this.#socket.bufferedAmount;
  }

  send(data: string | Uint8Array): void {
    if (!this.#ended) this.#socket.send(data as string | Uint8Array<ArrayBuffer>);
  }

  ping(): boolean {
    return false;
  }

  close(code = 1000, reason = ""): void {
    if (!this.#ended) this.#socket.close(code, reason);
  }

  abort(reason: string): void {
    this.#end(1006, reason);
    this.#socket.close();
  }

  #end(code: number, reason: string): void {
    if (this.#ended) return;
    this.#ended = true;
    this.handlers.onEnd?.({ code, reason });
  }
}
