/** Managed PostgreSQL databases: each one in a machine of its own, with SQL over HTTP. */

import type { Client } from "./client.js";
import { segment } from "./core/call.js";
import type * as models from "./core/models.js";
import * as operations from "./core/operations.js";
import { sleep } from "./deadline.js";
import { defined } from "./defined.js";
import { AuthError, BadRequestError, PandaStackError } from "./errors.js";
import { itemsOf } from "./items.js";
import type { ExecuteOptions, QueryAnswer, QueryOptions, QueryRow, Statement } from "./queries.js";
import {
  limitsOf,
  QUERY_SECONDS,
  QueryResult,
  queryError,
  requestMs,
  statementBody,
  TRANSACTION_SECONDS,
} from "./queries.js";
import type { CallOptions } from "./transport.js";

/** A database, as the server describes it. */
export interface DatabaseInfo {
  id: string;
  /** `provisioning`, `running`, `hibernated`, `waking`, `failed` or `deleting`. */
  status: string;
  template: string;
  label?: string;
  /** Seconds since 1970. */
  created_at?: number;
  host?: string;
  port?: number;
  database?: string;
  username?: string;
  password?: string;
  /** For PostgreSQL clients. It has no query: append `?sslmode=require`. */
  connection_url?: string;
  broker_port?: number;
  broker_token?: string;
  broker_url?: string;
  /** Why it failed, or what it waits for. */
  error?: string;
  /** Whether a restart would bring a newer version of its template. */
  update_available?: boolean;
  /** Whether a failed database can be rebuilt from its archive, why, and how long it takes. */
  failover_available?: boolean;
  failover_reason?: string;
  failover_eta_seconds?: number;
  sandbox_id?: string;
  /** `1g`, `4g` or `16g`. */
  size?: string;
  /** The database that this one was cloned from. */
  cloned_from?: string;
  /** The database that this one was branched from. */
  branched_from?: string;
  /** Whether it never sleeps. */
  always_on?: boolean;
}

export interface DatabaseCreateOptions {
  /** Is accepted; the size decides. */
  cpu?: number;
  /** Is accepted; the size decides. */
  memory_mb?: number;
  label?: string;
  /** Memory: `1g` (default), `4g` or `16g`. */
  size?: string;
  /** Never sleeps. */
  always_on?: boolean;
}

export interface DatabaseCloneOptions {
  label?: string;
  /**
   * The moment to restore, such as `2026-08-06T09:30:00Z`, inside the `window` of the backups. The
   * latest by default.
   */
  target_time?: string | Date;
  /** Memory: `1g`, `4g` or `16g`; that of the source by default. */
  size?: string;
}

export interface VerifyBackupOptions {
  /** The moment to restore, as for a clone. The latest by default. */
  target_time?: string | Date;
}

/** How to wait for a database, or for a restore drill. */
export interface DatabaseWaitOptions extends CallOptions {
  /** Waits until it can be used, which is the default. */
  wait?: boolean | undefined;
  /** The longest wait in milliseconds; 180 000 by default, more where backups are read. */
  waitMs?: number | undefined;
}

const READY_MS = 180_000;
const CLONE_READY_MS = 600_000;
const FAILOVER_MS = 300_000;
const DIFF_MS = 300_000;
const BACKUP_MS = 3_600_000;
const DRILL_MS = 3_600_000;
const FIRST_LOOK_MS = 1000;
const LOOK_MS_MAX = 5000;
// What the broker answers about a statement: an error in it, or its time is over.
const STATEMENT_STATUSES = [400, 408];

/**
 * A database. Its fields are those of the last answer of the server.
 *
 * ```ts
 * const database = await client.databases.create({ label: "shop" });
 * await database.execute("CREATE TABLE item (id int, name text)");
 * const { value } = await database.query("SELECT $1::int + 1", [41]);
 * ```
 */
export class Database implements DatabaseInfo {
  declare readonly id: string;
  declare readonly status: string;
  declare readonly template: string;
  declare readonly label?: string;
  declare readonly created_at?: number;
  declare readonly host?: string;
  declare readonly port?: number;
  declare readonly database?: string;
  declare readonly username?: string;
  declare readonly password?: string;
  declare readonly connection_url?: string;
  declare readonly broker_port?: number;
  declare readonly broker_token?: string;
  declare readonly broker_url?: string;
  declare readonly error?: string;
  declare readonly update_available?: boolean;
  declare readonly failover_available?: boolean;
  declare readonly failover_reason?: string;
  declare readonly failover_eta_seconds?: number;
  declare readonly sandbox_id?: string;
  declare readonly size?: string;
  declare readonly cloned_from?: string;
  declare readonly branched_from?: string;
  declare readonly always_on?: boolean;
  readonly #client: Client;

