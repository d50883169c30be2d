/** Snapshots: memory and disk of a sandbox at one moment. */

import type { Client } from "./client.js";
import * as operations from "./core/operations.js";
import { defined } from "./defined.js";
import type { CallOptions } from "./transport.js";

/** A snapshot. */
export interface SnapshotInfo {
  id: string;
  sandbox_id?: string;
  created_at?: string;
  mem_path?: string;
  state_path?: string;
  workspace?: string;
  template?: string;
  size_bytes?: number;
}

/** The snapshots of the workspace. Make one with `sandbox.snapshot()`. */
export class SnapshotsAPI {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  /** The snapshots, newest first; only those of one sandbox if it is named. */
  async list(
    options: CallOptions & { sandbox_id?: string | undefined; sandboxId?: string | undefined } = {},
  ): Promise<SnapshotInfo[]> {
    const query = defined({ sandbox_id: options.sandbox_id ?? options.sandboxId });
    const answer = await this.#client.transport.json(operations.getSnapshots(query), options);
    return Array.isArray(answer) ? (answer as SnapshotInfo[]) : (answer.snapshots ?? []);
  }

  /** A snapshot by its id. */
  get(id: string, options: CallOptions = {}): Promise<SnapshotInfo> {
    return this.#client.transport.json(operations.getSnapshotsSnapshot(id), options);
  }

  /** Deletes a snapshot for good. */
  async delete(id: string, options: CallOptions = {}): Promise<void> {
    await this.#client.transport.empty(operations.deleteSnapshotsSnapshot(id), options);
  }
}
