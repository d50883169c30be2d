/** Volumes: disks that outlive the sandboxes that use them. */

import type { Client } from "./client.js";
import { clientOf } from "./client-of.js";
import type { ClientConfig } from "./config.js";
import type * as models from "./core/models.js";
import * as operations from "./core/operations.js";
import { defined } from "./defined.js";
import { BadRequestError, ConflictError, NotFoundError } from "./errors.js";
import type { CallOptions } from "./transport.js";

/** A volume, as the server describes it. */
export interface VolumeInfo {
  name: string;
  size_mb: number;
  created_at?: string;
  size_bytes?: number;
  /** The sandboxes that use the volume, also sleeping ones. */
  attached_to?: string[];
  /** The sandbox that it was copied for, by a fork or from a snapshot. It is deleted with it. */
  sandbox_id?: string | undefined;
}

/** A volume of a new sandbox. */
export interface VolumeMount {
  name: string;
  read_only?: boolean | undefined;
  readOnly?: boolean | undefined;
  /** Where it is mounted; `/mnt/` and its name by default. */
  mount_path?: string | undefined;
  mountPath?: string | undefined;
}

/** Name and size of a volume. */
export interface VolumeCreateOptions extends CallOptions {
  name: string;
  size_mb?: number | undefined;
  sizeMb?: number | undefined;
  sizeGb?: number | undefined;
}

/**
 * A volume. Attach it to new sandboxes.
 *
 * ```ts
 * const volume = await Volume.getOrCreate({ name: "workspace", sizeGb: 20 });
 * await using sandbox = await Sandbox.create({ volumes: [volume.mount("/workspace")] });
 * ```
 */
export class Volume implements VolumeInfo {
  readonly name: string;
  size_mb: number;
  size_bytes: number;
  readonly created_at: string;
  attached_to: string[];
  readonly sandbox_id: string | undefined;
  readonly #client: Client;

  constructor(info: models.Volume, client: Client) {
    this.name = info.name;
    this.size_mb = info.size_mb;
    this.size_bytes = info.size_bytes ?? info.size_mb * 1024 * 1024;
    this.created_at = info.created_at ?? "";
    this.attached_to = info.attached_to ?? [];
    this.sandbox_id = info.sandbox_id ?? undefined;
    this.#client = client;
  }

  /** The volume with this name; made if there is none. */
  static getOrCreate(
    options: VolumeCreateOptions,
    config?: ClientConfig | Client,
  ): Promise<Volume> {
    return clientOf(config).volumes.getOrCreate(options);
  }

  /** A volume by its name. */
  static get(name: string, config?: ClientConfig | Client): Promise<Volume> {
    return clientOf(config).volumes.get(name);
  }

  /** This volume at a path of a new sandbox, for `volumes` of its options. */
  mount(path?: string, options: { readOnly?: boolean | undefined } = {}): VolumeMount {
    return { name: this.name, mountPath: path, readOnly: options.readOnly };
  }

  /** Reads the volume again. */
  async refresh(options: CallOptions = {}): Promise<this> {
    return this.#take(await this.#client.volumes.get(this.name, options));
  }

  /** Makes the volume larger, also while it is in use. */
  async grow(
    size: { sizeMb?: number | undefined; sizeGb?: number | undefined },
    options: CallOptions = {},
  ): Promise<this> {
    return this.#take(await this.#client.volumes.grow(this.name, size, options));
  }

  /** Deletes the volume. Refused while a sandbox uses it. */
  delete(options: CallOptions = {}): Promise<void> {
    return this.#client.volumes.delete(this.name, options);
  }

  #take(fresh: Volume): this {
    this.size_mb = fresh.size_mb;
    this.size_bytes = fresh.size_bytes;
    this.attached_to = fresh.attached_to;
    return this;
  }
}

/** The volumes of the workspace. */
export class VolumesAPI {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  /** Creates a volume. */
  async create(options: VolumeCreateOptions): Promise<Volume> {
    const body = { name: options.name, ...defined({ size_mb: sizeMb(options) }) };
    return this.#volume(await this.#client.transport.json(operations.postVolumes(body), options));
  }

  /** The volume with this name; made if there is none. */
  async getOrCreate(options: VolumeCreateOptions): Promise<Volume> {
    const { name, signal, timeoutMs } = options;
    const found = await this.#find(name, { signal, timeoutMs });
    if (found !== undefined) return found;
    try {
      return await this.create(options);
    } catch (error) {
      // Somebody else was quicker.
      if (!(error instanceof ConflictError)) throw error;
      return this.get(name, { signal, timeoutMs });
    }
  }

  /** The volumes by name. */
  async list(options: CallOptions = {}): Promise<Volume[]> {
    const answer: unknown = await this.#client.transport.json(operations.getVolumes(), options);
    const items = Array.isArray(answer) ? answer : (answer as { items?: unknown[] }).items;
    return ((items ?? []) as models.Volume[]).map((info) => this.#volume(info));
  }

  /** A volume by its name. */
  async get(name: string, options: CallOptions = {}): Promise<Volume> {
    return this.#volume(
      await this.#client.transport.json(operations.getVolumesName(name), options),
    );
  }

  /** Makes a volume larger, also while it is in use. */
  async grow(
    name: string,
    size: { sizeMb?: number | undefined; sizeGb?: number | undefined },
    options: CallOptions = {},
  ): Promise<Volume> {
    const size_mb = sizeMb(size);
    if (size_mb === undefined) throw new BadRequestError("name the new size: sizeMb or sizeGb");
    const call = operations.patchVolumesName(name, { size_mb });
    return this.#volume(await this.#client.transport.json(call, options));
  }

  /** Deletes a volume. Refused while a sandbox uses it. */
  async delete(name: string, options: CallOptions = {}): Promise<void> {
    await this.#client.transport.empty(operations.deleteVolumesName(name), options);
  }

  async #find(name: string, options: CallOptions): Promise<Volume | undefined> {
    const call = operations.getVolumesName(name);
    try {
      return this.#volume(await this.#client.transport.json(call, { ...options, noRetry: true }));
    } catch (error) {
      if (error instanceof NotFoundError) return undefined;
      throw error;
    }
  }

  #volume(info: models.Volume): Volume {
    return new Volume(info, this.#client);
  }
}

function sizeMb(options: Partial<VolumeCreateOptions>): number | undefined {
  const { sizeGb } = options;
  const gb = sizeGb === undefined ? undefined : Math.round(sizeGb * 1024);
  return options.size_mb ?? options.sizeMb ?? gb;
}
