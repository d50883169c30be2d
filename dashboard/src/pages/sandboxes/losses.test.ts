import { describe, expect, it } from "vitest";
import type { SandboxInfo } from "@/data/queries";
import { lossesOf } from "./losses";

const SANDBOX: SandboxInfo = {
  id: "0a1b2c3d",
  template: "mini",
  cpu: 1,
  memory_mb: 256,
  status: "running",
};
const VOLUMES = [
  { name: "models", read_only: true, mount_path: "/models" },
  { name: "data-0a1b2c3d", read_only: false, mount_path: "/data" },
];

describe("lossesOf", () => {
  it("says that volumes stay", () => {
    expect(lossesOf([{ ...SANDBOX, volumes: VOLUMES }]).at(-1)).toContain("and volumes stay");
  });

  it("names the copies that go with a fork", () => {
    const fork = { ...SANDBOX, volumes: VOLUMES, metadata: { fork_parent_id: "x" } };
    expect(lossesOf([fork])).toContain("The copies of volumes data-0a1b2c3d");
  });

  it("names the copies that go with a sandbox from a snapshot", () => {
    const made = { ...SANDBOX, volumes: VOLUMES, from_snapshot: "s" };
    expect(lossesOf([made])).toContain("The copies of volumes models, data-0a1b2c3d");
  });
});
