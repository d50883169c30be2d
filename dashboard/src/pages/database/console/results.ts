/** Values of a result as text. Pure. */

import type { SqlColumn, SqlResult } from "@/data/databases";
import { count, plural } from "@/data/format";

/** Rows of a result that the page shows. */
export const ROWS_MAX = 1000;

/** Numbers are read from their last digit. */
const NUMBERS = new Set(["INT2", "INT4", "INT8", "FLOAT4", "FLOAT8", "NUMERIC", "OID", "MONEY"]);

/** A value as text. NULL is undefined, so that it differs from an empty text. */
export function cellText(value: unknown): string | undefined {
  if (value === null || value === undefined) return undefined;
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

export function isNumeric({ type }: SqlColumn): boolean {
  return NUMBERS.has(type.toUpperCase());
}

/** The result without what is too much to show, and whether there is more. */
export function shownRows(result: SqlResult): { result: SqlResult; isCut: boolean } {
  const rows = result.rows ?? [];
  if (rows.length <= ROWS_MAX) return { result, isCut: false };
  return { result: { ...result, rows: rows.slice(0, ROWS_MAX), count: ROWS_MAX }, isCut: true };
}

/** What a statement did, in one line. */
export function resultText({ columns = [], count: rows = 0, rows_affected }: SqlResult): string {
  if (columns.length > 0) return plural(rows, "row");
  if (rows_affected === undefined) return "Done, without rows";
  if (rows_affected === 0) return "Done, no rows affected";
  return `${count(rows_affected)} ${rows_affected === 1 ? "row" : "rows"} affected`;
}

/** The rows as comma-separated values (RFC 4180). NULL is an empty field. */
export function csvOf({ columns = [], rows = [] }: SqlResult): string {
  const line = (cells: readonly string[]): string => cells.map(quoted).join(",");
  return [
    line(columns.map(({ name }) => name)),
    ...rows.map((row) => line(row.map((value) => cellText(value) ?? ""))),
    "",
  ].join("\r\n");
}

function quoted(cell: string): string {
  return /[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell;
}
