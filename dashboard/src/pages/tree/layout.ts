/**
 * Places the nodes of a tree from left to right. Pure.
 *
 * Every leaf has a row of its own, in the order of its ancestors; a parent stands in the middle of
 * its first and last child. So lines never cross, and nothing overlaps.
 */

export const NODE_WIDTH = 176;
export const NODE_HEIGHT = 64;
export const COLUMN_WIDTH = 236;
export const ROW_HEIGHT = 80;
const FAMILY_GAP = 40;

export interface PlacedNode {
  readonly id: string;
  readonly x: number;
  readonly y: number;
  /** 1 for a root. */
  readonly level: number;
  /** Its place among its siblings, from 1. */
  readonly position: number;
  readonly siblings: number;
  readonly parentId: string | undefined;
}

export interface PlacedTree {
  /** Parents before their children, each subtree together. */
  readonly nodes: readonly PlacedNode[];
  readonly width: number;
  readonly height: number;
}

/** Places the trees of some roots, one below the other. */
export function layoutTrees(
  roots: readonly string[],
  childrenOf: (id: string) => readonly string[],
): PlacedTree {
  const nodes: PlacedNode[] = [];
  const seen = new Set<string>();
  let top = 0;
  let right = 0;

  // Returns the middle of the subtree. The stack is as deep as the family has generations.
  const place = (
    id: string,
    level: number,
    parentId: string | undefined,
    position: number,
    siblings: number,
  ): number => {
    seen.add(id);
    const at = nodes.length;
    nodes.push({ id, x: 0, y: 0, level, position, siblings, parentId });
    const children = childrenOf(id).filter((child) => !seen.has(child));
    const x = (level - 1) * COLUMN_WIDTH;
    right = Math.max(right, x + NODE_WIDTH);
    let y: number;
    if (children.length === 0) {
      y = top;
      top += ROW_HEIGHT;
    } else {
      const ys = children.map((child, index) =>
        place(child, level + 1, id, index + 1, children.length),
      );
      y = ((ys[0] ?? 0) + (ys.at(-1) ?? 0)) / 2;
    }
    nodes[at] = { id, x, y, level, position, siblings, parentId };
    return y;
  };

  roots.forEach((root, index) => {
    if (seen.has(root)) return;
    if (index > 0) top += FAMILY_GAP;
    place(root, 1, undefined, index + 1, roots.length);
  });
  return { nodes, width: right, height: Math.max(0, top - ROW_HEIGHT + NODE_HEIGHT) };
}

/** The line from a parent to its child. */
export function linkPath(parent: PlacedNode, child: PlacedNode): string {
  const x1 = parent.x + NODE_WIDTH;
  const y1 = parent.y + NODE_HEIGHT / 2;
  const x2 = child.x;
  const y2 = child.y + NODE_HEIGHT / 2;
  const middle = (x1 + x2) / 2;
  return `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`;
}

export interface Camera {
  /** Where the origin of the picture is on the screen. */
  readonly x: number;
  readonly y: number;
  readonly zoom: number;
}

export const ZOOM_MIN = 0.1;
export const ZOOM_MAX = 2.5;
const MARGIN = 32;
const DRAWN_MAX = 600;

/** The camera that shows the whole picture, and does not blow up a small one. */
export function cameraFor(tree: PlacedTree, width: number, height: number): Camera {
  const free = (size: number): number => Math.max(1, size - 2 * MARGIN);
  const zoom = Math.min(
    1,
    Math.max(
      ZOOM_MIN,
      Math.min(free(width) / Math.max(1, tree.width), free(height) / Math.max(1, tree.height)),
    ),
  );
  return {
    zoom,
    x: Math.max(MARGIN, (width - tree.width * zoom) / 2),
    y: Math.max(MARGIN, (height - tree.height * zoom) / 2),
  };
}

/** Zooms so that the point under the pointer stays where it is. */
export function zoomAt(camera: Camera, factor: number, x: number, y: number): Camera {
  const zoom = Math.min(ZOOM_MAX, Math.max(ZOOM_MIN, camera.zoom * factor));
  const real = zoom / camera.zoom;
  return { zoom, x: x - (x - camera.x) * real, y: y - (y - camera.y) * real };
}

/** Moves the camera just so far that a node is visible. */
export function reveal(camera: Camera, node: PlacedNode, width: number, height: number): Camera {
  const shift = (start: number, size: number, view: number): number => {
    if (start < MARGIN) return MARGIN - start;
    const over = start + size - (view - MARGIN);
    return over > 0 ? -Math.min(over, start - MARGIN) : 0;
  };
  const x = camera.x + node.x * camera.zoom;
  const y = camera.y + node.y * camera.zoom;
  return {
    ...camera,
    x: camera.x + shift(x, NODE_WIDTH * camera.zoom, width),
    y: camera.y + shift(y, NODE_HEIGHT * camera.zoom, height),
  };
}

/** The nodes that can be seen, with some around them. A large picture draws only these. */
export function visibleNodes(
  tree: PlacedTree,
  camera: Camera,
  width: number,
  height: number,
): readonly PlacedNode[] {
  if (tree.nodes.length <= DRAWN_MAX) return tree.nodes;
  const left = (-camera.x - width / 2) / camera.zoom - NODE_WIDTH;
  const top = (-camera.y - height / 2) / camera.zoom - NODE_HEIGHT;
  const right = (width * 1.5 - camera.x) / camera.zoom;
  const bottom = (height * 1.5 - camera.y) / camera.zoom;
  const seen = tree.nodes.filter(({ x, y }) => x >= left && x <= right && y >= top && y <= bottom);
  return seen.slice(0, DRAWN_MAX);
}

/** The node that an arrow key leads to. Left is the parent, right the first child. */
export function neighbour(tree: PlacedTree, id: string, key: string): PlacedNode | undefined {
  const { nodes } = tree;
  const node = nodes.find((one) => one.id === id);
  if (node === undefined) return nodes[0];
  const column = nodes.filter(({ level }) => level === node.level).sort((a, b) => a.y - b.y);
  const at = column.indexOf(node);
  switch (key) {
    case "ArrowLeft":
      return nodes.find((one) => one.id === node.parentId);
    case "ArrowRight":
      return nodes.find((one) => one.parentId === node.id);
    case "ArrowUp":
      return column[at - 1];
    case "ArrowDown":
      return column[at + 1];
    case "Home":
      return nodes[0];
    case "End":
      return nodes.at(-1);
    default:
      return undefined;
  }
}
