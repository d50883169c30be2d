/** Files and directories of a sandbox. */

import type { ByteStream, OnProgress } from "./body.js";
import { canRepeat, collected } from "./body.js";
import type { RequestBytes } from "./core/call.js";
import type * as models from "./core/models.js";
import * as operations from "./core/operations.js";
import { defined } from "./defined.js";
import { NetworkError, NotFoundError, ServerError } from "./errors.js";
import type { NodeFile, NodeFs, NodePath } from "./runtime.js";
import { nodeModule } from "./runtime.js";
import type { ServerEvent } from "./sse.js";
import { eventObject } from "./sse.js";
import type { CallOptions, SendOptions, Transport } from "./transport.js";

/** A file or a directory. */
export interface FileInfo {
  name: string;
  path: string;
  is_dir: boolean;
  size: number;
  /** One letter: `f` file, `d` directory, `l` link, `o` anything else. */
  mode: string;
  /** Unix seconds. */
  mtime: number;
  /** Permission bits in octal, such as `0644`. */
  permissions?: string;
  /** The target of a link. */
  target?: string;
}

/** Options of a transfer. */
export interface TransferOptions extends CallOptions {
  /** Called while the data is transferred. */
  onProgress?: OnProgress | undefined;
}

/** Options of a write. */
export interface WriteOptions extends TransferOptions {
  /** Permission bits in octal, such as `0755`. */
  mode?: string | undefined;
}

/** A change below a watched path. */
export interface FileChange {
  /**
   * `created`, `modified`, `written` (closed after writing), `deleted`, `moved_from`, `moved_to`,
   * `attributes`, or `overflow` if some changes were not reported.
   */
  type: string;
  path: string;
  isDir: boolean;
  /** The same number in both halves of a move. */
  cookie?: number;
}

/** What the files need of their client. */
export interface FilesClient {
  readonly transport: Transport;
}

/** What the files need of their sandbox. */
export interface FilesSandbox {
  _retryOnWarmup<T>(work: () => Promise<T>): Promise<T>;
}

/** The files of one sandbox. Paths are absolute. */
export class FilesystemNamespace {
  readonly #transport: Transport;
  readonly #sandboxId: string;
  readonly #sandbox: FilesSandbox | undefined;

  constructor(client: FilesClient, sandboxId: string, sandbox?: FilesSandbox) {
    this.#transport = client.transport;
    this.#sandboxId = sandboxId;
    this.#sandbox = sandbox;
  }

  /** The text of a file. Use {@link readBytes} for data that is not text. */
  async read(path: string, options: TransferOptions = {}): Promise<string> {
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(
      await this.readBytes(path, options),
    );
  }

