/** Which sandboxes the list shows. Pure. */

import type { SandboxInfo } from "@pandastack/sdk";

export interface SandboxFilter {
  /** Words that must all be found: in the id, the template, or a label (`key=value` or `key`). */
  readonly q?: string | undefined;
  /** A group of states; see `STATE_GROUPS`. */
  readonly state?: string | undefined;
  readonly template?: string | undefined;
}

/** States that people look for together. */
export const STATE_GROUPS: Readonly<Record<string, readonly string[]>> = {
  running: ["running", "creating", "waking"],
  paused: ["paused"],
  asleep: ["hibernated", "hibernating"],
  failed: ["failed"],
};

/** The group of a state; undefined if it belongs to none. */
export function groupOf(status: string): string | undefined {
  return Object.keys(STATE_GROUPS).find((group) => STATE_GROUPS[group]?.includes(status));
}

/** How many sandboxes are in each group. */
export function countByGroup(sandboxes: readonly SandboxInfo[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { status } of sandboxes) {
    const group = groupOf(status);
    if (group !== undefined) counts[group] = (counts[group] ?? 0) + 1;
  }
  return counts;
}

/** The sandboxes that fit. */
export function filterSandboxes(
  sandboxes: readonly SandboxInfo[],
  filter: SandboxFilter,
): readonly SandboxInfo[] {
  const words = (filter.q ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const states = filter.state === undefined ? undefined : STATE_GROUPS[filter.state];
  if (words.length === 0 && states === undefined && filter.template === undefined) return sandboxes;
  return sandboxes.filter(
    (one) =>
      (states === undefined || states.includes(one.status)) &&
      (filter.template === undefined || one.template === filter.template) &&
      words.every((word) => hasWord(one, word)),
  );
}

function hasWord({ id, template, metadata }: SandboxInfo, word: string): boolean {
  if (id.toLowerCase().includes(word) || template.toLowerCase().includes(word)) return true;
  for (const [key, value] of Object.entries(metadata ?? {})) {
    if (`${key}=${value}`.toLowerCase().includes(word)) return true;
  }
  return false;
}

/** The name that people gave, if any. */
export function nameOf({ metadata }: SandboxInfo): string | undefined {
  return metadata?.["name"] || undefined;
}

// Labels that the server sets itself say nothing to a reader of the list.
const HIDDEN_LABELS = new Set([
  "name",
  "workspace",
  "fork_tree_id",
  "fork_tree_role",
  "fork_parent_id",
  "fork_index",
  "fork_mode",
  "forked_from",
]);

/** The labels to show in the list. */
export function labelsOf({ metadata }: SandboxInfo): [string, string][] {
  return Object.entries(metadata ?? {}).filter(([key]) => !HIDDEN_LABELS.has(key));
}

/** Lines of `key=value` as an object. An error names the first line that is not one. */
export function parsePairs(text: string): { pairs: Record<string, string>; error?: string } {
  const pairs: Record<string, string> = {};
  for (const line of text.split("\n").map((one) => one.trim())) {
    if (line === "") continue;
    const at = line.indexOf("=");
    if (at < 1) return { pairs, error: `“${line}” is not KEY=VALUE` };
    pairs[line.slice(0, at).trim()] = line.slice(at + 1).trim();
  }
  return { pairs };
}
