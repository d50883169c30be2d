/** The events of the workspace, as the page hears them. */

import { AuthError, type WorkspaceEvent } from "@pandastack/sdk";
import type { QueryClient } from "@tanstack/react-query";
import { applyEvent, applyToRows, refreshAll } from "./cache";
import { client } from "./client";
import { keys, type SandboxInfo } from "./queries";
import { meQuery, onSignOut } from "./session";
import {
  type Follow,
  OwnStream,
  type PageStream,
  SharedStream,
  type StreamListener,
  type StreamState,
} from "./stream";

type Listener = (event: WorkspaceEvent) => void;

const POLL_MS = 15_000;
const CATCH_UP_MS = 1_000;
const CATCH_UP_ROWS = 1_000;
const RECENT_MAX = 500;
const LIVE_QUERIES = new Set(["sandboxes", "sandbox"]);

let recent: readonly { readonly at: number; readonly event: WorkspaceEvent }[] = [];
let state: StreamState = "connecting";
const stateListeners = new Set<() => void>();
const eventListeners = new Set<Listener>();

/** For `useSyncExternalStore`: whether the page is live. */
export const streamState = {
  subscribe(listener: () => void): () => void {
    stateListeners.add(listener);
    return () => stateListeners.delete(listener);
  },
  get(): StreamState {
    return state;
  },
};

/** Calls a function with every event, for pages that show events. Returns how to stop. */
export function onEvent(listener: Listener): () => void {
  eventListeners.add(listener);
  return () => eventListeners.delete(listener);
}

/**
 * Follows the events of the workspace until stopped. While the stream is cut, lists are read again.
 * Tabs with the same `who`, a person in a workspace, share a stream.
 */
export function startEvents(queries: QueryClient, who: string): () => void {
  const stream = openStream(`pandastack-events/${who}`, hearing(queries));
  const onVisibility = (): void => stream.setVisible(document.visibilityState === "visible");
  const poll = setInterval(() => {
    if (state === "down" && document.visibilityState === "visible") refreshAll(queries);
  }, POLL_MS);
  const unwatch = watchReads(queries);
  // The server would cut the stream, and the browser would call that an error.
  const stay = onSignOut(() => {
    stream.stop();
    setState("down");
    void queries.cancelQueries();
  });
  document.addEventListener("visibilitychange", onVisibility);
  onVisibility();
  return () => {
    document.removeEventListener("visibilitychange", onVisibility);
    unwatch();
    stay();
    clearInterval(poll);
    stream.stop();
  };
}

/** Tabs share a stream if the browser lets them: by plain http it does on `localhost` only. */
function openStream(name: string, listener: StreamListener): PageStream {
  const follow: Follow = (options) => client.events.follow({ ...options, kind: "all" });
  const locks = navigator.locks as LockManager | undefined;
  if (locks === undefined || typeof BroadcastChannel !== "function") {
    return new OwnStream(follow, listener);
  }
  return new SharedStream(name, { locks, channel: new BroadcastChannel(name), follow }, listener);
}

/** What the page does with the news. */
function hearing(queries: QueryClient): StreamListener {
  let wasLive = false;
  return {
    event(event) {
      recent = [...recent.slice(-RECENT_MAX), { at: Date.now(), event }];
      applyEvent(queries, event);
      for (const listener of eventListeners) listener(event);
    },
    state(next) {
      setState(next);
      if (next === "live" && !wasLive) setTimeout(() => catchUp(queries), CATCH_UP_MS);
      wasLive ||= next === "live";
    },
    refused(error) {
      // The session may have ended: then the shell sees that nobody is signed in.
      if (error !== undefined && !(error instanceof AuthError)) return;
      void queries.invalidateQueries({ queryKey: meQuery.queryKey });
    },
  };
}

/** What was read before the stream began may be old. A long list is left as it is. */
function catchUp(queries: QueryClient): void {
  const list = queries.getQueryData<SandboxInfo[]>(keys.sandboxes);
  const isRead = queries.getQueryState(keys.sandboxes)?.fetchStatus === "idle";
  if (isRead && list !== undefined && list.length < CATCH_UP_ROWS) {
    void queries.invalidateQueries({ queryKey: keys.sandboxes });
  }
}

/**
 * A list that was being read while events came may be older than they are. So they are applied once
 * more after the read.
 */
function watchReads(queries: QueryClient): () => void {
  const begun = new Map<string, number>();
  return queries.getQueryCache().subscribe((note) => {
    if (note.type !== "updated" || !LIVE_QUERIES.has(String(note.query.queryKey[0]))) return;
    const { action, query } = note;
    if (action.type === "fetch") begun.set(query.queryHash, Date.now());
    const since = begun.get(query.queryHash);
    if (action.type !== "success" || action.manual === true || since === undefined) return;
    begun.delete(query.queryHash);
    const missed = recent.filter(({ at }) => at > since);
    // Not inside the notification: it is about the cache that this changes.
    if (missed.length > 0)
      queueMicrotask(() => missed.map(({ event }) => applyToRows(queries, event)));
  });
}

function setState(next: StreamState): void {
  if (state === next) return;
  state = next;
  for (const listener of stateListeners) listener();
}
