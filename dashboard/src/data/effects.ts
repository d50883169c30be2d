/** What an event of the workspace changes in the cache. Pure, so that it can be tested. */

import type { SandboxInfo, WorkspaceEvent } from "@pandastack/sdk";
import { keys } from "./keys";

/** The changes that one event asks for. */
export interface CacheEffects {
  /** Fields of a known sandbox that changed. */
  patch?: { readonly id: string; readonly fields: Partial<SandboxInfo> };
  /** Sandboxes that are gone. */
  removed?: readonly string[];
  /** Sandboxes to read: new ones, and those that changed more than the event says. */
  reload: readonly string[];
  /** Queries to read again if somebody looks at them. */
  stale: readonly (readonly unknown[])[];
}

/** The state that a sandbox has after an event, if the event does not name it. */
const STATUS_AFTER: Record<string, string> = {
  "sandbox.creating": "creating",
  "sandbox.running": "running",
  "sandbox.created": "running",
  "sandbox.paused": "paused",
  "sandbox.resumed": "running",
  "sandbox.hibernating": "hibernating",
  "sandbox.hibernated": "hibernated",
  "sandbox.waking": "waking",
  "sandbox.woken": "running",
  "sandbox.auto_wake": "running",
  "sandbox.failed": "failed",
  "sandbox.wake_failed": "failed",
  "vm.died": "failed",
  "recover.hibernated": "hibernated",
  "recover.orphaned": "failed",
};

// The start of these tells about a sandbox that the page may not know yet.
const NEW_KINDS = new Set(["sandbox.creating", "sandbox.created", "sandbox.running"]);

/** Queries that depend on a family of events. The first part of the kind names the family. */
const STALE_BY_FAMILY: Record<string, readonly (readonly unknown[])[]> = {
  template: [keys.templates, keys.builds],
  build: [keys.templates, keys.builds],
  snapshot: [keys.snapshots, keys.quotas],
  volume: [keys.volumes, keys.quotas],
  database: [keys.databases, keys.quotas],
  webhook: [keys.webhooks],
  api_key: [keys.apiKeys],
  key: [keys.apiKeys],
  token: [keys.apiKeys],
  org: [keys.orgs, ["me"]],
  member: [keys.orgs, ["me"]],
  invite: [keys.orgs],
  billing: [keys.bill, keys.usage, keys.quotas],
  budget: [keys.bill, keys.quotas],
};

/** What an event changes. An unknown event changes nothing. */
export function cacheEffects(event: WorkspaceEvent): CacheEffects {
  const { kind, payload, sandbox_id: id } = event;
  const family = kind.split(".", 1)[0] ?? "";
  if (kind === "sandbox.deleted") {
    return {
      ...(id === undefined ? {} : { removed: [id] }),
      reload: [],
      stale: [keys.quotas, keys.volumes],
    };
  }
  if (kind === "sandbox.forked") {
    const children = ids(payload["children"]);
    return { reload: children, stale: [keys.quotas, keys.volumes, ...(id ? [keys.tree(id)] : [])] };
  }
  if (kind === "fork_tree.promoted") {
    const removed = ids(payload["deleted"]);
    return { removed, reload: id ? [id] : [], stale: id ? [keys.tree(id)] : [] };
  }
  if (id === undefined || !(family === "sandbox" || kind in STATUS_AFTER)) {
    return { reload: [], stale: STALE_BY_FAMILY[family] ?? [] };
  }
  return sandboxEffects(id, kind, payload);
}

function sandboxEffects(id: string, kind: string, payload: Record<string, unknown>): CacheEffects {
  const status = text(payload["status"]) ?? text(payload["state"]) ?? STATUS_AFTER[kind];
  const fields: Partial<SandboxInfo> = {};
  if (status !== undefined) fields.status = status;
  if (typeof payload["boot_ms"] === "number") fields.boot_ms = payload["boot_ms"];
  const mode = text(payload["boot_mode"]);
  if (mode !== undefined) fields.boot_mode = mode;
  const reason = text(payload["reason"]);
  if (status === "failed" && reason !== undefined) fields.status_reason = reason;
  const isStart = typeof payload["boot_ms"] === "number";
  return {
    ...(Object.keys(fields).length === 0 ? {} : { patch: { id, fields } }),
    reload: NEW_KINDS.has(kind) || kind === "sandbox.changed" ? [id] : [],
    stale: [
      ...(isStart ? [keys.bootStats, keys.quotas] : []),
      // Something about it other than its state: the parts of its page are read again.
      ...(kind === "sandbox.changed" ? [keys.sandbox(id)] : []),
    ],
  };
}

function text(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

function ids(value: unknown): string[] {
  if (!Array.isArray(value)) return [];
  return value
    .map((one: unknown) =>
      typeof one === "string" ? one : text((one as { id?: unknown } | null)?.id),
    )
    .filter((one) => one !== undefined);
}
