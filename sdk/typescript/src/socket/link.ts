/** A WebSocket as this package uses it, whoever implements it. */

/** Why a socket ended. */
export interface SocketEnd {
  /** The close code; 1006 if the connection broke. */
  readonly code: number;
  readonly reason: string;
}

/** What a socket reports. Set the handlers in the same turn in which the socket was opened. */
export interface SocketHandlers {
  onText?: (text: string) => void;
  onBytes?: (bytes: Uint8Array) => void;
  /** Called for every sign of life, also for one without content. */
  onAlive?: () => void;
  /** Called once, last. */
  onEnd?: (end: SocketEnd) => void;
}

/** An open WebSocket. */
export interface SocketLink {
  readonly handlers: SocketHandlers;
  /** Sends text or bytes. Does nothing after the end. */
  send(data: string | Uint8Array): void;
  /** Bytes that wait to be sent. */
  readonly bufferedBytes: number;
  /** Asks the server for a sign of life. False if this kind of socket cannot. */
  ping(): boolean;
  /** Closes in an orderly way; breaks the connection if the server does not answer. */
  close(code?: number, reason?: string): void;
  /** Breaks the connection. */
  abort(reason: string): void;
}
