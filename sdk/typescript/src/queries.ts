/** SQL over HTTP: how statements are sent, and what they give back. */

import type { BadRequestError } from "./errors.js";
import { QueryError } from "./errors.js";
import type { CallOptions } from "./transport.js";

/** A column of a result. `type` is PostgreSQL's name in capitals, such as `INT4`. */
export interface QueryColumn {
  name: string;
  type: string;
}

/** Options of a statement. */
export interface ExecuteOptions extends CallOptions {
  /** The database of the server; `pandastack` by default. */
  database?: string | undefined;
  /** Time limit: 30 seconds by default, 60 for transactions, and at most 300. */
  timeoutSeconds?: number | undefined;
}

/** Options of a query. */
export interface QueryOptions extends ExecuteOptions {
  /** The most rows to return, at most 10 000. Further ones are left out. */
  maxRows?: number | undefined;
}

/** A statement of a transaction, with its parameters if it has any. */
export type Statement = string | { sql: string; params?: readonly unknown[] | undefined };

/** A row by the names of its columns. */
export type QueryRow = Record<string, unknown>;

/** A result as the server writes it. */
export interface QueryAnswer {
  columns?: QueryColumn[];
  rows?: unknown[][];
  rows_affected?: number;
  duration_ms?: number;
}

/** A statement as the server reads it. */
export interface StatementBody {
  sql: string;
  params?: unknown[];
}

/**
 * What a statement gave back. Iterating over it gives the rows as objects.
 *
 * Types that JSON lacks, such as `NUMERIC`, `UUID` and times, are strings. JavaScript rounds an
 * `INT8` beyond 2^53: select it `::text` if such large numbers can occur.
 */
export class QueryResult<Row = QueryRow> implements Iterable<Row> {
  /** Empty if the statement has no result. */
  readonly columns: QueryColumn[];
  readonly rows: unknown[][];
  /** How many rows were changed, if the server says so. */
  readonly rowsAffected: number | undefined;
  /** How long it took. Not known for the statements of a transaction. */
  readonly durationMs: number | undefined;

  constructor(answer: QueryAnswer) {
    this.columns = answer.columns ?? [];
    this.rows = answer.rows ?? [];
    this.rowsAffected = answer.rows_affected;
    this.durationMs = answer.duration_ms;
  }

  /** The rows by the names of their columns. Of columns with one name, the last counts. */
  objects(): Row[] {
    const names = this.columns.map(({ name }) => name);
    return this.rows.map(
      (row) => Object.fromEntries(names.map((name, at) => [name, row[at]])) as Row,
    );
  }

  /** The first column of the first row; undefined if there is no row. */
  get value(): unknown {
    return this.rows[0]?.[0];
  }

  [Symbol.iterator](): Iterator<Row> {
    return this.objects()[Symbol.iterator]();
  }
}

/** The database that every server has. */
export const MAIN_DATABASE = "pandastack";
/** The server's own limits, for statements without one. */
export const QUERY_SECONDS = 30;
export const TRANSACTION_SECONDS = 60;
// The server may wake a sleeping database for 60 s before a statement begins.
const WAKE_MS = 70_000;

/** The deadline of a request whose statement has a time limit. */
export function requestMs(options: ExecuteOptions, defaultSeconds: number): number {
  return options.timeoutMs ?? (options.timeoutSeconds ?? defaultSeconds) * 1000 + WAKE_MS;
}

/** The options as fields of a request. Undefined ones are not sent. */
export function limitsOf(options: QueryOptions): Record<string, unknown> {
  const { timeoutSeconds: limit } = options;
  return {
    database: options.database ?? MAIN_DATABASE,
    timeout_ms: limit === undefined ? undefined : Math.max(1, Math.round(limit * 1000)),
    max_rows: options.maxRows,
  };
}

/** A statement with its parameters. */
export function statementBody(sql: string, params?: readonly unknown[]): StatementBody {
  return params === undefined ? { sql } : { sql, params: params.map(parameter) };
}

/** What PostgreSQL said about a statement, from a refusal of the broker. */
export function queryError(error: BadRequestError): QueryError {
  const { code, requestId, retryAfter, body } = error;
  const details = { code, requestId, retryAfter, body };
  return new QueryError(error.message, error.statusCode, error.response, details);
}

/** A value as JSON. What JSON would lose is the text that PostgreSQL reads. */
function parameter(value: unknown): unknown {
  if (typeof value === "bigint") return value.toString();
  if (typeof value === "number" && !Number.isFinite(value)) return String(value);
  if (value instanceof ArrayBuffer) return hex(new Uint8Array(value));
  if (value instanceof Uint8Array) return hex(value);
  if (Array.isArray(value)) return value.map(parameter);
  // Other typed arrays are numbers, such as an embedding.
  if (ArrayBuffer.isView(value) && Symbol.iterator in value) {
    return Array.from(value as unknown as Iterable<unknown>, parameter);
  }
  return value;
}

function hex(bytes: Uint8Array): string {
  return `\\x${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
