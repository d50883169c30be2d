/** Templates: what sandboxes start from, and their builds. */

import type { Client } from "./client.js";
import type * as models from "./core/models.js";
import * as operations from "./core/operations.js";
import { sleep } from "./deadline.js";
import { NetworkError, TemplateBuildError } from "./errors.js";
import { lineOf } from "./logs.js";
import type { NodeFs } from "./runtime.js";
import { hasNodeModules, nodeModule } from "./runtime.js";
import type { CallOptions } from "./transport.js";

/** A template. */
export interface TemplateInfo {
  name: string;
  rootfs_path: string;
  size_bytes: number;
  cpu?: number;
  memory_mb?: number;
  /** Templates of the server cannot be deleted. */
  is_global?: boolean;
  workspace?: string;
  label?: string;
  description?: string;
  category?: string;
  base?: string;
  /** Why nothing can start from it now: `waiting`, `baking` or `failed`. */
  status?: string;
  tools?: string[];
  meta?: Record<string, unknown>;
  /** Whether databases start from it at once. Only of templates of databases. */
  databases?: models.DatabasePreparation;
}

/** A build of a template. */
export interface TemplateBuild {
  id: string;
  name: string;
  /** `queued`, `running`, `baking`, then `done` or `failed`. */
  status: string;
  error?: string;
  started_at: string;
  ended_at?: string;
  size_mb: number;
  bytes?: number;
  cpu?: number;
  memory_mb?: number;
  image_ref?: string;
}

/** What all builds have in common. */
export interface TemplateBuildBase extends CallOptions {
  name: string;
  /** Size of the disk; 1024 by default. */
  sizeMb?: number | undefined;
  size_mb?: number | undefined;
  cpu?: number | undefined;
  memoryMb?: number | undefined;
  memory_mb?: number | undefined;
  /** Replaces an existing template of this name. */
  replace?: boolean | undefined;
  /** `false`: `ENTRYPOINT` and `CMD` do not run in the sandboxes. */
  start?: boolean | undefined;
}

/** A build from the archive of a root file system. */
export interface TemplateBuildOptions extends TemplateBuildBase {
  /** A tar or tar.gz: its bytes, or the path of a local file. */
  rootfs: string | Blob | Uint8Array | ArrayBuffer;
  kernel?: string | undefined;
  filename?: string | undefined;
}

/** A build from an image in a registry. */
export interface TemplateRegisterOptions extends TemplateBuildBase {
  /** `name:tag` or `name@digest`. */
  imageRef: string;
  kernel?: string | undefined;
  /** Login for the registry. It is not stored. */
  registryAuth?: { registry: string; username: string; password: string } | undefined;
}

/** A build from a Dockerfile. */
export interface TemplateDockerfileBuildOptions extends TemplateBuildBase {
  /** The text of the Dockerfile, or the path of a local one. */
  dockerfile: string;
  /** Files for `COPY` and `ADD`, by their path. At most 50 MB. */
  context?: Record<string, string | Uint8Array> | undefined;
}

/** A build from a snapshot of a running sandbox. */
export interface TemplateSnapshotBuildOptions extends TemplateBuildBase {
  snapshot: string | { id: string };
}

const SIZE_MB_DEFAULT = 1024;
const UPLOAD_MS = 30 * 60_000;
const LOG_RECONNECT_TRIES = 6;

/** The templates of the server and the workspace. */
export class TemplateNamespace {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  /** The templates: those of the server first. */
  list(options: CallOptions = {}): Promise<TemplateInfo[]> {
    return this.#client.transport.json(operations.getTemplates(), options);
  }

  /** A template by its name. */
  get(name: string, options: CallOptions = {}): Promise<TemplateInfo> {
    return this.#client.transport.json(operations.getTemplatesName(name), options);
  }

  /** Deletes a template. Sandboxes that were made from it are not affected. */
  async delete(name: string, options: CallOptions = {}): Promise<void> {
    await this.#client.transport.empty(operations.deleteTemplatesName(name), options);
  }

  /** Starts a build from the archive of a root file system. */
  async build(options: TemplateBuildOptions): Promise<TemplateBuild> {
    const { rootfs, kernel } = options;
    const file = typeof rootfs === "string" ? baseName(rootfs) : "rootfs.tar";
    const form = formOf(options, { kernel });
    form.set("rootfs", await blobOf(rootfs), options.filename ?? file);
    return this.#start(form, options);
  }

  /** Starts a build from an image in a registry. */
  register(options: TemplateRegisterOptions): Promise<TemplateBuild> {
    const { imageRef: image_ref, kernel, registryAuth } = options;
    const registry_auth = registryAuth && JSON.stringify(registryAuth);
    return this.#start(formOf(options, { image_ref, kernel, registry_auth }), options);
  }

  /**
   * Starts a build from a Dockerfile, on the server.
   *
   * ```ts
   * const build = await client.templates.buildFromDockerfile({
   *   name: "my-tools",
   *   dockerfile: "FROM debian:12\nRUN apt-get update && apt-get install -y jq\n",
   * });
   * for await (const line of client.templates.buildLogs(build.id)) console.log(line);
   * ```
   */
  async buildFromDockerfile(options: TemplateDockerfileBuildOptions): Promise<TemplateBuild> {
    const form = formOf(options, { dockerfile: await dockerfileText(options.dockerfile) });
    for (const [path, content] of Object.entries(options.context ?? {})) {
      form.set(path, new Blob([content as BlobPart]), path);
    }
    return this.#start(form, options);
  }

