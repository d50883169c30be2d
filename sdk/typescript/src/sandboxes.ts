/** Creates, finds and deletes sandboxes. */

import type { Client } from "./client.js";
import type * as models from "./core/models.js";
import * as operations from "./core/operations.js";
import { defined } from "./defined.js";
import type { SandboxInfo } from "./sandbox.js";
import { Sandbox } from "./sandbox.js";
import type { CallOptions } from "./transport.js";
import type { VolumeMount } from "./volumes.js";

/** Options of a new sandbox. */
export interface SandboxCreateOptions extends CallOptions {
  /** The template to start from; `ubuntu-24.04` by default. */
  template?: string | undefined;
  /** @deprecated The template defines the size. This is ignored. */
  cpu?: number | undefined;
  /** @deprecated The template defines the size. This is ignored. */
  memoryMb?: number | undefined;
  /** @deprecated The template defines the size. This is ignored. */
  memory_mb?: number | undefined;
  /** The snapshot to start from, instead of a template. */
  fromSnapshot?: string | undefined;
  from_snapshot?: string | undefined;
  /** Idle limit in seconds. */
  ttlSeconds?: number | undefined;
  ttl_seconds?: number | undefined;
  /** The sandbox sleeps at its idle limit, instead of being deleted. */
  persistent?: boolean | undefined;
  metadata?: Record<string, string> | undefined;
  /** Environment variables of every process. */
  env?: Record<string, string> | undefined;
  /** Volumes to attach. See `Volume.mount`. */
  volumes?: VolumeMount[] | undefined;
  /** The only destinations that the sandbox may reach: host names, `*.suffix`, IPv4 networks. */
  egressAllowlist?: string[] | undefined;
  egress_allowlist?: string[] | undefined;
  /** Limit of outgoing traffic in Mbit/s. */
  egressMbps?: number | undefined;
  egress_mbps?: number | undefined;
}

/** Which machines a list or a stream has: plain sandboxes, those of databases, or all. */
export type MachineKind = "sandbox" | "database" | "all";

/** Options of a list of sandboxes. */
export interface SandboxListOptions extends CallOptions {
  limit?: number | undefined;
  /** The last sandbox of the page before. */
  after?: string | undefined;
  kind?: MachineKind | undefined;
}

const TEMPLATE_DEFAULT = "ubuntu-24.04";
let warnedAboutSize = false;

/** The sandboxes of the workspace. */
export class SandboxNamespace {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  /**
   * Creates a sandbox. Returns when it is ready. While the server has no room, the request is
   * repeated for at most `maxCreateRetrySeconds` of the client.
   */
  async create(options: SandboxCreateOptions = {}): Promise<Sandbox> {
    const call = operations.postSandboxes(createRequest(options));
    const { signal, timeoutMs } = options;
    const info = await this.#client.transport.json(call, { signal, timeoutMs, creates: true });
    return Sandbox.fromInfo(info, this.#client);
  }

  /**
   * The sandboxes, newest first; with `limit` a page of them, after the id `after`. The machines of
   * managed databases are left out, unless `kind` asks for them.
   */
  async list(options: SandboxListOptions = {}): Promise<Sandbox[]> {
    const { limit, after, kind } = options;
    const call = operations.getSandboxes(defined({ limit, after, kind }));
    const answer: unknown = await this.#client.transport.json(call, options);
    const items = Array.isArray(answer) ? answer : (answer as { items: unknown[] }).items;
    return (items as SandboxInfo[]).map((info) => Sandbox.fromInfo(info, this.#client));
  }

  /** Yields all sandboxes, reading one page after the other. */
  async *iterate(
    options: CallOptions & { pageSize?: number; kind?: MachineKind | undefined } = {},
  ): AsyncGenerator<Sandbox> {
    const { signal, timeoutMs, kind, pageSize: limit = 100 } = options;
    let after: string | undefined;
    for (;;) {
      const page = await this.list({ signal, timeoutMs, limit, after, kind });
      yield* page;
      after = page.at(-1)?.id;
      if (page.length < limit) return;
    }
  }

  /** A sandbox by its id. */
  async get(id: string, options: CallOptions = {}): Promise<Sandbox> {
    const info = await this.#client.transport.json(operations.getSandboxesId(id), options);
    return Sandbox.fromInfo(info, this.#client);
  }

  /** Deletes a sandbox. */
  async delete(id: string, options: CallOptions = {}): Promise<void> {
    await this.#client.transport.empty(operations.deleteSandboxesId(id), options);
  }
}

function createRequest(options: SandboxCreateOptions): models.CreateSandbox {
  if (options.cpu !== undefined || (options.memoryMb ?? options.memory_mb) !== undefined) {
    warnAboutSize();
  }
  return {
    template: options.template ?? TEMPLATE_DEFAULT,
    ...defined({
      from_snapshot: options.from_snapshot ?? options.fromSnapshot,
      ttl_seconds: options.ttl_seconds ?? options.ttlSeconds,
      persistent: options.persistent,
      metadata: options.metadata,
      env: options.env,
      volumes: options.volumes?.map(attachment),
      egress_allowlist: options.egress_allowlist ?? options.egressAllowlist,
      egress_mbps: options.egress_mbps ?? options.egressMbps,
    }),
  };
}

function attachment(volume: VolumeMount): models.VolumeAttachmentRequest {
  return {
    name: volume.name,
    ...defined({
      read_only: volume.read_only ?? volume.readOnly,
      mount_path: volume.mount_path ?? volume.mountPath,
    }),
  };
}

function warnAboutSize(): void {
  if (warnedAboutSize) return;
  warnedAboutSize = true;
  console.warn(
    "pandastack: cpu and memory are ignored, because the template defines the size. " +
      "Build a template of another size instead.",
  );
}
