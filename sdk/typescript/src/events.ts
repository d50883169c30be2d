/** Everything that happens in a workspace, as one stream. */

import type { Client } from "./client.js";
import type * as models from "./core/models.js";
import * as operations from "./core/operations.js";
import { sleep } from "./deadline.js";
import { defined } from "./defined.js";
import { NetworkError, RateLimitError, ServerError } from "./errors.js";
import type { MachineKind } from "./sandboxes.js";
import type { ServerEvent } from "./sse.js";
import { eventObject } from "./sse.js";
import type { CallOptions } from "./transport.js";

/**
 * Something that happened in the workspace. The kind `reset` means that events were missed: read
 * again what is shown.
 */
export type WorkspaceEvent = models.WorkspaceEvent;

/** Options of the stream. */
export interface EventsFollowOptions extends CallOptions {
  /** The id of the last event that is known. Without it, only new events come. */
  since?: string | undefined;
  /** Events of the machines of databases are left out, unless this asks for them. */
  kind?: MachineKind | undefined;
  /** Called when the connection is open (true), and when it is cut (false). */
  onConnection?: ((open: boolean) => void) | undefined;
}

// A refusal by a limit is over soon. Every other refusal stays one.
const RETRIED = [NetworkError, ServerError, RateLimitError];
const WAIT_MS_MIN = 250;
const WAIT_MS_MAX = 10_000;

/** The events of the workspace. */
export class EventsAPI {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  /** The last events, oldest first. */
  async list(
    options: CallOptions & {
      limit?: number | undefined;
      since?: string | undefined;
      kind?: MachineKind | undefined;
    } = {},
  ): Promise<WorkspaceEvent[]> {
    const { limit, since, kind } = options;
    const call = operations.getEvents(defined({ limit, since, kind }));
    const answer = await this.#client.transport.json(call, options);
    return answer.events;
  }

  /**
   * Yields events as they happen, until the signal aborts. After a cut it connects again and goes
   * on after the last event.
   */
  async *follow(options: EventsFollowOptions = {}): AsyncGenerator<WorkspaceEvent> {
    const { signal, timeoutMs, kind, onConnection } = options;
    let since = options.since;
    let wasOpen = false;
    for (let waitMs = WAIT_MS_MIN; ; waitMs = Math.min(WAIT_MS_MAX, waitMs * 2)) {
      try {
        // Without a place to go on from, what happened during the cut is unknown.
        if (wasOpen && since === undefined) yield missed("");
        const call = operations.getEventsStream({ follow: true, ...defined({ since, kind }) });
        const onOpen = (): void => {
          wasOpen = true;
          waitMs = WAIT_MS_MIN;
          onConnection?.(true);
        };
        for await (const event of this.#client.transport.events(call, {
          signal,
          timeoutMs,
          onOpen,
        })) {
          if (event.event === "error") throw new NetworkError(String(eventObject(event)["error"]));
          since = event.id || placeOf(event) || since;
          if (event.event === "reset") yield missed(since ?? "");
          else if (event.event === "event") yield eventObject(event) as unknown as WorkspaceEvent;
        }
      } catch (error) {
        if (signal?.aborted) throw error;
        if (!RETRIED.some((kind) => error instanceof kind)) throw error;
      } finally {
        onConnection?.(false);
      }
      await sleep(waitMs, signal);
    }
  }
}

/** Where to go on after `ready` and `reset`. */
function placeOf(event: ServerEvent): string | undefined {
  if (event.event !== "ready" && event.event !== "reset") return undefined;
  return (eventObject(event) as unknown as models.EventPlace).cursor;
}

/** What stands for the events that were missed. */
function missed(id: string): WorkspaceEvent {
  return { id, kind: "reset", ts: "", payload: {} };
}
