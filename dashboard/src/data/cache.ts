/** What events and actions change in the cache. */

import type { models, WorkspaceEvent } from "@pandastack/sdk";
import type { QueryClient } from "@tanstack/react-query";
import { client } from "./client";
import { cacheEffects } from "./effects";
import { keys, type SandboxInfo } from "./queries";

const EVENTS_KEPT = 200;
const RELOADS_MAX = 20;
const RELOAD_WAIT_MS = 20;

const waiting = new Set<string>();
let flushing: ReturnType<typeof setTimeout> | undefined;

/** Changes the cache as an event says. */
export function applyEvent(queries: QueryClient, event: WorkspaceEvent): void {
  if (event.kind === "reset") {
    refreshAll(queries);
    return;
  }
  applyToRows(queries, event);
  for (const queryKey of cacheEffects(event).stale) void queries.invalidateQueries({ queryKey });
  if (event.sandbox_id !== undefined) reloadDatabase(queries, event.sandbox_id);
  queries.setQueryData<WorkspaceEvent[]>(keys.events, (old) =>
    old === undefined || old.some(({ id }) => id !== "" && id === event.id)
      ? old
      : [event, ...old].slice(0, EVENTS_KEPT),
  );
}

/** Changes only the records of sandboxes. Doing it twice is the same as once. */
export function applyToRows(queries: QueryClient, event: WorkspaceEvent): void {
  const { patch, removed, reload } = cacheEffects(event);
  if (patch !== undefined) patchSandbox(queries, patch.id, patch.fields);
  if (removed !== undefined) removeSandboxes(queries, removed);
  reloadSoon(queries, reload);
}

/** Changes some fields of a sandbox wherever it is cached. Returns what the record was before. */
export function patchSandbox(
  queries: QueryClient,
  id: string,
  fields: Partial<SandboxInfo>,
): SandboxInfo | undefined {
  let before: SandboxInfo | undefined;
  queries.setQueryData<SandboxInfo[]>(keys.sandboxes, (list) => {
    const at = list?.findIndex((one) => one.id === id) ?? -1;
    const old = list?.[at];
    if (list === undefined || old === undefined) return list;
    before = old;
    return list.with(at, { ...old, ...fields });
  });
  queries.setQueryData<SandboxInfo>(keys.sandbox(id), (old) => {
    before ??= old;
    return old && { ...old, ...fields };
  });
  return before;
}

/** Puts a whole record into the cache; a new one goes to the top of the list. */
export function putSandbox(queries: QueryClient, info: SandboxInfo): void {
  queries.setQueryData<SandboxInfo[]>(keys.sandboxes, (list) => {
    if (list === undefined) return list;
    const at = list.findIndex(({ id }) => id === info.id);
    return at < 0 ? [info, ...list] : list.with(at, info);
  });
  queries.setQueryData<SandboxInfo>(keys.sandbox(info.id), info);
}

/** Takes sandboxes out of the list. Their own pages say that they are gone. */
export function removeSandboxes(queries: QueryClient, ids: readonly string[]): void {
  const gone = new Set(ids);
  queries.setQueryData<SandboxInfo[]>(keys.sandboxes, (list) =>
    list?.filter(({ id }) => !gone.has(id)),
  );
  for (const id of ids) {
    queries.setQueryData<SandboxInfo>(
      keys.sandbox(id),
      (old) => old && { ...old, status: "deleted" },
    );
  }
}

/** Reads sandboxes soon. Many at once are read as the whole list instead. */
function reloadSoon(queries: QueryClient, ids: readonly string[]): void {
  for (const id of ids) waiting.add(id);
  if (waiting.size === 0 || flushing !== undefined) return;
  flushing = setTimeout(() => {
    const all = [...waiting];
    waiting.clear();
    flushing = undefined;
    if (all.length > RELOADS_MAX) void queries.invalidateQueries({ queryKey: keys.sandboxes });
    else for (const id of all) void reloadSandbox(queries, id);
  }, RELOAD_WAIT_MS);
}

/** Reads one sandbox and puts it into the list. */
export async function reloadSandbox(queries: QueryClient, id: string): Promise<void> {
  try {
    putSandbox(queries, (await client.sandboxes.get(id)).info);
  } catch {
    // It was deleted meanwhile, or the server is away; the stream or the poll will tell.
  }
}

/** Reads the databases again if a sandbox is the machine of one. Both have the same id. */
function reloadDatabase(queries: QueryClient, id: string): void {
  const list = queries.getQueryData<models.ManagedDatabase[]>(keys.databases);
  const isKnown = list?.some((one) => one.id === id) ?? false;
  if (isKnown) void queries.invalidateQueries({ queryKey: keys.databases, exact: true });
  void queries.invalidateQueries({ queryKey: keys.database(id), exact: true });
}

/** Reads everything again that somebody looks at. */
export function refreshAll(queries: QueryClient): void {
  void queries.invalidateQueries({ predicate: ({ queryKey }) => queryKey[0] !== "me" });
}
