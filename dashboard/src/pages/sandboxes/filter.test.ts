import type { SandboxInfo } from "@pandastack/sdk";
import { describe, expect, it } from "vitest";
import { countByGroup, filterSandboxes, labelsOf, nameOf, parsePairs } from "./filter";

function sandbox(id: string, status: string, fields: Partial<SandboxInfo> = {}): SandboxInfo {
  return { id, status, template: "mini", cpu: 1, memory_mb: 256, ...fields };
}

const ALL = [
  sandbox("aa11", "running", { metadata: { name: "Web", task: "t-1" } }),
  sandbox("bb22", "hibernated", { template: "base" }),
  sandbox("cc33", "failed", { metadata: { task: "t-2" } }),
  sandbox("dd44", "waking"),
];

function found(filter: Parameters<typeof filterSandboxes>[1]): string[] {
  return filterSandboxes(ALL, filter).map(({ id }) => id);
}

describe("filterSandboxes", () => {
  it("shows all without a filter, as the same list", () => {
    expect(filterSandboxes(ALL, {})).toBe(ALL);
  });

  it("finds ids, templates, names and labels, in any case", () => {
    expect(found({ q: "BB2" })).toEqual(["bb22"]);
    expect(found({ q: "base" })).toEqual(["bb22"]);
    expect(found({ q: "web" })).toEqual(["aa11"]);
    expect(found({ q: "task=t-2" })).toEqual(["cc33"]);
    expect(found({ q: "task" })).toEqual(["aa11", "cc33"]);
  });

  it("needs every word", () => {
    expect(found({ q: "mini task" })).toEqual(["aa11", "cc33"]);
    expect(found({ q: "mini nothing" })).toEqual([]);
  });

  it("combines state, template and text", () => {
    expect(found({ state: "running" })).toEqual(["aa11", "dd44"]);
    expect(found({ state: "asleep", template: "base" })).toEqual(["bb22"]);
    expect(found({ state: "failed", q: "web" })).toEqual([]);
  });

  it("ignores a group that does not exist", () => {
    expect(found({ state: "flying" })).toHaveLength(4);
  });
});

it("counts states in groups", () => {
  expect(countByGroup(ALL)).toEqual({ running: 2, asleep: 1, failed: 1 });
});

it("shows the name apart from the labels", () => {
  const one = sandbox("a", "running", { metadata: { name: "web", fork_tree_id: "x", task: "1" } });
  expect(nameOf(one)).toBe("web");
  expect(labelsOf(one)).toEqual([["task", "1"]]);
});

describe("parsePairs", () => {
  it("reads lines and keeps equal signs in values", () => {
    expect(parsePairs("A=1\n\n B = x=y \n")).toEqual({ pairs: { A: "1", B: "x=y" } });
  });

  it("names the line that is wrong", () => {
    expect(parsePairs("A=1\nnothing").error).toContain("nothing");
    expect(parsePairs("=1").error).toBeDefined();
  });
});
