/** Managed PostgreSQL databases. Not every server offers them. */

import type { Client } from "./client.js";
import { segment } from "./core/call.js";
import { sleep } from "./deadline.js";
import { PandaStackError } from "./errors.js";
import { itemsOf } from "./items.js";
import type { CallOptions } from "./transport.js";

/** A database. */
export interface DatabaseInfo {
  id: string;
  status: string;
  template: string;
  created_at?: number;
  host?: string;
  port?: number;
  database?: string;
  username?: string;
  password?: string;
  connection_url?: string;
  broker_port?: number;
  broker_token?: string;
  broker_url?: string;
  error?: string;
  /** Whether a failed database can be restored, why, and how long it takes. */
  failover_available?: boolean;
  failover_reason?: string;
  failover_eta_seconds?: number;
  sandbox_id?: string;
  /** `1g`, `4g` or `16g`. */
  size?: string;
  /** The database that this one was cloned from. */
  cloned_from?: string;
  /** Whether it never sleeps. */
  always_on?: boolean;
}

export interface DatabaseCreateOptions {
  cpu?: number;
  memory_mb?: number;
  label?: string;
  /** Memory: `1g` (default), `4g` or `16g`. To change it later, clone the database. */
  size?: string;
  /** Never sleeps. */
  always_on?: boolean;
}

export interface DatabaseCloneOptions {
  label?: string;
  /** The moment to restore, such as `2026-08-06T09:30:00Z`. The latest by default. */
  target_time?: string;
  size?: string;
}

const READY_MS = 180_000;
const CLONE_READY_MS = 600_000;

/** The databases of the workspace. */
export class DatabasesAPI {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  /** Creates a database and waits until it can be used. */
  async create(options: DatabaseCreateOptions = {}, call: CallOptions = {}): Promise<DatabaseInfo> {
    const made = await this.#client.request<DatabaseInfo>("POST", "/databases", {
      ...call,
      json: options,
    });
    return made?.id ? this.waitUntilReady(made.id, READY_MS, call) : made;
  }

  /** Waits until a database runs and tells how to connect. */
  async waitUntilReady(
    id: string,
    timeoutMs = READY_MS,
    options: CallOptions = {},
  ): Promise<DatabaseInfo> {
    const end = Date.now() + timeoutMs;
    for (let wait = 1000; ; wait = Math.min(wait * 1.5, 5000)) {
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

  async list(options: CallOptions = {}): Promise<DatabaseInfo[]> {
    return itemsOf(await this.#client.request("GET", "/databases", options));
  }

  get(id: string, options: CallOptions = {}): Promise<DatabaseInfo> {
    return this.#client.request("GET", path(id), options);
  }

  async delete(id: string, options: CallOptions = {}): Promise<void> {
    await this.#client.request("DELETE", path(id), { ...options, parseAs: "none" });
  }

  /** How to connect to a running database. */
  connection(
    id: string,
    options: CallOptions = {},
  ): Promise<{ connection_url: string; broker_url: string; broker_token?: string }> {
    return this.#client.request("GET", `${path(id)}/connection`, options);
  }

  /** Restores a failed database from its backup. Its id and address stay. */
  failover(id: string, options: CallOptions = {}): Promise<DatabaseInfo> {
    return this.#client.request("POST", `${path(id)}/failover`, { timeoutMs: 300_000, ...options });
  }

  /** Wakes a sleeping database. Use {@link waitUntilReady} afterwards. */
  wake(
    id: string,
    options: CallOptions = {},
  ): Promise<{ id: string; status: string; detail?: string }> {
    return this.#client.request("POST", `${path(id)}/wake`, options);
  }

  /** Changes whether a database sleeps. */
  update(
    id: string,
    patch: { always_on?: boolean },
    options: CallOptions = {},
  ): Promise<DatabaseInfo> {
    return this.#client.request("PATCH", path(id), { ...options, json: patch });
  }

  /** Makes a new database from the backups of another, and waits for it by default. */
  async clone(
    id: string,
    options: DatabaseCloneOptions = {},
    { wait = true, timeoutMs = CLONE_READY_MS }: { wait?: boolean; timeoutMs?: number } = {},
  ): Promise<DatabaseInfo> {
    const json = options;
    const made = await this.#client.request<DatabaseInfo>("POST", `${path(id)}/clone`, { json });
    return made?.id && wait ? this.waitUntilReady(made.id, timeoutMs) : made;
  }

  /** Replaces password and broker token. The old ones stop working at once. */
  async resetCredentials(id: string, options: CallOptions = {}): Promise<DatabaseInfo> {
    const fresh = await this.#client.request<DatabaseInfo>(
      "POST",
      `${path(id)}/reset-credentials`,
      { timeoutMs: 180_000, ...options },
    );
    return fresh?.connection_url ? fresh : this.get(id, options);
  }
}

function path(id: string): string {
  return `/databases/${segment(id)}`;
}
