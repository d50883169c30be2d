/** The console and the events of a sandbox. */

import type * as models from "./core/models.js";
import * as operations from "./core/operations.js";
import { sleep } from "./deadline.js";
import { defined } from "./defined.js";
import { NetworkError, NotFoundError, ServerError } from "./errors.js";
import type { ServerEvent } from "./sse.js";
import { eventObject } from "./sse.js";
import type { CallOptions, Transport } from "./transport.js";

/** Options of `logs`. */
export interface LogsOptions extends CallOptions {
  stream?: "stdout" | "stderr" | "both" | undefined;
  /** Goes on with further lines as they come. */
  follow?: boolean | undefined;
  /** Number of lines from the end to start with. */
  tail?: number | undefined;
}

const RECONNECT_TRIES = 6;
const SEEN_MAX = 1000;

/** Yields the lines of a console. */
export async function* consoleLines(
  transport: Transport,
  sandboxId: string,
  options: LogsOptions,
): AsyncGenerator<string> {
  const { stream, tail, follow } = options;
  const query = defined({ stream, tail });
  if (!follow) {
    const text = await transport.text(operations.getSandboxesIdLogs(sandboxId, query), options);
    const lines = text.split(/\r?\n/);
    if (lines.at(-1) === "") lines.pop();
    yield* lines;
    return;
  }
  const call = operations.getSandboxesIdLogsStream(sandboxId, { ...query, follow: true });
  for await (const event of transport.events(call, options)) {
    const line = lineOf(event);
    if (line !== undefined) yield line;
  }
}

/** The text of a log event: a JSON object with `line` or `chunk`, or the text itself. */
export function lineOf(event: ServerEvent): string | undefined {
  let data: unknown;
  try {
    data = JSON.parse(event.data);
  } catch {
    return event.data;
  }
  if (typeof data !== "object" || data === null) return event.data;
  const { line, chunk, error } = data as { line?: unknown; chunk?: unknown; error?: unknown };
  if (typeof line === "string") return line.replace(/\r?\n$/, "");
  if (typeof chunk === "string") return chunk;
  if (typeof error === "string") throw new ServerError(error);
  return event.data;
}

/**
 * Yields the events of a sandbox. After a cut it asks again from the time of the last event on,
 * and leaves out what was already given.
 */
export async function* sandboxEvents(
  transport: Transport,
  sandboxId: string,
  options: CallOptions & { tail?: number | undefined; since?: string | undefined },
): AsyncGenerator<models.Event> {
  const { tail, signal, timeoutMs } = options;
  let since = options.since;
  let failures = 0;
  const seen = new Set<string>();
  for (;;) {
    try {
      const query = { follow: true, ...defined(since === undefined ? { tail } : { since }) };
      const call = operations.getSandboxesIdEventsStream(sandboxId, query);
      for await (const event of transport.events(call, { signal, timeoutMs })) {
        failures = 0;
        if (event.event === "error") throw new NetworkError(String(eventObject(event)["error"]));
        if (seen.has(event.data)) continue;
        seen.add(event.data);
        if (seen.size > SEEN_MAX) seen.delete(seen.values().next().value as string);
        const item = eventObject(event) as unknown as models.Event;
        since = item.time;
        yield item;
      }
      // The stream ends when the sandbox is deleted, and also when the server stops.
      await transport.json(operations.getSandboxesId(sandboxId), { signal });
      throw new NetworkError(`sandbox ${sandboxId}: the stream of its events ended`);
    } catch (error) {
      if (error instanceof NotFoundError && seen.size > 0) return;
      if (!(error instanceof NetworkError) || signal?.aborted) throw error;
      if (++failures > RECONNECT_TRIES) throw error;
      await sleep(100 * 2 ** failures, signal);
    }
  }
}
