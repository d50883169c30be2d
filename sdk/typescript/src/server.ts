/** The server itself. */

import type { Client } from "./client.js";
import type * as models from "./core/models.js";
import * as operations from "./core/operations.js";
import { defined } from "./defined.js";
import type { CallOptions } from "./transport.js";

/** Facts about the server. */
export class ServerAPI {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  /** Whether the server works. */
  health(options: CallOptions = {}): Promise<models.Health> {
    return this.#client.transport.json(operations.getHealthz(), options);
  }

  /** The version of the server. */
  version(options: CallOptions = {}): Promise<models.Version> {
    return this.#client.transport.json(operations.getVersion(), options);
  }

  /** Metrics of the server, for Prometheus. */
  metrics(options: CallOptions = {}): Promise<string> {
    return this.#client.transport.text(operations.getMetrics(), options);
  }

  /** How long recent sandboxes took to start. */
  bootStats(options: CallOptions & { limit?: number | undefined } = {}): Promise<models.BootStats> {
    const call = operations.getStatsBoot(defined({ limit: options.limit }));
    return this.#client.transport.json(call, options);
  }

  /** Compares what exists on the host with what should exist. Only for operators. */
  hostAudit(options: CallOptions = {}): Promise<models.Audit> {
    return this.#client.transport.json(operations.getHostAudit(), options);
  }

  /** The languages of code contexts. */
  async languages(options: CallOptions = {}): Promise<string[]> {
    const answer: unknown = await this.#client.transport.json(
      operations.getReplLanguages(),
      options,
    );
    return Array.isArray(answer) ? answer : (answer as { languages: string[] }).languages;
  }

  /** Sends a message of the Model Context Protocol to the workspace's tools. */
  mcp(message: Record<string, unknown>, options: CallOptions = {}): Promise<unknown> {
    return this.#client.transport.json(operations.postMcp(message), options);
  }
}