  constructor(info: DatabaseInfo, client: Client) {
    Object.assign(this, info);
    this.#client = client;
  }

  /** Reads the fields again. This does not wake it. */
  async refresh(options: CallOptions = {}): Promise<this> {
    return this.#take(await this.#client.databases.get(this.id, options));
  }

  /** Waits until it runs and tells how to connect. A sleeping one must be woken first. */
  async waitUntilReady(timeoutMs = READY_MS, options: CallOptions = {}): Promise<this> {
    return this.#take(await this.#client.databases.waitUntilReady(this.id, timeoutMs, options));
  }

  /** Wakes it if it sleeps. Connections and statements do that too. */
  async wake(options: CallOptions = {}): Promise<this> {
    const { status } = await this.#client.databases.wake(this.id, options);
    return Object.assign(this, { status });
  }

  /** Changes whether it sleeps when nobody uses it. */
  async update(patch: { always_on?: boolean }, options: CallOptions = {}): Promise<this> {
    return this.#take(await this.#client.databases.update(this.id, patch, options));
  }

  /** Replaces password and broker token. The old ones stop working at once. */
  async resetCredentials(options: CallOptions = {}): Promise<this> {
    return this.#take(await this.#client.databases.resetCredentials(this.id, options));
  }

  /** Deletes it with its data. */
  delete(options: CallOptions = {}): Promise<void> {
    return this.#client.databases.delete(this.id, options);
  }

  /** Copies it as it is now, data included. The copy has credentials of its own. */
  branch(options: { label?: string } = {}, call: DatabaseWaitOptions = {}): Promise<Database> {
    return this.#client.databases.branch(this.id, options, call);
  }

  /** Makes this branch what its parent is now. Its own changes are lost. */
  async reset(call: DatabaseWaitOptions = {}): Promise<this> {
    return this.#take(await this.#client.databases.reset(this.id, call));
  }

  /** Compares its schema with that of another database: its parent by default. */
  diff(to?: string, options: CallOptions = {}): Promise<models.SchemaDiff> {
    return this.#client.databases.diff(this.id, to, options);
  }

  /** Restarts it on the newest version of its template. Its data and credentials stay. */
  async restart(call: DatabaseWaitOptions = {}): Promise<this> {
    return this.#take(await this.#client.databases.restart(this.id, call));
  }

  /** Rebuilds it from its archive after it failed, and waits for it. It gets new credentials. */
  async failover({
    wait = true,
    waitMs = CLONE_READY_MS,
    ...call
  }: DatabaseWaitOptions = {}): Promise<this> {
    this.#take(await this.#client.databases.failover(this.id, call));
    return wait ? this.waitUntilReady(waitMs, call) : this;
  }

  /** Copies it from its backups, as it was at a time. See {@link DatabasesAPI.clone}. */
  clone(
    options: DatabaseCloneOptions = {},
    call: { wait?: boolean; timeoutMs?: number } = {},
  ): Promise<Database> {
    return this.#client.databases.clone(this.id, options, call);
  }

  /** Its backups, the times that it can be cloned at, and the state of its archive. */
  backups(options: CallOptions = {}): Promise<models.DatabaseBackups> {
    return this.#client.databases.backups(this.id, options);
  }

  /** Takes a base backup now, and waits for its end. */
  backup(options: CallOptions = {}): Promise<models.DatabaseBackup> {
    return this.#client.databases.backup(this.id, options);
  }

  /** Restores a backup elsewhere and checks it. See {@link DatabasesAPI.verifyBackup}. */
  verifyBackup(
    options: VerifyBackupOptions = {},
    call: DatabaseWaitOptions = {},
  ): Promise<models.BackupDrill> {
    return this.#client.databases.verifyBackup(this.id, options, call);
  }

  /** Sizes, connections and the share of the cache, while it runs. */
  stats(options: CallOptions = {}): Promise<models.DatabaseStats> {
    return this.#client.databases.stats(this.id, options);
  }

  /** The last lines of the server's log, while it runs: 300, or from 10 to 2000. */
  logs(options: CallOptions & { lines?: number | undefined } = {}): Promise<string> {
    return this.#client.databases.logs(this.id, options);
  }

  /** Runs a statement and returns its rows. See {@link DatabasesAPI.query}. */
  query<Row = QueryRow>(
    sql: string,
    params?: readonly unknown[],
    options: QueryOptions = {},
  ): Promise<QueryResult<Row>> {
    return this.#client.databases.query(this.id, sql, params, options);
  }