  /** The content of a file. */
  async readBytes(path: string, options: TransferOptions = {}): Promise<Uint8Array> {
    return collected(await this.#readFile(path, options), options.onProgress);
  }

  /** The content of a file as a web stream. */
  async readStream(
    path: string,
    options: TransferOptions = {},
  ): Promise<ReadableStream<Uint8Array>> {
    return webStream(await this.#readFile(path, options), options.onProgress);
  }

  /**
   * Writes a file. Missing parent directories are made, and the file appears as a whole.
   *
   * ```ts
   * await sandbox.filesystem.write("/app/run.sh", script, { mode: "0755" });
   * ```
   */
  write(
    path: string,
    content: RequestBytes,
    options: WriteOptions = {},
  ): Promise<{ path: string; bytes: number }> {
    const query = { path, ...defined({ mode: options.mode }) };
    const call = operations.putSandboxesIdFs(this.#sandboxId, content, query);
    const send = (): Promise<models.Written> => this.#transport.json(call, sendOptions(options));
    return canRepeat(call) ? this.#retry(send) : send();
  }

  /** Copies a local file into the sandbox. Needs Node, Bun or Deno. */
  async upload(
    localPath: string,
    remotePath: string,
    options: WriteOptions = {},
  ): Promise<{ path: string; bytes: number }> {
    const fs = await nodeModule<NodeFs>("node:fs", "upload of a local file");
    const total = fs.statSync(localPath).size;
    const { onProgress } = options;
    return this.write(remotePath, fs.createReadStream(localPath), {
      ...options,
      onProgress: onProgress && (({ bytes }) => onProgress({ bytes, total })),
    });
  }

  /** Copies a file of the sandbox to a local path. Needs Node, Bun or Deno. */
  async download(
    remotePath: string,
    localPath: string,
    options: TransferOptions = {},
  ): Promise<void> {
    await saved(await this.#readFile(remotePath, options), localPath, options.onProgress);
  }

  /** The entries of a directory; with `recursive` of all levels below it. */
  async list(
    path = "/",
    options: CallOptions & { recursive?: boolean | undefined; depth?: number | undefined } = {},
  ): Promise<FileInfo[]> {
    const { recursive, depth } = options;
    const query = { path, ...defined({ recursive, depth }) };
    const call = operations.getSandboxesIdFsDir(this.#sandboxId, query);
    const listing = await this.#retry(() => this.#transport.json(call, options));
    return (listing.entries ?? []).map((entry) => infoOf(entry, joinPath(path, entry.name)));
  }

  /** A file or directory. Throws {@link NotFoundError} if it does not exist. */
  async stat(path: string, options: CallOptions = {}): Promise<FileInfo> {
    return this.#stat(path, options);
  }

  /** Whether a path exists. */
  async exists(path: string, options: CallOptions = {}): Promise<boolean> {
    try {
      await this.#stat(path, options);
      return true;
    } catch (error) {
      if (error instanceof NotFoundError) return false;
      throw error;
    }
  }

  /** Yields a directory and all directories below it, each before its own. */
  async *walk(
    path = "/",
    options: CallOptions = {},
  ): AsyncGenerator<{ dir: string; dirs: FileInfo[]; files: FileInfo[] }> {
    const entries = await this.list(path, options);
    const dirs = entries.filter((entry) => entry.is_dir);
    yield { dir: path, dirs, files: entries.filter((entry) => !entry.is_dir) };
    for (const dir of dirs) yield* this.walk(dir.path, options);
  }

  /** Deletes a path and everything below it. A missing path is no error. */
  async remove(path: string, options: CallOptions = {}): Promise<void> {
    await this.#transport.empty(operations.deleteSandboxesIdFs(this.#sandboxId, { path }), options);
  }

  /** Makes a directory, by default with its parents. */
  async mkdir(
    path: string,
    options: CallOptions & { parents?: boolean | undefined } = {},
  ): Promise<void> {
    const body = { path, parents: options.parents ?? true };
    const call = operations.postSandboxesIdFsMkdir(this.#sandboxId, body);
    await this.#retry(() => this.#transport.json(call, options));
  }

  /** Moves or renames a path. An existing target is only replaced with `overwrite`. */
  async move(
    from: string,
    to: string,
    options: CallOptions & { overwrite?: boolean | undefined } = {},
  ): Promise<void> {
    const body = { from, to, ...defined({ overwrite: options.overwrite }) };
    const call = operations.postSandboxesIdFsMove(this.#sandboxId, body);
    await this.#transport.json(call, options);
  }

  /** Sets permission bits, as octal text such as `0755` or as a number such as `0o755`. */
  async chmod(
    path: string,
    mode: string | number,
    options: CallOptions & { recursive?: boolean | undefined } = {},
  ): Promise<void> {
    const octal = typeof mode === "number" ? mode.toString(8).padStart(4, "0") : mode;
    const body = { path, mode: octal, ...defined({ recursive: options.recursive }) };
    const call = operations.postSandboxesIdFsChmod(this.#sandboxId, body);
    await this.#transport.json(call, options);
  }

  /**
   * Watches a path. Every change after the promise resolved is reported.
   *
   * ```ts
   * await using watch = await sandbox.filesystem.watch("/app", { recursive: true });
   * for await (const change of watch) console.log(change.type, change.path);
   * ```
   */
  async watch(
    path: string,
    options: CallOptions & { recursive?: boolean | undefined } = {},
  ): Promise<FileWatch> {
    const query = { path, ...defined({ recursive: options.recursive }) };
    const call = operations.getSandboxesIdFsWatch(this.#sandboxId, query);
    const stop = new AbortController();
    const abort = (): void => stop.abort(options.signal?.reason);
    if (options.signal?.aborted) abort();
    options.signal?.addEventListener("abort", abort, { once: true });
    const { timeoutMs } = options;
    const events = this.#transport.events(call, { signal: stop.signal, timeoutMs });
    const first = await events.next();
    if (first.done) throw new NetworkError(`watch of ${path}: the stream ended at once`);
    return new FileWatch(events, stop, changeOf(first.value));
  }

  /** A directory (or one file) as a tar archive, as a web stream. */
  async downloadTar(
    path: string,
    options: TransferOptions = {},
  ): Promise<ReadableStream<Uint8Array>> {
    return webStream(await this.#readTar(path, options), options.onProgress);
  }

  /** Saves a directory of the sandbox as a local tar archive. Needs Node, Bun or Deno. */
  async downloadTarTo(
    path: string,
    localPath: string,
    options: TransferOptions = {},
  ): Promise<void> {
    await saved(await this.#readTar(path, options), localPath, options.onProgress);
  }

  /**
   * The address of a file, or with `archive` of a tar archive of a directory, for a link in a page
   * whose browser has the session. The address holds no key.
   */
  address(path: string, options: { archive?: boolean | undefined } = {}): Promise<string> {
    const get = options.archive ? operations.getSandboxesIdFsTar : operations.getSandboxesIdFs;
    return this.#transport.address(get(this.#sandboxId, { path }));
  }

  /** Unpacks a tar archive into a directory, which is made if needed. */
  uploadTar(
    path: string,
    archive: RequestBytes,
    options: TransferOptions = {},
  ): Promise<models.Unpacked> {
    const call = operations.putSandboxesIdFsTar(this.#sandboxId, archive, { path });
    return this.#transport.json(call, sendOptions(options));
  }

  #readFile(path: string, options: CallOptions): Promise<ByteStream> {
    const call = operations.getSandboxesIdFs(this.#sandboxId, { path });
    return this.#retry(() => this.#transport.bytes(call, options));
  }

  #readTar(path: string, options: CallOptions): Promise<ByteStream> {
    return this.#transport.bytes(
      operations.getSandboxesIdFsTar(this.#sandboxId, { path }),
      options,
    );
  }

  async #stat(path: string, options: SendOptions): Promise<FileInfo> {
    const call = operations.getSandboxesIdFsStat(this.#sandboxId, { path });
    return infoOf(await this.#retry(() => this.#transport.json(call, options)), path);
  }

  #retry<T>(work: () => Promise<T>): Promise<T> {
    return this.#sandbox === undefined ? work() : this.#sandbox._retryOnWarmup(work);
  }
}

/** Changes below a path, as they happen. */
export class FileWatch implements AsyncIterable<FileChange>, AsyncDisposable {
  readonly #events: AsyncGenerator<ServerEvent>;
  readonly #stop: AbortController;
  #early: FileChange[];
  #closed = false;

  /** `early` are changes that came before the watch was handed out. */
  constructor(events: AsyncGenerator<ServerEvent>, stop: AbortController, early: FileChange[]) {
    this.#events = events;
    this.#stop = stop;
    this.#early = early;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<FileChange, void> {
    try {
      yield* this.#early;
      this.#early = [];
      for await (const event of this.#events) yield* changeOf(event);
    } catch (error) {
      if (!this.#closed) throw error;
    }
  }

  /** Ends the watch, and the loop over it. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#stop.abort();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

function changeOf(event: ServerEvent): FileChange[] {
  const data = eventObject(event);
  const path = String(data["path"] ?? "");
  if (event.event === "error") throw new ServerError(String(data["error"] ?? "the watch failed"));
  if (event.event === "overflow") return [{ type: "overflow", path, isDir: false }];
  if (event.event !== "change") return [];
  const cookie = data["cookie"];
  return [
    {
      type: String(data["type"] ?? ""),
      path,
      isDir: data["is_dir"] === true,
      ...(typeof cookie === "number" ? { cookie } : {}),
    },
  ];
}

function infoOf(entry: models.Entry, path: string): FileInfo {
  const name = entry.name || path.replace(/\/+$/, "").split("/").pop() || path;
  return {
    name,
    path: entry.path ?? path,
    is_dir: entry.is_dir === true,
    size: entry.size ?? 0,
    mode: entry.mode ?? "",
    mtime: entry.mtime ?? 0,
    ...defined({ permissions: entry.permissions, target: entry.target }),
  };
}

function joinPath(parent: string, name: string): string {
  return `${parent.replace(/\/+$/, "")}/${name}`;
}

function sendOptions(options: TransferOptions): SendOptions {
  const { signal, timeoutMs, onProgress } = options;
  return { signal, timeoutMs, onProgress };
}

function webStream(
  source: ByteStream,
  onProgress: OnProgress | undefined,
): ReadableStream<Uint8Array> {
  let bytes = 0;
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { value, done } = await source.pieces.next();
        if (done) return controller.close();
        bytes += value.byteLength;
        onProgress?.({ bytes, total: source.total });
        controller.enqueue(value);
      },
      async cancel() {
        await source.pieces.return(undefined);
      },
    },
    { highWaterMark: 0 },
  );
}

/** Writes to a local file, which appears only when it is complete. */
async function saved(
  source: ByteStream,
  localPath: string,
  onProgress: OnProgress | undefined,
): Promise<void> {
  const fs = await nodeModule<NodeFs>("node:fs", "download to a local file");
  const paths = await nodeModule<NodePath>("node:path", "download to a local file");
  await fs.promises.mkdir(paths.dirname(paths.resolve(localPath)), { recursive: true });
  const part = `${localPath}.part-${crypto.randomUUID().slice(0, 8)}`;
  const file = await fs.promises.open(part, "w");
  try {
    let bytes = 0;
    for await (const piece of source.pieces) {
      await writeAll(file, piece);
      bytes += piece.byteLength;
      onProgress?.({ bytes, total: source.total });
    }
    await file.close();
    await fs.promises.rename(part, localPath);
  } catch (error) {
    await file.close().catch(() => undefined);
    await fs.promises.rm(part, { force: true });
    throw error;
  }
}

async function writeAll(file: NodeFile, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.byteLength; ) {
    at += (await file.write(bytes.subarray(at))).bytesWritten;
  }
}
