/** Which database came from which, by a branch or by a clone. Pure. */

import type { DatabaseInfo } from "@/data/databases";
import { createdAt, databaseName } from "@/data/databaseText";
import { shortId } from "@/data/format";

/** How a database came from another one. */
export type Origin = "branch" | "clone";

/** A database in a picture. `info` is missing if it was deleted but others came from it. */
export interface LineageNode {
  readonly id: string;
  readonly name: string;
  readonly status: string;
  readonly createdAt: string | undefined;
  readonly parentId: string | undefined;
  readonly origin: Origin | undefined;
  readonly info: DatabaseInfo | undefined;
}

export type Lineage = ReadonlyMap<string, LineageNode>;

/** All databases, and the deleted ones that others came from. */
export function lineageOf(databases: readonly DatabaseInfo[]): Lineage {
  const nodes = new Map(databases.map((info) => [info.id, nodeOf(info)]));
  for (const { parentId } of [...nodes.values()]) {
    if (parentId !== undefined && !nodes.has(parentId)) nodes.set(parentId, goneNode(parentId));
  }
  return nodes;
}

/** The ids that came from each, oldest first. */
export function offspringOf(nodes: Lineage): ReadonlyMap<string, readonly string[]> {
  const offspring = new Map<string, LineageNode[]>();
  for (const node of nodes.values()) {
    if (node.parentId === undefined) continue;
    const known = offspring.get(node.parentId);
    if (known) known.push(node);
    else offspring.set(node.parentId, [node]);
  }
  const sorted = [...offspring].map(([id, list]) => [id, list.sort(byAge).map((one) => one.id)]);
  return new Map(sorted as [string, string[]][]);
}

/** The oldest known ancestor. A circle, which no server makes, ends the way. */
export function rootOf(nodes: Lineage, id: string): string {
  const seen = new Set([id]);
  for (let at = id; ; ) {
    const from = nodes.get(at)?.parentId;
    if (from === undefined || seen.has(from)) return at;
    seen.add(from);
    at = from;
  }
}

/** The roots of all families, the largest family first. */
export function rootsOf(nodes: Lineage): string[] {
  const sizes = new Map<string, number>();
  for (const id of nodes.keys()) {
    const root = rootOf(nodes, id);
    sizes.set(root, (sizes.get(root) ?? 0) + 1);
  }
  return [...sizes].sort(([, one], [, other]) => other - one).map(([root]) => root);
}

/** How many there are in the family of a database, without the deleted ones. */
export function familySize(nodes: Lineage, id: string): number {
  const root = rootOf(nodes, id);
  return [...nodes.values()].filter((one) => one.info && rootOf(nodes, one.id) === root).length;
}

function nodeOf(info: DatabaseInfo): LineageNode {
  const { id, status, branched_from: branched, cloned_from: cloned } = info;
  return {
    id,
    name: databaseName(info),
    status,
    createdAt: createdAt(info),
    parentId: branched || cloned || undefined,
    origin: branched ? "branch" : cloned ? "clone" : undefined,
    info,
  };
}

function goneNode(id: string): LineageNode {
  return {
    id,
    name: shortId(id),
    status: "deleted",
    createdAt: undefined,
    parentId: undefined,
    origin: undefined,
    info: undefined,
  };
}

function byAge(one: LineageNode, other: LineageNode): number {
  return (
    (one.info?.created_at ?? 0) - (other.info?.created_at ?? 0) || one.id.localeCompare(other.id)
  );
}