  /** Runs a statement without rows. See {@link DatabasesAPI.execute}. */
  execute(
    sql: string,
    params?: readonly unknown[],
    options: ExecuteOptions = {},
  ): Promise<QueryResult> {
    return this.#client.databases.execute(this.id, sql, params, options);
  }

  /** Runs all statements or none. See {@link DatabasesAPI.transaction}. */
  transaction(
    statements: readonly Statement[],
    options: ExecuteOptions = {},
  ): Promise<QueryResult[]> {
    return this.#client.databases.transaction(this.id, statements, options);
  }

  #take(fresh: Database): this {
    for (const name of Object.keys(this)) delete (this as Record<string, unknown>)[name];
    return Object.assign(this, fresh);
  }
}

/** The databases of the workspace. */
export class DatabasesAPI {
  readonly #client: Client;
  /** The tokens of the databases that were seen, so that a query is one request. */
  readonly #tokens = new Map<string, string>();

  constructor(client: Client) {
    this.#client = client;
  }

  /** Creates a database and waits until it can be used. */
  async create(
    options: DatabaseCreateOptions = {},
    call: DatabaseWaitOptions = {},
  ): Promise<Database> {
    const made = await this.#client.transport.json(operations.postDatabases(options), call);
    return this.#made(made, READY_MS, call);
  }

  /** Waits until a database runs and tells how to connect. A sleeping one must be woken first. */
  async waitUntilReady(
    id: string,
    timeoutMs = READY_MS,
    options: CallOptions = {},
  ): Promise<Database> {
    const end = Date.now() + timeoutMs;
    for (let wait = FIRST_LOOK_MS; ; wait = Math.min(wait * 1.5, LOOK_MS_MAX)) {
      const database = await this.get(id, options);
      if (database.status === "running" && database.connection_url) return database;
      if (database.status === "failed" || database.status === "error") {
        throw new PandaStackError(`database ${id} failed: ${database.error ?? database.status}`);
      }
      if (Date.now() >= end) {
        const text = `database ${id} is not ready after ${Math.round(timeoutMs / 1000)} s`;
        throw new PandaStackError(`${text}; its status is ${database.status}`);
      }
      await sleep(Math.min(wait, Math.max(1, end - Date.now())), options.signal);
    }
  }

  /** The databases, newest first, without credentials. */
  async list(options: CallOptions = {}): Promise<Database[]> {
    const answer = await this.#client.transport.json(operations.getDatabases(), options);
    return itemsOf<DatabaseInfo>(answer).map((info) => this.#database(info));
  }

  /** A database with its credentials. This does not wake it. */
  async get(id: string, options: CallOptions = {}): Promise<Database> {
    return this.#database(
      await this.#client.transport.json(operations.getDatabasesId(id), options),
    );
  }

  /** Deletes a database with its data. */
  async delete(id: string, options: CallOptions = {}): Promise<void> {
    await this.#client.transport.empty(operations.deleteDatabasesId(id), options);
    this.#tokens.delete(id);
  }

  /** How to connect to a database. */
  async connection(id: string, options: CallOptions = {}): Promise<models.DatabaseConnection> {
    const call = operations.getDatabasesIdConnection(id);
    const found = await this.#client.transport.json(call, options);
    this.#noteToken(id, found?.broker_token);
    return found;
  }

  /**
   * Rebuilds a failed database from its archive. It keeps its id and its host name and gets new
   * credentials. {@link restart} is better if its disk is still there: it loses nothing. Use
   * {@link waitUntilReady} afterwards.
   */
  async failover(id: string, options: CallOptions = {}): Promise<Database> {
    const call = operations.postDatabasesIdFailover(id);
    const send = { timeoutMs: FAILOVER_MS, ...options };
    return this.#database(await this.#client.transport.json(call, send));
  }

  /**
   * Restarts a database on the newest version of its template, and waits for it by default. Its
   * data and credentials stay; connections end. This also starts one that failed.
   */
  async restart(id: string, call: DatabaseWaitOptions = {}): Promise<Database> {
    const operation = operations.postDatabasesIdRestart(id);
    return this.#made(await this.#client.transport.json(operation, call), READY_MS, call);
  }

  /**
   * Makes a branch what its parent is now, and waits for it by default. It keeps its id and its
   * credentials, and loses its own changes and backups.
   */
  async reset(id: string, call: DatabaseWaitOptions = {}): Promise<Database> {
    const operation = operations.postDatabasesIdReset(id);
    return this.#made(await this.#client.transport.json(operation, call), READY_MS, call);
  }

