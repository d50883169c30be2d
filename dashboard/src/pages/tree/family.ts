/** Families of sandboxes: who came from whom. Pure. */

import type { models, SandboxInfo } from "@pandastack/sdk";

// A node has room for 19 characters.
const TEMPLATE_CHARS = 14;

export interface FamilyNode {
  readonly id: string;
  /** The name that people gave, else the template and the start of the id. */
  readonly name: string;
  readonly status: string;
  readonly template: string;
  readonly parentId: string | undefined;
  readonly treeId: string | undefined;
  readonly createdAt: string | undefined;
  /** What the server says of it; absent for one that is gone. */
  readonly info: SandboxInfo | undefined;
}

/** The parent of a sandbox, from the labels that the server sets. */
export function parentOf({ metadata }: SandboxInfo): string | undefined {
  return metadata?.["fork_parent_id"] || metadata?.["forked_from"] || undefined;
}

function nodeOf(info: SandboxInfo): FamilyNode {
  return {
    id: info.id,
    name: info.metadata?.["name"] || unnamed(info.template, info.id),
    status: info.status,
    template: info.template,
    parentId: parentOf(info),
    treeId: info.metadata?.["fork_tree_id"] || undefined,
    createdAt: info.created_at,
    info,
  };
}

/** A name for one that has none: nodes of the same template differ in their ids. */
function unnamed(template: string | undefined, id: string): string {
  if (!template) return id.slice(0, 8);
  const short =
    template.length > TEMPLATE_CHARS ? `${template.slice(0, TEMPLATE_CHARS - 1)}…` : template;
  return `${short} ${id.slice(0, 4)}`;
}

function goneNode(id: string, node?: models.TreeNode): FamilyNode {
  return {
    id,
    name: node?.name || unnamed(node?.template, id),
    status: "deleted",
    template: node?.template ?? "",
    parentId: node?.parent_id,
    treeId: node?.fork_tree_id,
    createdAt: node?.created_at,
    info: undefined,
  };
}

/**
 * All families: every sandbox, and ancestors that are gone but have children left. `known` are
 * nodes that the server told about, which name the parents of those that are gone.
 */
export function allNodes(
  sandboxes: readonly SandboxInfo[],
  known: readonly models.TreeNode[] = [],
): Map<string, FamilyNode> {
  const told = new Map(known.map((node) => [node.id, node]));
  const nodes = new Map<string, FamilyNode>();
  for (const info of sandboxes) {
    const node = nodeOf(info);
    const parentId = node.parentId ?? told.get(info.id)?.parent_id;
    nodes.set(info.id, { ...node, parentId });
  }
  for (const { parentId } of [...nodes.values()]) {
    for (let id = parentId; id !== undefined && !nodes.has(id); ) {
      const gone = goneNode(id, told.get(id));
      nodes.set(id, gone);
      id = gone.parentId;
    }
  }
  return nodes;
}

/** The oldest known ancestor. A circle, which no server makes, ends the way. */
export function rootOf(nodes: ReadonlyMap<string, FamilyNode>, id: string): string {
  const seen = new Set<string>();
  let root = id;
  for (let at: string | undefined = id; at !== undefined && nodes.has(at) && !seen.has(at); ) {
    seen.add(at);
    root = at;
    at = nodes.get(at)?.parentId;
  }
  return root;
}

/** The children of every node, oldest first. */
export function childrenOf(nodes: ReadonlyMap<string, FamilyNode>): Map<string, FamilyNode[]> {
  const children = new Map<string, FamilyNode[]>();
  for (const node of nodes.values()) {
    if (node.parentId === undefined) continue;
    const list = children.get(node.parentId);
    if (list === undefined) children.set(node.parentId, [node]);
    else list.push(node);
  }
  for (const list of children.values()) {
    list.sort(
      (a, b) =>
        indexOf(a) - indexOf(b) ||
        (a.createdAt ?? "").localeCompare(b.createdAt ?? "") ||
        a.id.localeCompare(b.id),
    );
  }
  return children;
}

function indexOf(node: FamilyNode): number {
  const index = Number(node.info?.metadata?.["fork_index"] ?? Number.NaN);
  return Number.isNaN(index) ? 0 : index;
}

/** The families with at least `size` members: their roots, the largest first. */
export function familyRoots(
  nodes: ReadonlyMap<string, FamilyNode>,
  size: number,
): { root: string; size: number }[] {
  const sizes = new Map<string, number>();
  for (const id of nodes.keys()) {
    const root = rootOf(nodes, id);
    sizes.set(root, (sizes.get(root) ?? 0) + 1);
  }
  return [...sizes]
    .filter(([, members]) => members >= size)
    .map(([root, members]) => ({ root, size: members }))
    .sort((a, b) => b.size - a.size || a.root.localeCompare(b.root));
}

/** Other branches of the same fork tree. */
export function siblingsOf(nodes: ReadonlyMap<string, FamilyNode>, node: FamilyNode): FamilyNode[] {
  if (node.treeId === undefined) return [];
  return [...nodes.values()].filter(
    (one) => one.treeId === node.treeId && one.id !== node.id && one.info !== undefined,
  );
}
