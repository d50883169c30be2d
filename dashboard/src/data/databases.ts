/** Managed databases: their queries, what can be done with them, and SQL through their broker. */

import { type models, operations } from "@pandastack/sdk";
import { type QueryClient, queryOptions } from "@tanstack/react-query";
import { client } from "./client";
import { exactJson } from "./exactJson";
import { keys } from "./keys";

export { createdAt, databaseName } from "./databaseText";

export type DatabaseInfo = models.ManagedDatabase;

/** Memory of a database. It is chosen once. */
export const DATABASE_SIZES = ["1g", "4g", "16g"] as const;
export type DatabaseSize = (typeof DATABASE_SIZES)[number];

/** The template that a size is baked as. */
export function templateOfSize(size: DatabaseSize): string {
  return size === "1g" ? "postgres-16" : `postgres-16-${size}`;
}

// The server tells about machines, not about credentials, so a new database is asked for.
const CHANGING_MS = 1_500;
const SETTLED_MS = 15_000;
const STATS_MS = 5_000;
const LOGS_MS = 5_000;
const LOG_LINES = 500;
/** How long a wake, a branch or new credentials may take. */
const CHANGE_MAX_MS = 180_000;
/** How long it may take until a database is rebuilt from its archive. */
const REBUILD_MAX_MS = 15 * 60_000;
/** The longest time of a statement, and what waking the machine may add to it. */
const SQL_MAX_MS = 60_000;
const SQL_WAKE_MS = 60_000;

/** Whether its state ends by itself within seconds. */
export function isChanging({ status }: DatabaseInfo): boolean {
  return status === "provisioning" || status === "waking" || status === "deleting";
}

/** All databases, newest first and without credentials. Reading them wakes none. */
export const databasesQuery = queryOptions({
  queryKey: keys.databases,
  queryFn: async ({ signal }): Promise<DatabaseInfo[]> =>
    (await client.transport.json(operations.getDatabases(), { signal })).items,
  refetchInterval: ({ state: { data } }) => (data?.some(isChanging) ? CHANGING_MS : SETTLED_MS),
});

/** One database with its credentials. Reading it does not wake it. */
export function databaseQuery(id: string) {
  return queryOptions({
    queryKey: keys.database(id),
    queryFn: ({ signal }): Promise<DatabaseInfo> =>
      client.transport.json(operations.getDatabasesId(id), { signal }),
    refetchInterval: ({ state: { data } }) => (data && isChanging(data) ? CHANGING_MS : SETTLED_MS),
  });
}

/** Figures of a database. Ask only while it runs: the server refuses to wake it for them. */
export function databaseStatsQuery(id: string) {
  return queryOptions({
    queryKey: keys.databasePart(id, "stats"),
    queryFn: ({ signal }) => client.transport.json(operations.getDatabasesIdStats(id), { signal }),
    refetchInterval: STATS_MS,
    staleTime: STATS_MS,
    retry: false,
  });
}

/** The last lines of its log. Ask only while it runs. */
export function databaseLogsQuery(id: string) {
  return queryOptions({
    queryKey: keys.databasePart(id, "logs"),
    queryFn: async ({ signal }): Promise<string> => {
      const call = operations.getDatabasesIdLogs(id, { lines: LOG_LINES });
      return (await client.transport.json(call, { signal })).logs;
    },
    refetchInterval: LOGS_MS,
    retry: false,
  });
}

/** Puts a record into the cache; a new one goes to the top of the list. */
export function putDatabase(queries: QueryClient, info: DatabaseInfo): void {
  queries.setQueryData<DatabaseInfo>(keys.database(info.id), info);
  queries.setQueryData<DatabaseInfo[]>(keys.databases, (list) => {
    if (list === undefined) return list;
    const at = list.findIndex(({ id }) => id === info.id);
    return at < 0 ? [info, ...list] : list.with(at, info);
  });
}

export function createDatabase(wanted: models.CreateDatabase): Promise<DatabaseInfo> {
  return client.transport.json(operations.postDatabases(wanted));
}

export function changeDatabase(id: string, change: models.ChangeDatabase): Promise<DatabaseInfo> {
  return client.transport.json(operations.patchDatabasesId(id, change));
}

