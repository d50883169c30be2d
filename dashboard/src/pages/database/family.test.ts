import { expect, test } from "vitest";
import type { DatabaseInfo } from "@/data/databases";
import { branchCount, type FamilyNode, familyOf, familySize } from "./family";

function database(id: string, from?: string, created_at = 0): DatabaseInfo {
  return {
    id,
    status: "running",
    template: "postgres-16",
    created_at,
    ...(from === undefined ? {} : { branched_from: from }),
  };
}

function shape({ id, info, branches }: FamilyNode): string {
  const below = branches.length === 0 ? "" : `(${branches.map(shape).join(" ")})`;
  return `${info === undefined ? `~${id}` : id}${below}`;
}

test("a family begins with its oldest ancestor, branches in the order of their age", () => {
  const all = [
    database("e", "b", 5),
    database("d", "a", 4),
    database("c"),
    database("b", "a", 2),
    database("a"),
  ];
  const family = familyOf(all, "e");
  expect(shape(family)).toBe("a(b(e) d)");
  expect(familySize(family)).toBe(4);
  expect(shape(familyOf(all, "c"))).toBe("c");
  expect(branchCount(all, "a")).toBe(2);
});

test("a deleted ancestor keeps its branches together", () => {
  const family = familyOf([database("b", "gone"), database("c", "gone")], "c");
  expect(shape(family)).toBe("~gone(b c)");
  expect(familySize(family)).toBe(2);
});

test("a circle ends", () => {
  expect(shape(familyOf([database("a", "b"), database("b", "a")], "a"))).toBe("b(a)");
});
