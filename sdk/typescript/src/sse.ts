/** Reads server-sent events. */

import { NetworkError } from "./errors.js";

/** One event of a stream. */
export interface ServerEvent {
  /** Its name; `message` if the server gave none. */
  readonly event: string;
  readonly data: string;
  /** The last id that the stream named. */
  readonly id: string | undefined;
}

const EVENT_CHARS_MAX = 32 * 1024 * 1024;

/** Cuts a stream of bytes into events. The bytes may be split anywhere, also inside a character. */
export class EventParser {
  readonly #decoder = new TextDecoder();
  #rest = "";
  #name = "";
  #data: string[] = [];
  #dataChars = 0;
  #id: string | undefined;
  #afterCr = false;

  /** Takes the next bytes and returns the events that are complete. */
  push(bytes: Uint8Array): ServerEvent[] {
    return this.#text(this.#decoder.decode(bytes, { stream: true }));
  }

  #text(text: string): ServerEvent[] {
    // A line ends with LF, CR or CRLF. A CRLF can be split between two pieces.
    const piece = this.#afterCr && text.startsWith("\n") ? text.slice(1) : text;
    if (text !== "") this.#afterCr = text.endsWith("\r");
    const lines = (this.#rest + piece).split(/\r\n|\n|\r/);
    this.#rest = lines.pop() ?? "";
    const events: ServerEvent[] = [];
    for (const line of lines) this.#line(line, events);
    if (this.#rest.length + this.#dataChars > EVENT_CHARS_MAX) {
      throw new NetworkError("the server sent an event that is too long; read it in smaller parts");
    }
    return events;
  }

  #line(line: string, events: ServerEvent[]): void {
    if (line === "") {
      if (this.#data.length > 0) {
        const event = this.#name || "message";
        events.push({ event, data: this.#data.join("\n"), id: this.#id });
      }
      this.#name = "";
      this.#data = [];
      this.#dataChars = 0;
      return;
    }
    const colon = line.indexOf(":");
    if (colon === 0) return;
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") this.#name = value;
    else if (field === "id") this.#id = value;
    else if (field === "data") {
      this.#data.push(value);
      this.#dataChars += value.length;
    }
  }
}

/** The data of an event as a JSON object. */
export function eventObject(event: ServerEvent): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(event.data);
    if (typeof value === "object" && value !== null) return value as Record<string, unknown>;
  } catch {
    // Reported below, with the start of what came.
  }
  throw new NetworkError(
    `the server sent an event ${event.event} that is not a JSON object: ${event.data.slice(0, 200)}`,
  );
}
