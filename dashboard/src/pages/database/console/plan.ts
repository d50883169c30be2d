/** The plan of a query as a tree that can be drawn. Pure. */

import { count, millis } from "@/data/format";

export interface PlanNode {
  /** Its path from the root, such as `0.1`. */
  readonly id: string;
  /** Such as `Index Scan on users`. */
  readonly title: string;
  /** Conditions and names of indexes, one line each. */
  readonly details: readonly string[];
  /** Such as `1,200 rows`. */
  readonly rows: string;
  /** Set if the planner expected a very different number of rows. */
  readonly surprise?: string;
  /** Its own time or cost, without that of its children. */
  readonly own: string;
  /** The part of the whole that is its own, from 0 to 1. */
  readonly share: number;
  readonly children: readonly PlanNode[];
}

export interface Plan {
  readonly root: PlanNode;
  /** Such as `Planned in 0.1 ms, ran in 3 ms`. */
  readonly summary: string;
}

/** The planner was wrong by at least this factor. */
const SURPRISE = 10;

type Raw = Readonly<Record<string, unknown>>;

/** Reads the value of `EXPLAIN (FORMAT JSON)`. Undefined if it is something else. */
export function planOf(value: unknown): Plan | undefined {
  const parsed = typeof value === "string" ? tryParse(value) : value;
  const top = record(Array.isArray(parsed) ? parsed[0] : parsed);
  const raw = record(top?.["Plan"]);
  if (top === undefined || raw === undefined) return undefined;
  const isMeasured = number(raw["Actual Total Time"]) !== undefined;
  const measure = isMeasured ? timeOf : costOf;
  const whole = Math.max(measure(raw, 1), Number.EPSILON);
  const root = nodeOf(raw, { id: "0", measure, isMeasured, whole, workers: 1, isCut: false });
  const summary = isMeasured
    ? `Planned in ${millis(number(top["Planning Time"]))}, ran in ${millis(number(top["Execution Time"]))}`
    : `Estimated cost ${count(whole)}; the statement was not run`;
  return { root, summary };
}

interface Where {
  readonly id: string;
  readonly measure: (raw: Raw, workers: number) => number;
  readonly isMeasured: boolean;
  /** Time or cost of the whole plan. */
  readonly whole: number;
  /** Processes that share the work of the node. */
  readonly workers: number;
  /** A limit above stops it early, so that few rows are no surprise. */
  readonly isCut: boolean;
}

function nodeOf(raw: Raw, where: Where): PlanNode {
  const { id, measure, isMeasured, whole, workers, isCut } = where;
  const launched = number(raw["Workers Launched"]) ?? number(raw["Workers Planned"]);
  const below = launched === undefined ? workers : launched + 1;
  const parts = recordsOf(raw["Plans"]);
  const used = parts.reduce((sum, part) => sum + measure(part, below), 0);
  const own = Math.min(whole, Math.max(0, measure(raw, workers) - used));
  const planned = number(raw["Plan Rows"]) ?? 0;
  const loops = number(raw["Actual Loops"]) ?? 1;
  const actual = isMeasured ? (number(raw["Actual Rows"]) ?? 0) * loops : undefined;
  const isStopped = isCut && (actual ?? 0) < planned * loops;
  const surprise =
    actual === undefined || isStopped ? undefined : surpriseOf(planned * loops, actual);
  const isCutBelow = isCut || raw["Node Type"] === "Limit";
  return {
    id,
    title: titleOf(raw),
    details: detailsOf(raw),
    rows: actual === undefined ? `${count(planned)} rows expected` : rowsText(actual, loops),
    ...(surprise === undefined ? {} : { surprise }),
    own: isMeasured ? millis(own) : `cost ${count(own)}`,
    share: own / whole,
    children: parts.map((part, at) =>
      nodeOf(part, { ...where, id: `${id}.${at}`, workers: below, isCut: isCutBelow }),
    ),
  };
}

/** The times of a node are those of one loop, and workers run their loops side by side. */
function timeOf(raw: Raw, workers: number): number {
  const loops = number(raw["Actual Loops"]) ?? 1;
  return ((number(raw["Actual Total Time"]) ?? 0) * loops) / Math.max(1, Math.min(workers, loops));
}

function costOf(raw: Raw): number {
  return number(raw["Total Cost"]) ?? 0;
}

function titleOf(raw: Raw): string {
  const join = text(raw["Join Type"]);
  const type = text(raw["Node Type"]) ?? "Step";
  // `Hash Join` of the type `Left` is a `Hash Left Join`, as PostgreSQL writes it.
  const name = join && join !== "Inner" ? `${type.replace(/ Join$/, "")} ${join} Join` : type;
  const relation =
    text(raw["Relation Name"]) ?? text(raw["CTE Name"]) ?? text(raw["Function Name"]);
  const alias = text(raw["Alias"]);
  if (relation === undefined) return name;
  return `${name} on ${relation}${alias && alias !== relation ? ` ${alias}` : ""}`;
}

const DETAILS = [
  ["Index Name", "Index"],
  ["Index Cond", "Index condition"],
  ["Hash Cond", "Hash condition"],
  ["Merge Cond", "Merge condition"],
  ["Join Filter", "Join filter"],
  ["Filter", "Filter"],
  ["Sort Key", "Sorted by"],
  ["Group Key", "Grouped by"],
  ["Rows Removed by Filter", "Rows removed by the filter"],
] as const;

function detailsOf(raw: Raw): string[] {
  return DETAILS.flatMap(([key, label]) => {
    const value = raw[key];
    if (value === undefined || value === null || value === 0) return [];
    return `${label}: ${Array.isArray(value) ? value.join(", ") : String(value)}`;
  });
}

function rowsText(rows: number, loops: number): string {
  const all = `${count(rows)} ${Math.round(rows) === 1 ? "row" : "rows"}`;
  return loops > 1 ? `${all} in ${count(loops)} loops` : all;
}

function surpriseOf(planned: number, actual: number): string | undefined {
  const [low, high] = [Math.min(planned, actual), Math.max(planned, actual)];
  if (high < SURPRISE || high / Math.max(1, low) < SURPRISE) return undefined;
  return `${count(planned)} rows were expected`;
}

function tryParse(value: string): unknown {
  try {
    return JSON.parse(value);
  } catch {
    return undefined;
  }
}

function record(value: unknown): Raw | undefined {
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as Raw)
    : undefined;
}

function recordsOf(value: unknown): Raw[] {
  if (!Array.isArray(value)) return [];
  return value.map(record).filter((one) => one !== undefined);
}

function number(value: unknown): number | undefined {
  return typeof value === "number" && Number.isFinite(value) ? value : undefined;
}

function text(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}
