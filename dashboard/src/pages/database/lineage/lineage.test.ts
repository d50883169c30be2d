import { expect, test } from "vitest";
import type { DatabaseInfo } from "@/data/databases";
import { familySize, type Lineage, lineageOf, offspringOf, rootOf, rootsOf } from "./lineage";

function database(id: string, from: Partial<DatabaseInfo> = {}, created_at = 0): DatabaseInfo {
  return { id, status: "running", template: "postgres-16", created_at, ...from };
}

function shape(nodes: Lineage, id: string): string {
  const below = offspringOf(nodes).get(id) ?? [];
  const name = nodes.get(id)?.info === undefined ? `~${id}` : id;
  return below.length === 0 ? name : `${name}(${below.map((one) => shape(nodes, one)).join(" ")})`;
}

test("a family begins with its oldest ancestor, and clones belong to it", () => {
  const nodes = lineageOf([
    database("e", { branched_from: "b" }, 5),
    database("d", { cloned_from: "a" }, 4),
    database("c"),
    database("b", { branched_from: "a" }, 2),
    database("a"),
  ]);
  expect(rootOf(nodes, "e")).toBe("a");
  expect(shape(nodes, "a")).toBe("a(b(e) d)");
  expect(["b", "d", "a"].map((id) => nodes.get(id)?.origin)).toEqual([
    "branch",
    "clone",
    undefined,
  ]);
  expect(rootsOf(nodes)).toEqual(["a", "c"]);
  expect([familySize(nodes, "d"), familySize(nodes, "c")]).toEqual([4, 1]);
});

test("a deleted ancestor keeps its branches together", () => {
  const nodes = lineageOf([
    database("b", { branched_from: "gone" }),
    database("c", { branched_from: "gone" }),
  ]);
  expect(shape(nodes, rootOf(nodes, "c"))).toBe("~gone(b c)");
  expect(familySize(nodes, "c")).toBe(2);
});

test("a circle ends", () => {
  const nodes = lineageOf([
    database("a", { branched_from: "b" }),
    database("b", { branched_from: "a" }),
  ]);
  expect(rootOf(nodes, "a")).toBe("b");
  expect(rootsOf(nodes)).toEqual(["b", "a"]);
});
