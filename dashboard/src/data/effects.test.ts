import type { WorkspaceEvent } from "@pandastack/sdk";
import { describe, expect, it } from "vitest";
import { cacheEffects } from "./effects";
import { keys } from "./keys";

function event(kind: string, fields: Partial<WorkspaceEvent> = {}): WorkspaceEvent {
  return { id: "1", kind, ts: "2026-11-18T12:00:00Z", payload: {}, sandbox_id: "a", ...fields };
}

describe("cacheEffects", () => {
  it.each([
    ["sandbox.paused", "paused"],
    ["sandbox.resumed", "running"],
    ["sandbox.hibernated", "hibernated"],
    ["sandbox.woken", "running"],
    ["vm.died", "failed"],
  ])("%s makes the sandbox %s", (kind, status) => {
    expect(cacheEffects(event(kind)).patch).toEqual({ id: "a", fields: { status } });
  });

  it("believes the state that the event names more than its kind", () => {
    const effects = cacheEffects(event("sandbox.resumed", { payload: { status: "failed" } }));
    expect(effects.patch?.fields.status).toBe("failed");
  });

  it("takes the state of a kind that it does not know", () => {
    const effects = cacheEffects(event("sandbox.stretched", { payload: { status: "waking" } }));
    expect(effects.patch?.fields).toEqual({ status: "waking" });
    expect(cacheEffects(event("sandbox.stretched")).patch).toBeUndefined();
  });

  it("reads a sandbox that started, because the page may not know it", () => {
    const effects = cacheEffects(
      event("sandbox.running", { payload: { boot_ms: 12, boot_mode: "fork" } }),
    );
    expect(effects.reload).toEqual(["a"]);
    expect(effects.patch?.fields).toEqual({ status: "running", boot_ms: 12, boot_mode: "fork" });
    expect(effects.stale).toContainEqual(keys.bootStats);
  });

  it("removes what was deleted", () => {
    const effects = cacheEffects(event("sandbox.deleted", { payload: { reason: "idle" } }));
    expect(effects.removed).toEqual(["a"]);
    expect(effects.patch).toBeUndefined();
  });

  it("reads the children of a fork", () => {
    const payload = { children: ["b", { id: "c" }, 7, null] };
    expect(cacheEffects(event("sandbox.forked", { payload })).reload).toEqual(["b", "c"]);
  });

  it("removes the branches that a promotion deleted", () => {
    const effects = cacheEffects(event("fork_tree.promoted", { payload: { deleted: ["b"] } }));
    expect(effects.removed).toEqual(["b"]);
    expect(effects.stale).toContainEqual(keys.tree("a"));
  });

  it("keeps why a sandbox failed", () => {
    const effects = cacheEffects(event("sandbox.failed", { payload: { reason: "no memory" } }));
    expect(effects.patch?.fields).toEqual({ status: "failed", status_reason: "no memory" });
  });

  it.each([
    ["volume.changed", keys.volumes],
    ["template.build_done", keys.templates],
    ["webhook.changed", keys.webhooks],
    ["member.joined", keys.orgs],
    ["billing.budget_alert", keys.bill],
    ["key.revoked", keys.apiKeys],
    ["snapshot.created", keys.snapshots],
  ])("%s reads its list again", (kind, key) => {
    const { sandbox_id: _, ...rest } = event(kind);
    expect(cacheEffects(rest).stale).toContainEqual(key);
  });

  it("ignores an unknown event", () => {
    expect(cacheEffects(event("moon.rose"))).toEqual({ reload: [], stale: [] });
  });

  it("reads the databases again that somebody changed", () => {
    const { sandbox_id: _, ...change } = event("database.changed");
    expect(cacheEffects(change)).toEqual({ reload: [], stale: [keys.databases, keys.quotas] });
  });
});
