import type { SandboxInfo } from "@pandastack/sdk";
import { expect, test } from "vitest";
import { allNodes, childrenOf, familyRoots, parentOf, rootOf, siblingsOf } from "./family";

function sandbox(id: string, metadata: Record<string, string> = {}): SandboxInfo {
  return { id, template: "mini", cpu: 1, memory_mb: 512, status: "running", metadata };
}

const LIST = [
  sandbox("a", { name: "web" }),
  sandbox("b", { fork_parent_id: "a", fork_tree_id: "t", fork_index: "1" }),
  sandbox("c", { fork_parent_id: "a", fork_tree_id: "t", fork_index: "0" }),
  sandbox("d", { forked_from: "gone" }),
  sandbox("e"),
];

test("parents come from the labels of the server", () => {
  expect(LIST.map(parentOf)).toEqual([undefined, "a", "a", "gone", undefined]);
});

test("ancestors that are gone stay in the picture, as far as they are known", () => {
  const nodes = allNodes(LIST, [{ id: "gone", status: "deleted", parent_id: "older" }]);
  expect(nodes.get("gone")).toMatchObject({ status: "deleted", parentId: "older" });
  expect(nodes.get("older")?.status).toBe("deleted");
  expect(rootOf(nodes, "d")).toBe("older");
  expect(nodes.get("a")?.name).toBe("web");
});

test("one without a name is named after its template", () => {
  const long = { ...sandbox("0123456789"), template: "code-interpreter-2" };
  const nodes = allNodes(
    [sandbox("abcdefgh"), long, sandbox("x", { forked_from: "gone-gone" })],
    [{ id: "gone-gone", status: "deleted", template: "base" }],
  );
  expect(nodes.get("abcdefgh")?.name).toBe("mini abcd");
  expect(nodes.get("0123456789")?.name).toBe("code-interpre… 0123");
  expect(nodes.get("gone-gone")?.name).toBe("base gone");
});

test("families are found, the largest first", () => {
  const nodes = allNodes(LIST);
  expect(familyRoots(nodes, 2)).toEqual([
    { root: "a", size: 3 },
    { root: "gone", size: 2 },
  ]);
  expect(familyRoots(nodes, 1)).toHaveLength(3);
});

test("children are in the order of the fork, siblings share a tree", () => {
  const nodes = allNodes(LIST);
  expect(
    childrenOf(nodes)
      .get("a")
      ?.map(({ id }) => id),
  ).toEqual(["c", "b"]);
  const b = nodes.get("b");
  expect(b && siblingsOf(nodes, b).map(({ id }) => id)).toEqual(["c"]);
});

test("a circle ends", () => {
  const nodes = allNodes([sandbox("x", { forked_from: "y" }), sandbox("y", { forked_from: "x" })]);
  expect(["x", "y"]).toContain(rootOf(nodes, "x"));
});