  /** Compares the schemas of two databases; without `to`, of a branch and its parent. */
  diff(id: string, to?: string, options: CallOptions = {}): Promise<models.SchemaDiff> {
    const call = operations.getDatabasesIdDiff(id, defined({ to }));
    return this.#client.transport.json(call, { timeoutMs: DIFF_MS, ...options });
  }

  /**
   * The backups of a database, newest first. `window` has the times that it can be cloned at,
   * `archive` the state of its archive, and `drill` the last restore drill.
   */
  backups(id: string, options: CallOptions = {}): Promise<models.DatabaseBackups> {
    return this.#client.transport.json(operations.getDatabasesIdBackups(id), options);
  }

  /** Takes a base backup now, and waits for its end. */
  backup(id: string, options: CallOptions = {}): Promise<models.DatabaseBackup> {
    const call = operations.postDatabasesIdBackups(id);
    return this.#client.transport.json(call, { timeoutMs: BACKUP_MS, ...options });
  }

  /**
   * Restores a backup into a scratch machine, checks the data, and waits for the result by default:
   * its `status` is `passed` or `failed`, then with an `error`. The database is not touched.
   */
  async verifyBackup(
    id: string,
    options: VerifyBackupOptions = {},
    { wait = true, waitMs = DRILL_MS, ...call }: DatabaseWaitOptions = {},
  ): Promise<models.BackupDrill> {
    const operation = operations.postDatabasesIdVerifyBackup(id, timed(options));
    const begun = await this.#client.transport.json(operation, call);
    const end = Date.now() + waitMs;
    let drill = begun;
    // The list may still show an older drill.
    const isOpen = () => drill.status === "running" || drill.started_at < begun.started_at;
    for (let pause = FIRST_LOOK_MS; wait && isOpen(); pause = Math.min(pause * 1.5, LOOK_MS_MAX)) {
      if (Date.now() >= end) {
        const seconds = Math.round(waitMs / 1000);
        throw new PandaStackError(`the drill of database ${id} has not ended after ${seconds} s`);
      }
      await sleep(Math.min(pause, Math.max(1, end - Date.now())), call.signal);
      drill = (await this.backups(id, call)).drill ?? begun;
    }
    return drill;
  }

  /** Wakes a sleeping database. Use {@link waitUntilReady} afterwards. */
  wake(
    id: string,
    options: CallOptions = {},
  ): Promise<{ id: string; status: string; detail?: string }> {
    return this.#client.transport.json(operations.postDatabasesIdWake(id), options);
  }

  /** Changes whether a database sleeps when nobody uses it. */
  async update(
    id: string,
    patch: { always_on?: boolean },
    options: CallOptions = {},
  ): Promise<Database> {
    const call = operations.patchDatabasesId(id, patch);
    return this.#database(await this.#client.transport.json(call, options));
  }

  /**
   * Copies a database as it is now, data included, and waits for the copy by default. The copy has
   * credentials of its own, and neither sees later changes of the other.
   */
  async branch(
    id: string,
    options: { label?: string } = {},
    call: DatabaseWaitOptions = {},
  ): Promise<Database> {
    const operation = operations.postDatabasesIdBranches(id, options);
    return this.#made(await this.#client.transport.json(operation, call), READY_MS, call);
  }

  /**
   * Makes a new database from the backups of another, as it was at a time, and waits for it by
   * default. The source is not touched; it may sleep or have failed. {@link branch} copies a
   * database as it is now.
   */
  async clone(
    id: string,
    options: DatabaseCloneOptions = {},
    { wait = true, timeoutMs = CLONE_READY_MS }: { wait?: boolean; timeoutMs?: number } = {},
  ): Promise<Database> {
    const call = operations.postDatabasesIdClone(id, timed(options));
    return this.#made(await this.#client.transport.json(call), timeoutMs, { wait });
  }

  /** Replaces password and broker token. The old ones stop working at once. */
  async resetCredentials(id: string, options: CallOptions = {}): Promise<Database> {
    const call = operations.postDatabasesIdResetCredentials(id);
    const fresh = await this.#client.transport.json(call, { timeoutMs: 180_000, ...options });
    return fresh?.connection_url ? this.#database(fresh) : this.get(id, options);
  }

  /** Sizes, connections and the share of the cache of a running database. */
  stats(id: string, options: CallOptions = {}): Promise<models.DatabaseStats> {
    return this.#client.transport.json(operations.getDatabasesIdStats(id), options);
  }

