/** Uploads of a page: a few at a time, each with its progress. */

import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useMemo, useSyncExternalStore } from "react";
import { sandboxHandle } from "@/data/client";
import { keys } from "@/data/keys";
import { toast } from "@/ui";
import { joinPath, parentOf } from "./paths";

export interface Upload {
  readonly id: number;
  readonly path: string;
  readonly size: number;
  readonly sent: number;
  readonly state: "waiting" | "sending" | "done" | "failed" | "stopped";
  readonly error?: unknown;
}

export interface DroppedFile {
  readonly file: File;
  /** The path below the folder it is dropped on. */
  readonly name: string;
}

const AT_ONCE = 2;
const FILES_MAX = 2_000;
const DONE_SHOWN_MS = 4_000;

/** The uploads of one sandbox. */
export class Uploads {
  readonly #sandboxId: string;
  readonly #onDone: (path: string) => void;
  readonly #listeners = new Set<() => void>();
  readonly #files = new Map<number, File>();
  readonly #stops = new Map<number, AbortController>();
  #list: readonly Upload[] = [];
  #next = 1;
  #running = 0;

  constructor(sandboxId: string, onDone: (path: string) => void) {
    this.#sandboxId = sandboxId;
    this.#onDone = onDone;
  }

  subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  list = (): readonly Upload[] => this.#list;

  add(folder: string, files: readonly DroppedFile[]): void {
    const added = files.slice(0, FILES_MAX).map(({ file, name }): Upload => {
      const id = this.#next++;
      this.#files.set(id, file);
      return { id, path: joinPath(folder, name), size: file.size, sent: 0, state: "waiting" };
    });
    if (files.length > FILES_MAX) {
      toast.info(`Only ${FILES_MAX} files go at once. Use \`pandastack cp\` for large folders.`);
    }
    this.#set([...this.#list, ...added]);
    this.#start();
  }

  stop(id: number): void {
    this.#stops.get(id)?.abort();
    this.#patch(id, { state: "stopped" });
    this.#forget(id);
  }

  clear(): void {
    this.#set(this.#list.filter(({ state }) => state === "waiting" || state === "sending"));
  }

  stopAll(): void {
    for (const { id } of this.#list) this.#stops.get(id)?.abort();
    this.#files.clear();
    this.#list = [];
  }

  #start(): void {
    while (this.#running < AT_ONCE) {
      const next = this.#list.find(({ state }) => state === "waiting");
      const file = next && this.#files.get(next.id);
      if (next === undefined || file === undefined) return;
      this.#running += 1;
      void this.#send(next, file).finally(() => {
        this.#running -= 1;
        this.#start();
      });
    }
  }

  async #send({ id, path }: Upload, file: File): Promise<void> {
    const stop = new AbortController();
    this.#stops.set(id, stop);
    this.#patch(id, { state: "sending" });
    try {
      await sandboxHandle(this.#sandboxId).filesystem.write(path, file, {
        signal: stop.signal,
        onProgress: ({ bytes }) => this.#patch(id, { sent: bytes }),
      });
      this.#patch(id, { state: "done", sent: file.size });
      this.#onDone(path);
      setTimeout(() => this.#set(this.#list.filter((one) => one.id !== id)), DONE_SHOWN_MS);
    } catch (error) {
      if (!stop.signal.aborted) this.#patch(id, { state: "failed", error });
    } finally {
      this.#forget(id);
    }
  }

  #forget(id: number): void {
    this.#files.delete(id);
    this.#stops.delete(id);
  }

  #patch(id: number, fields: Partial<Upload>): void {
    this.#set(this.#list.map((one) => (one.id === id ? { ...one, ...fields } : one)));
  }

  #set(list: readonly Upload[]): void {
    this.#list = list;
    for (const listener of this.#listeners) listener();
  }
}

/** The uploads of a sandbox, stopped when the page is left. */
export function useUploads(sandboxId: string): readonly [readonly Upload[], Uploads] {
  const queries = useQueryClient();
  const uploads = useMemo(
    () =>
      new Uploads(sandboxId, (path) => {
        const queryKey = [...keys.sandboxPart(sandboxId, "files"), parentOf(path)];
        void queries.invalidateQueries({ queryKey });
      }),
    [sandboxId, queries],
  );
  useEffect(() => () => uploads.stopAll(), [uploads]);
  return [useSyncExternalStore(uploads.subscribe, uploads.list), uploads];
}

/** The files of a drop, also those in dropped folders. */
export async function droppedFiles(transfer: DataTransfer): Promise<DroppedFile[]> {
  // The entries must be taken before the first wait: the list is emptied after the event.
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry());
  const plain = [...transfer.files];
  const found: DroppedFile[] = [];
  for (const entry of entries) if (entry !== null) await collect(entry, "", found);
  if (found.length > 0 || entries.some((entry) => entry?.isDirectory)) return found;
  return plain.map((file) => ({ file, name: file.name }));
}

async function collect(
  entry: FileSystemEntry,
  prefix: string,
  found: DroppedFile[],
): Promise<void> {
  if (found.length > FILES_MAX) return;
  const name = prefix + entry.name;
  if (entry.isFile) {
    const file = await new Promise<File>((resolve, reject) => {
      (entry as FileSystemFileEntry).file(resolve, reject);
    });
    found.push({ file, name });
    return;
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) => {
      reader.readEntries(resolve, reject);
    });
    if (some.length === 0) return;
    for (const one of some) await collect(one, `${name}/`, found);
  }
}
