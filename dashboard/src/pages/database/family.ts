/** Who was branched from whom. Pure. */

import type { DatabaseInfo } from "@/data/databases";

/** A database and its branches. `info` is missing if it was deleted. */
export interface FamilyNode {
  readonly id: string;
  readonly info?: DatabaseInfo;
  readonly branches: readonly FamilyNode[];
}

/** The whole family of a database, from its oldest known ancestor. */
export function familyOf(databases: readonly DatabaseInfo[], id: string): FamilyNode {
  const byId = new Map(databases.map((one) => [one.id, one]));
  const branches = new Map<string, DatabaseInfo[]>();
  for (const one of databases) {
    if (!one.branched_from) continue;
    const known = branches.get(one.branched_from);
    if (known) known.push(one);
    else branches.set(one.branched_from, [one]);
  }
  return nodeOf(rootOf(byId, id), byId, branches, new Set());
}

/** How many databases were branched from this one and still exist. */
export function branchCount(databases: readonly DatabaseInfo[], id: string): number {
  return databases.filter(({ branched_from }) => branched_from === id).length;
}

/** How many there are in a family, without the deleted ones. */
export function familySize({ info, branches }: FamilyNode): number {
  return branches.reduce((sum, one) => sum + familySize(one), info === undefined ? 0 : 1);
}

function rootOf(byId: ReadonlyMap<string, DatabaseInfo>, id: string): string {
  const seen = new Set([id]);
  for (let at = id; ; ) {
    const from = byId.get(at)?.branched_from;
    if (!from || seen.has(from)) return at;
    seen.add(from);
    at = from;
  }
}

function nodeOf(
  id: string,
  byId: ReadonlyMap<string, DatabaseInfo>,
  branches: ReadonlyMap<string, readonly DatabaseInfo[]>,
  seen: Set<string>,
): FamilyNode {
  seen.add(id);
  const info = byId.get(id);
  const own = (branches.get(id) ?? [])
    .filter((one) => !seen.has(one.id))
    .toSorted((one, other) => (one.created_at ?? 0) - (other.created_at ?? 0));
  return {
    id,
    ...(info === undefined ? {} : { info }),
    branches: own.map((one) => nodeOf(one.id, byId, branches, seen)),
  };
}