  /** The last lines of a running database's log: 300, or from 10 to 2000. */
  async logs(
    id: string,
    options: CallOptions & { lines?: number | undefined } = {},
  ): Promise<string> {
    const call = operations.getDatabasesIdLogs(id, defined({ lines: options.lines }));
    return (await this.#client.transport.json(call, options)).logs;
  }

  /**
   * Runs a statement over HTTP and returns its rows. A sleeping database wakes. Parameters are `$1`
   * and so on in the text; arrays are arrays there, and objects are JSON.
   *
   * @throws {QueryError} PostgreSQL refused the statement, or its time was over.
   */
  async query<Row = QueryRow>(
    id: string,
    sql: string,
    params?: readonly unknown[],
    options: QueryOptions = {},
  ): Promise<QueryResult<Row>> {
    const json = { ...statementBody(sql, params), ...limitsOf(options) };
    const send = { signal: options.signal, timeoutMs: requestMs(options, QUERY_SECONDS) };
    return new QueryResult<Row>(await this.#ask<QueryAnswer>(id, "query", json, send));
  }

  /**
   * Runs a statement without rows: `rowsAffected` says how many it changed. Without parameters, the
   * text may be several statements. The rest is as for {@link query}.
   */
  async execute(
    id: string,
    sql: string,
    params?: readonly unknown[],
    options: ExecuteOptions = {},
  ): Promise<QueryResult> {
    const json = { ...statementBody(sql, params), ...limitsOf(options) };
    const send = { signal: options.signal, timeoutMs: requestMs(options, QUERY_SECONDS) };
    return new QueryResult(await this.#ask<QueryAnswer>(id, "exec", json, send));
  }

  /**
   * Runs up to 100 statements, all or none, and returns the result of each. `statement` of a
   * {@link QueryError} is the index of the one that failed.
   */
  async transaction(
    id: string,
    statements: readonly Statement[],
    options: ExecuteOptions = {},
  ): Promise<QueryResult[]> {
    const bodies = statements.map((one) =>
      typeof one === "string" ? statementBody(one) : statementBody(one.sql, one.params),
    );
    const json = { statements: bodies, ...limitsOf(options) };
    const send = { signal: options.signal, timeoutMs: requestMs(options, TRANSACTION_SECONDS) };
    const answer = await this.#ask<{ results?: QueryAnswer[] }>(id, "transaction", json, send);
    return (answer.results ?? []).map((one) => new QueryResult(one));
  }

  /** Sends a statement with the database's own token, which is looked up if need be. */
  async #ask<T>(id: string, verb: string, json: unknown, options: CallOptions): Promise<T> {
    const { signal } = options;
    const token = this.#tokens.get(id) ?? (await this.connection(id, { signal })).broker_token;
    const send = (bearer: string): Promise<T> => {
      const headers = { authorization: `Bearer ${bearer}` };
      const target = `${path(id)}/proxy/v1/${verb}`;
      return this.#client.request<T>("POST", target, { ...options, json, headers });
    };
    try {
      return await send(token).catch(async (error: unknown) => {
        // Somebody may have replaced the token. A refused request has run nothing.
        if (!(error instanceof AuthError && error.statusCode === 401)) throw error;
        const fresh = (await this.connection(id, { signal })).broker_token;
        if (fresh === token) throw error;
        return send(fresh);
      });
    } catch (error) {
      const isAboutStatement =
        error instanceof BadRequestError && STATEMENT_STATUSES.includes(error.statusCode ?? 0);
      throw isAboutStatement ? queryError(error) : error;
    }
  }

  async #made(
    info: DatabaseInfo,
    readyMs: number,
    { wait = true, waitMs = readyMs, ...call }: DatabaseWaitOptions,
  ): Promise<Database> {
    return info?.id && wait ? this.waitUntilReady(info.id, waitMs, call) : this.#database(info);
  }

  #database(info: DatabaseInfo): Database {
    this.#noteToken(info?.id, info?.broker_token);
    return new Database(info, this.#client);
  }

  #noteToken(id: string, token: string | undefined): void {
    if (token) this.#tokens.set(id, token);
  }
}

function path(id: string): string {
  return `/databases/${segment(id)}`;
}

/** The same options with the moment as text. */
function timed<T extends { target_time?: string | Date }>(
  options: T,
): Omit<T, "target_time"> & { target_time?: string } {
  const { target_time: moment, ...rest } = options;
  if (moment === undefined) return rest;
  return { ...rest, target_time: typeof moment === "string" ? moment : moment.toISOString() };
}
