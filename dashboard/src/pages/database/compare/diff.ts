/** A unified diff as lines with a meaning. Pure. */

export type DiffKind = "added" | "removed" | "same" | "place";

export interface DiffLine {
  readonly kind: DiffKind;
  readonly text: string;
}

export interface SchemaChanges {
  readonly lines: readonly DiffLine[];
  readonly added: number;
  readonly removed: number;
}

/** The lines of a diff. The names of the files are left out: the reader chose the databases. */
export function changesOf(diff: string): SchemaChanges {
  const lines: DiffLine[] = [];
  let isHead = true;
  for (const text of diff.replace(/\n$/, "").split("\n")) {
    if (text.startsWith("@@")) isHead = false;
    if (!isHead) lines.push({ kind: kindOf(text), text });
  }
  const count = (kind: DiffKind): number => lines.filter((line) => line.kind === kind).length;
  return { lines, added: count("added"), removed: count("removed") };
}

function kindOf(text: string): DiffKind {
  if (text.startsWith("@@")) return "place";
  if (text.startsWith("+")) return "added";
  return text.startsWith("-") ? "removed" : "same";
}