export function deleteDatabase(id: string): Promise<void> {
  return client.transport.empty(operations.deleteDatabasesId(id), { timeoutMs: CHANGE_MAX_MS });
}

export function wakeDatabase(id: string): Promise<models.DatabaseWake> {
  const options = { timeoutMs: CHANGE_MAX_MS };
  return client.transport.json(operations.postDatabasesIdWake(id), options);
}

/** Copies a database as it is now. The copy gets credentials of its own a moment later. */
export function branchDatabase(id: string, label: string): Promise<DatabaseInfo> {
  const call = operations.postDatabasesIdBranches(id, label === "" ? {} : { label });
  return client.transport.json(call, { timeoutMs: CHANGE_MAX_MS });
}

/** Starts a database again, on the newest version of its template. Data and credentials stay. */
export function restartDatabase(id: string): Promise<DatabaseInfo> {
  const options = { timeoutMs: CHANGE_MAX_MS };
  return client.transport.json(operations.postDatabasesIdRestart(id), options);
}

/** Makes a branch what its parent is now. */
export function resetBranch(id: string): Promise<DatabaseInfo> {
  const options = { timeoutMs: CHANGE_MAX_MS };
  return client.transport.json(operations.postDatabasesIdReset(id), options);
}

/** Rebuilds a failed database from its archive. It gets new credentials. */
export function rebuildDatabase(id: string): Promise<DatabaseInfo> {
  const options = { timeoutMs: REBUILD_MAX_MS };
  return client.transport.json(operations.postDatabasesIdFailover(id), options);
}

/** What one schema has and another one lacks. It is asked for once: both servers work for it. */
export function schemaDiffQuery(from: string, to: string) {
  return queryOptions({
    queryKey: keys.schemaDiff(from, to),
    queryFn: ({ signal }) =>
      // The server compares the named database with the other one, as a branch with its parent.
      client.transport.json(operations.getDatabasesIdDiff(to, { to: from }), {
        signal,
        timeoutMs: CHANGE_MAX_MS,
      }),
    refetchOnWindowFocus: false,
    gcTime: 0,
    retry: false,
  });
}

export function resetCredentials(id: string): Promise<DatabaseInfo> {
  const options = { timeoutMs: CHANGE_MAX_MS };
  return client.transport.json(operations.postDatabasesIdResetCredentials(id), options);
}

/** A column of a result, with the name of its type such as `INT4`. */
export interface SqlColumn {
  readonly name: string;
  readonly type: string;
}

/** What a statement gave: rows if it has columns. */
export interface SqlResult {
  readonly columns?: readonly SqlColumn[];
  readonly rows?: readonly (readonly unknown[])[];
  readonly count?: number;
  readonly rows_affected?: number;
}

/** What is sent to the broker: rows wanted, rows changed, or several statements as one. */
export type SqlRun =
  | { readonly kind: "query"; readonly sql: string }
  | { readonly kind: "exec"; readonly sql: string }
  | { readonly kind: "transaction"; readonly statements: readonly string[] };

export interface SqlAnswer {
  readonly results: readonly SqlResult[];
  readonly durationMs: number;
}

/** Runs SQL over HTTP. A sleeping database wakes up for it. */
export async function runSql(
  database: DatabaseInfo,
  run: SqlRun,
  options: { signal?: AbortSignal; rowsMax?: number } = {},
): Promise<SqlAnswer> {
  const { id, broker_token: token, database: name } = database;
  const text = await client.request<string>("POST", `databases/${id}/proxy/v1/${run.kind}`, {
    headers: { authorization: `Bearer ${token ?? ""}` },
    json: {
      database: name,
      timeout_ms: SQL_MAX_MS,
      ...(run.kind === "transaction"
        ? { statements: run.statements.map((sql) => ({ sql })) }
        : { sql: run.sql }),
      ...(run.kind === "query" ? { max_rows: options.rowsMax } : {}),
    },
    parseAs: "text",
    signal: options.signal,
    timeoutMs: SQL_MAX_MS + SQL_WAKE_MS,
  });
  const { duration_ms: durationMs, ...answer } = exactJson(text) as SqlResult & {
    duration_ms: number;
    results?: SqlResult[];
  };
  return { durationMs, results: answer.results ?? [answer] };
}
