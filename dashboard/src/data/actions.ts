/** Actions on sandboxes: the list changes at once, and goes back if the server refuses. */

import { NotFoundError } from "@pandastack/sdk";
import { type QueryClient, useQueryClient } from "@tanstack/react-query";
import { useMemo } from "react";
import { toast } from "@/ui/toast";
import { patchSandbox, putSandbox, reloadSandbox, removeSandboxes } from "./cache";
import { sandboxHandle } from "./client";
import { plural } from "./format";
import { keys, type SandboxInfo } from "./queries";

export type SandboxAction = "pause" | "resume" | "hibernate" | "wake" | "delete";

interface ActionFacts {
  /** What the list shows until the server answers. */
  readonly during: string;
  readonly after: string;
  /** The past form, for the toast. */
  readonly done: string;
  readonly from: ReadonlySet<string>;
  /** The action that brings the state before back. */
  readonly undo?: SandboxAction;
}

const ACTIVE = ["running", "paused", "hibernated", "failed", "creating", "waking"];

export const SANDBOX_ACTIONS: Record<SandboxAction, ActionFacts> = {
  pause: {
    during: "paused",
    after: "paused",
    done: "paused",
    from: new Set(["running"]),
    undo: "resume",
  },
  resume: {
    during: "running",
    after: "running",
    done: "resumed",
    from: new Set(["paused"]),
    undo: "pause",
  },
  hibernate: {
    during: "hibernating",
    after: "hibernated",
    done: "put to sleep",
    from: new Set(["running", "paused"]),
    undo: "wake",
  },
  wake: {
    during: "waking",
    after: "running",
    done: "woken",
    from: new Set(["hibernated"]),
    undo: "hibernate",
  },
  delete: { during: "stopping", after: "deleted", done: "deleted", from: new Set(ACTIVE) },
};

// The server limits requests per second; more at once would only wait there.
const AT_ONCE = 8;

/** Which of these sandboxes an action applies to. */
export function applicable(
  action: SandboxAction,
  sandboxes: readonly SandboxInfo[],
): SandboxInfo[] {
  return sandboxes.filter(({ status }) => SANDBOX_ACTIONS[action].from.has(status));
}

async function send(action: SandboxAction, id: string): Promise<void> {
  const sandbox = sandboxHandle(id);
  if (action === "delete") return sandbox.delete();
  return sandbox[action]();
}

async function runOne(
  queries: QueryClient,
  action: SandboxAction,
  id: string,
): Promise<unknown | undefined> {
  const facts = SANDBOX_ACTIONS[action];
  const before = patchSandbox(queries, id, { status: facts.during });
  try {
    await send(action, id);
  } catch (error) {
    const isGone = error instanceof NotFoundError;
    if (isGone) removeSandboxes(queries, [id]);
    else {
      if (before !== undefined) patchSandbox(queries, id, { status: before.status });
      // The request may have arrived although its answer did not.
      void reloadSandbox(queries, id);
    }
    return isGone && action === "delete" ? undefined : error;
  }
  if (action === "delete") removeSandboxes(queries, [id]);
  else patchSandbox(queries, id, { status: facts.after });
  return undefined;
}

/** Does one action to many sandboxes, a few at a time, and reports once. */
async function runMany(
  queries: QueryClient,
  action: SandboxAction,
  ids: readonly string[],
): Promise<void> {
  const waiting = [...ids];
  const errors: unknown[] = [];
  const done: string[] = [];
  const worker = async (): Promise<void> => {
    for (let id = waiting.shift(); id !== undefined; id = waiting.shift()) {
      const error = await runOne(queries, action, id);
      if (error === undefined) done.push(id);
      else errors.push(error);
    }
  };
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, ids.length) }, worker));
  void queries.invalidateQueries({ queryKey: keys.quotas });
  const { done: word, undo } = SANDBOX_ACTIONS[action];
  if (done.length > 0) {
    toast.success(
      `${plural(done.length, "sandbox", "sandboxes")} ${word}`,
      undo && { action: { label: "Undo", run: () => void runMany(queries, undo, done) } },
    );
  }
  if (errors.length > 0) {
    toast.error(
      errors[0],
      errors.length > 1 ? `${errors.length} of ${ids.length} failed` : undefined,
    );
  }
}

export interface SandboxActions {
  run(action: SandboxAction, ids: readonly string[]): Promise<void>;
  /** One running copy. Resolves to its id; undefined if it failed, which was reported. */
  fork(id: string): Promise<string | undefined>;
  /** Saves memory and disk. Resolves to the snapshot's id. */
  snapshot(id: string): Promise<string | undefined>;
}

/** The actions on sandboxes. */
export function useSandboxActions(): SandboxActions {
  const queries = useQueryClient();
  return useMemo(
    () => ({
      run: (action, ids) => runMany(queries, action, ids),
      async fork(id) {
        try {
          const child = await sandboxHandle(id).fork();
          putSandbox(queries, child.info);
          void queries.invalidateQueries({ queryKey: keys.tree(id) });
          toast.success("Sandbox forked");
          return child.id;
        } catch (error) {
          toast.error(error);
          return undefined;
        }
      },
      async snapshot(id) {
        try {
          const snapshot = await sandboxHandle(id).snapshot();
          void queries.invalidateQueries({ queryKey: keys.snapshots });
          toast.success("Snapshot saved");
          return snapshot.id;
        } catch (error) {
          toast.error(error);
          return undefined;
        }
      },
    }),
    [queries],
  );
}