  /** Starts a build from a snapshot: its sandboxes start where the snapshot was made. */
  buildFromSnapshot(options: TemplateSnapshotBuildOptions): Promise<TemplateBuild> {
    const { snapshot } = options;
    const from_snapshot = typeof snapshot === "string" ? snapshot : snapshot.id;
    return this.#start(formOf(options, { from_snapshot }), options);
  }

  /** The builds, newest first. */
  builds(options: CallOptions = {}): Promise<TemplateBuild[]> {
    return this.#client.transport.json(operations.getTemplatesBuilds(), options);
  }

  /** The state of a build. */
  buildStatus(id: string, options: CallOptions = {}): Promise<TemplateBuild> {
    return this.#client.transport.json(operations.getTemplatesBuildsBuild(id), options);
  }

  /**
   * Yields the lines of a build's log, by default until the build ends. After a cut it connects
   * again and leaves out the lines that were already given.
   */
  async *buildLogs(
    buildId: string,
    options: CallOptions & { follow?: boolean | undefined } = {},
  ): AsyncGenerator<string> {
    const { signal, timeoutMs } = options;
    const follow = options.follow ?? true;
    const call = operations.getTemplatesBuildsBuildLogs(buildId, follow ? { follow } : {});
    let given = 0;
    for (let failures = 0; ; ) {
      try {
        let line = 0;
        for await (const event of this.#client.transport.events(call, { signal, timeoutMs })) {
          if (event.event === "done") return;
          const text = lineOf(event);
          if (text === undefined || ++line <= given) continue;
          given = line;
          failures = 0;
          yield text;
        }
        if (!follow) return;
        throw new NetworkError(`build ${buildId}: the log ended early`);
      } catch (error) {
        if (!(error instanceof NetworkError) || signal?.aborted) throw error;
        if (++failures > LOG_RECONNECT_TRIES) throw error;
        await sleep(100 * 2 ** failures, signal);
      }
    }
  }

  /** Waits for the end of a build. A failure is a {@link TemplateBuildError}. */
  async waitForBuild(
    buildId: string,
    options: {
      intervalMs?: number | undefined;
      timeoutMs?: number | undefined;
      signal?: AbortSignal | undefined;
      /** Called with every line of the log. */
      onLog?: ((line: string) => void) | undefined;
    } = {},
  ): Promise<TemplateBuild> {
    const { signal, onLog, intervalMs = 2000, timeoutMs = 20 * 60_000 } = options;
    const end = Date.now() + timeoutMs;
    const stopLog = new AbortController();
    const log = onLog && this.#log(buildId, onLog, stopLog.signal);
    try {
      for (;;) {
        const build = await this.buildStatus(buildId, { signal });
        if (build.status === "done" || build.status === "failed") {
          await log;
          if (build.status === "done") return build;
          throw new TemplateBuildError(build.error || `build ${buildId} failed`, build);
        }
        if (Date.now() >= end) {
          const text = `build ${buildId} did not end within ${timeoutMs / 1000} s`;
          throw new TemplateBuildError(`${text}; its status is ${build.status}`, build);
        }
        await sleep(Math.min(intervalMs, Math.max(1, end - Date.now())), signal);
      }
    } finally {
      stopLog.abort();
    }
  }

  async #log(id: string, onLog: (line: string) => void, signal: AbortSignal): Promise<void> {
    try {
      for await (const line of this.buildLogs(id, { signal })) onLog(line);
    } catch {
      // The log is a convenience. The state of the build tells how it ended.
    }
  }

  #start(form: FormData, options: TemplateBuildBase): Promise<TemplateBuild> {
    const query = options.replace === undefined ? {} : { replace: options.replace };
    const call = operations.postTemplatesBuild(form, query);
    const { signal, timeoutMs = UPLOAD_MS } = options;
    return this.#client.transport.json(call, { signal, timeoutMs });
  }
}

function formOf(options: TemplateBuildBase, fields: Record<string, string | undefined>): FormData {
  const form = new FormData();
  const all = {
    name: options.name,
    ...fields,
    size_mb: options.size_mb ?? options.sizeMb ?? SIZE_MB_DEFAULT,
    cpu: options.cpu,
    memory_mb: options.memory_mb ?? options.memoryMb,
    start: options.start,
  };
  for (const [name, value] of Object.entries(all)) {
    if (value !== undefined) form.set(name, String(value));
  }
  return form;
}

async function blobOf(rootfs: string | Blob | Uint8Array | ArrayBuffer): Promise<Blob> {
  if (rootfs instanceof Blob) return rootfs;
  const type = "application/x-tar";
  if (typeof rootfs !== "string") return new Blob([rootfs as BlobPart], { type });
  const fs = await nodeModule<NodeFs>("node:fs", "a root file system from a local file");
  // A blob of a file is read while it is sent, so a large archive does not fill the memory.
  return fs.openAsBlob === undefined
    ? new Blob([await fs.promises.readFile(rootfs)], { type })
    : fs.openAsBlob(rootfs);
}

async function dockerfileText(dockerfile: string): Promise<string> {
  if (dockerfile.includes("\n") || !hasNodeModules()) return dockerfile;
  const fs = await nodeModule<NodeFs>("node:fs", "a local Dockerfile");
  return fs.existsSync(dockerfile) ? fs.readFileSync(dockerfile, "utf8") : dockerfile;
}

function baseName(path: string): string {
  return path.split(/[\\/]/).pop() || "rootfs.tar";
}
