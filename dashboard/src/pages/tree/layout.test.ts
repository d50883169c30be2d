import { expect, test } from "vitest";
import {
  COLUMN_WIDTH,
  cameraFor,
  layoutTrees,
  linkPath,
  NODE_HEIGHT,
  neighbour,
  type PlacedTree,
  ROW_HEIGHT,
  reveal,
  visibleNodes,
  ZOOM_MAX,
  ZOOM_MIN,
  zoomAt,
} from "./layout";

function tree(children: Record<string, string[]>, roots = ["a"]): PlacedTree {
  return layoutTrees(roots, (id) => children[id] ?? []);
}

const FAMILY = { a: ["b", "c", "d"], c: ["e", "f"] };

function node(placed: PlacedTree, id: string) {
  const found = placed.nodes.find((one) => one.id === id);
  if (found === undefined) throw new Error(`${id} is not placed`);
  return found;
}

test("a parent stands in the middle of its children, one column to the left", () => {
  const placed = tree(FAMILY);
  expect(node(placed, "c").y).toBe((node(placed, "e").y + node(placed, "f").y) / 2);
  expect(node(placed, "a").y).toBe((node(placed, "b").y + node(placed, "d").y) / 2);
  expect(node(placed, "e").x).toBe(2 * COLUMN_WIDTH);
  expect(placed.nodes.map(({ id }) => id)).toEqual(["a", "b", "c", "e", "f", "d"]);
  expect(node(placed, "c")).toMatchObject({ level: 2, position: 2, siblings: 3, parentId: "a" });
});

test("no two nodes of a column overlap, also in a large family", () => {
  const children: Record<string, string[]> = {};
  for (let at = 0; at < 200; at++) {
    const parent = `n${Math.floor((at * 7) % 40)}`;
    if (`n${at + 40}` !== parent) children[parent] = [...(children[parent] ?? []), `n${at + 40}`];
  }
  const placed = layoutTrees(
    Array.from({ length: 40 }, (_, at) => `n${at}`),
    (id) => children[id] ?? [],
  );
  for (const x of new Set(placed.nodes.map((one) => one.x))) {
    const column = placed.nodes.filter((one) => one.x === x);
    const ys = column.map(({ y }) => y).sort((a, b) => a - b);
    ys.forEach((y, at) => {
      if (at > 0) expect(y - (ys[at - 1] ?? 0)).toBeGreaterThanOrEqual(ROW_HEIGHT / 1.01);
    });
  }
  expect(placed.height).toBeGreaterThanOrEqual(
    Math.max(...placed.nodes.map(({ y }) => y)) + NODE_HEIGHT,
  );
});

test("a circle and a child with two parents are placed once", () => {
  const placed = tree({ a: ["b"], b: ["a", "c"], c: ["b"] });
  expect(placed.nodes.map(({ id }) => id)).toEqual(["a", "b", "c"]);
  expect(layoutTrees(["a", "a"], () => []).nodes).toHaveLength(1);
  expect(layoutTrees([], () => []).nodes).toEqual([]);
});

test("the whole picture fits, and a small one is not blown up", () => {
  const placed = tree(FAMILY);
  expect(cameraFor(placed, 4000, 4000).zoom).toBe(1);
  const small = cameraFor(placed, 380, 400);
  expect(placed.width * small.zoom).toBeLessThanOrEqual(380);
  expect(
    cameraFor(
      layoutTrees([], () => []),
      0,
      0,
    ).zoom,
  ).toBeGreaterThan(0);
});

test("zoom keeps the point under the pointer, within limits", () => {
  const camera = { x: 10, y: 20, zoom: 1 };
  const next = zoomAt(camera, 2, 110, 120);
  expect((110 - next.x) / next.zoom).toBeCloseTo((110 - camera.x) / camera.zoom);
  expect(zoomAt(camera, 1000, 0, 0).zoom).toBe(ZOOM_MAX);
  expect(zoomAt(camera, 0.0001, 0, 0).zoom).toBe(ZOOM_MIN);
});

test("a hidden node is brought into view, a visible one moves nothing", () => {
  const placed = tree(FAMILY);
  const camera = { x: 40, y: 40, zoom: 1 };
  expect(reveal(camera, node(placed, "b"), 2000, 2000)).toEqual(camera);
  const moved = reveal(camera, node(placed, "f"), 400, 200);
  expect(moved.x + node(placed, "f").x).toBeLessThan(400);
  expect(moved.y + node(placed, "f").y).toBeLessThan(200);
});

test("arrow keys lead to relatives", () => {
  const placed = tree(FAMILY);
  expect(neighbour(placed, "c", "ArrowLeft")?.id).toBe("a");
  expect(neighbour(placed, "c", "ArrowRight")?.id).toBe("e");
  expect(neighbour(placed, "c", "ArrowDown")?.id).toBe("d");
  expect(neighbour(placed, "b", "ArrowUp")).toBeUndefined();
  expect(neighbour(placed, "f", "Home")?.id).toBe("a");
});

test("a link starts at the parent and ends at the child", () => {
  const placed = tree(FAMILY);
  expect(linkPath(node(placed, "a"), node(placed, "b"))).toMatch(/^M176 \d+(\.\d+)?C.* 236 32$/);
});

test("a large picture draws only what can be seen", () => {
  const roots = Array.from({ length: 5000 }, (_, at) => `n${at}`);
  const large = layoutTrees(roots, () => []);
  const camera = { x: 0, y: -100_000, zoom: 1 };
  const seen = visibleNodes(large, camera, 1000, 800);
  expect(seen.length).toBeGreaterThan(5);
  expect(seen.length).toBeLessThan(50);
  expect(seen.some(({ y }) => y >= 100_000 && y < 100_800)).toBe(true);
  const small = tree(FAMILY);
  expect(visibleNodes(small, camera, 1000, 800)).toBe(small.nodes);
});
