import type { SandboxInfo, WorkspaceEvent } from "@pandastack/sdk";
import { describe, expect, it } from "vitest";
import { isShownEvent, ofKind, plainOnly } from "./kinds";

const plain: SandboxInfo = {
  id: "a",
  template: "mini",
  cpu: 1,
  memory_mb: 256,
  status: "running",
  metadata: {},
};
const machine: SandboxInfo = { ...plain, id: "b", template: "postgres-16", database_id: "b" };
// Made from the same template, but no database.
const copy: SandboxInfo = { ...plain, id: "c", template: "postgres-16" };
const all = [plain, machine, copy];

function event(kind: string, database_id?: string): WorkspaceEvent {
  const fields = database_id === undefined ? {} : { database_id };
  return { id: "1", kind, ts: "", payload: {}, sandbox_id: "b", ...fields };
}

describe("kinds of machines", () => {
  it("leaves the machines of databases out unless somebody asks for them", () => {
    expect(plainOnly(all).map(({ id }) => id)).toEqual(["a", "c"]);
    expect(ofKind(all, "database").map(({ id }) => id)).toEqual(["b"]);
    expect(ofKind(all, "all")).toBe(all);
  });

  it("shows what happens to a database, but not what its machine does", () => {
    expect(isShownEvent(event("sandbox.running", "b"))).toBe(false);
    expect(isShownEvent(event("egress.denied", "b"))).toBe(false);
    expect(isShownEvent(event("database.grown", "b"))).toBe(true);
    expect(isShownEvent(event("sandbox.running"))).toBe(true);
    expect(isShownEvent(event("sandbox.running"), "database")).toBe(false);
    expect(isShownEvent(event("sandbox.running", "b"), "all")).toBe(true);
  });
});
