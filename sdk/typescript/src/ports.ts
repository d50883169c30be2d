/** Ports of a sandbox, and links to them. */

import type * as models from "./core/models.js";
import * as operations from "./core/operations.js";
import { defined } from "./defined.js";
import type { CallOptions, Transport } from "./transport.js";

/** Options of a signed link. */
export interface PreviewOptions extends CallOptions {
  /** Validity in seconds: an hour by default, at most a week. */
  ttlSeconds?: number | undefined;
  /** Path prefixes that are allowed. All by default. */
  paths?: string[] | undefined;
}

/** The ports of one sandbox. */
export class Ports {
  readonly #transport: Transport;
  readonly #sandboxId: string;

  constructor(transport: Transport, sandboxId: string) {
    this.#transport = transport;
    this.#sandboxId = sandboxId;
  }

  /** The ports that are in use or declared. */
  async list(options: CallOptions = {}): Promise<models.Port[]> {
    const call = operations.getSandboxesIdPorts(this.#sandboxId);
    const answer: unknown = await this.#transport.json(call, options);
    const list = Array.isArray(answer) ? answer : (answer as { ports?: unknown[] }).ports;
    return (list ?? []).map((port) =>
      typeof port === "number" ? ({ port } as models.Port) : (port as models.Port),
    );
  }

  /** Declares a port, so that it is listed before anything listens there. */
  declare(
    port: number,
    options: CallOptions & { label?: string | undefined } = {},
  ): Promise<models.Port> {
    const body = { port, ...defined({ label: options.label }) };
    return this.#transport.json(operations.postSandboxesIdPorts(this.#sandboxId, body), options);
  }

  /** Removes the declaration of a port. */
  async remove(port: number, options: CallOptions = {}): Promise<void> {
    const call = operations.deleteSandboxesIdPortsPort(this.#sandboxId, port);
    await this.#transport.empty(call, options);
  }

  /**
   * Makes a signed link to a port, for some paths and a limited time.
   *
   * ```ts
   * const { url } = await sandbox.ports.share(3000, { paths: ["/docs"], ttlSeconds: 600 });
   * ```
   */
  share(port: number, options: PreviewOptions = {}): Promise<models.Preview> {
    const call = operations.postSandboxesIdPreviewToken(this.#sandboxId, request(port, options));
    return this.#transport.json(call, options);
  }

  /** The same as {@link share}, by its other route. */
  preview(port: number, options: PreviewOptions = {}): Promise<models.Preview> {
    const call = operations.postSandboxesIdPreview(this.#sandboxId, request(port, options));
    return this.#transport.json(call, options);
  }
}

function request(port: number, options: PreviewOptions): models.PreviewRequest {
  return { port, ...defined({ ttl_seconds: options.ttlSeconds, paths: options.paths }) };
}
