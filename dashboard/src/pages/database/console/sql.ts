/** Splits and judges SQL, as far as a console needs to. Pure; the server has the last word. */

import type { SqlRun } from "@/data/databases";

const ROWS = new Set(["select", "with", "values", "table", "show", "explain", "fetch"]);
const READS = new Set(["select", "with", "values", "table"]);
const WRITES = /\b(insert|update|delete|merge|into|nextval|setval)\b/i;
const OPEN = /^(begin|start\s+transaction)\b[^;]*$/i;
const CLOSE = /^(commit|end)\b[^;]*$/i;

/** How a text is run. Undefined if there is no statement in it. */
export function runOf(text: string): SqlRun | undefined {
  const all = splitStatements(text);
  // The broker makes the transaction by itself.
  const isWrapped = all.length > 2 && OPEN.test(all[0] ?? "") && CLOSE.test(all.at(-1) ?? "");
  const statements = isWrapped ? all.slice(1, -1) : all;
  const [sql] = statements;
  if (sql === undefined) return undefined;
  if (isWrapped || statements.length > 1) return { kind: "transaction", statements };
  return { kind: returnsRows(sql) ? "query" : "exec", sql };
}

/** The statements of a text, without the semicolons. */
export function splitStatements(text: string): string[] {
  const bare = bareSql(text);
  // The body of such a function has semicolons of its own.
  if (/\bbegin\s+atomic\b/i.test(bare)) return [text.trim()];
  const found: string[] = [];
  for (let from = 0; from <= bare.length; ) {
    const end = bare.indexOf(";", from);
    const to = end < 0 ? bare.length : end;
    if (bare.slice(from, to).trim() !== "") found.push(text.slice(from, to).trim());
    from = to + 1;
  }
  return found;
}

/** Whether a statement answers with rows. */
export function returnsRows(statement: string): boolean {
  const bare = bareSql(statement);
  return ROWS.has(firstWord(bare)) || /\breturning\b/i.test(bare);
}

/** The statement that shows a plan. */
export interface Explain {
  readonly sql: string;
  /** `measured`: the statement is run. One that may write is only estimated. */
  readonly mode: "measured" | "estimated";
}

/** How the plan of a statement is asked for. */
export function explainOf(statement: string): Explain {
  const bare = bareSql(statement);
  const isRead = READS.has(firstWord(bare)) && !WRITES.test(bare);
  return isRead
    ? { sql: `EXPLAIN (ANALYZE, FORMAT JSON) ${statement}`, mode: "measured" }
    : { sql: `EXPLAIN (FORMAT JSON) ${statement}`, mode: "estimated" };
}

/** The text of the same length with blanks for comments and `?` for everything quoted. */
export function bareSql(text: string): string {
  let bare = "";
  let at = 0;
  while (at < text.length) {
    const isComment = text.startsWith("--", at) || text.startsWith("/*", at);
    const end = isComment ? commentEnd(text, at) : quoteEnd(text, at);
    bare += end === at ? text[at] : (isComment ? " " : "?").repeat(end - at);
    at = Math.max(end, at + 1);
  }
  return bare;
}

function firstWord(bare: string): string {
  return /^[\s(]*([a-z]+)/i.exec(bare)?.[1]?.toLowerCase() ?? "";
}

function commentEnd(text: string, from: number): number {
  if (text.startsWith("--", from)) {
    const end = text.indexOf("\n", from);
    return end < 0 ? text.length : end;
  }
  let depth = 0;
  for (let at = from; at < text.length; at += 1) {
    if (text.startsWith("/*", at)) depth += 1;
    else if (text.startsWith("*/", at)) depth -= 1;
    else continue;
    at += 1;
    if (depth === 0) return at + 1;
  }
  return text.length;
}

/** Where a quoted part ends; `from` if none begins there. */
function quoteEnd(text: string, from: number): number {
  const quote = text[from];
  if (quote === "'" || quote === '"') {
    const hasEscapes = quote === "'" && /(^|\W)e$/i.test(text.slice(Math.max(0, from - 2), from));
    for (let at = from + 1; at < text.length; at += 1) {
      if (hasEscapes && text[at] === "\\") at += 1;
      else if (text[at] === quote && text[at + 1] === quote) at += 1;
      else if (text[at] === quote) return at + 1;
    }
    return text.length;
  }
  if (quote !== "$" || /\w/.test(text[from - 1] ?? "")) return from;
  const tag = /^\$([a-z_]\w*)?\$/i.exec(text.slice(from, from + 80))?.[0];
  if (tag === undefined) return from;
  const end = text.indexOf(tag, from + tag.length);
  return end < 0 ? text.length : end + tag.length;
}
