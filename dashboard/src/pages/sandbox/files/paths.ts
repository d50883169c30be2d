/** Paths and rows of the file tree. Pure. */

import type { FileChange, FileInfo } from "@pandastack/sdk";

export function joinPath(folder: string, name: string): string {
  return `${folder.replace(/\/+$/, "")}/${name}`;
}

export function parentOf(path: string): string {
  const at = path.replace(/\/+$/, "").lastIndexOf("/");
  return at <= 0 ? "/" : path.slice(0, at);
}

export function nameOf(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1) || "/";
}

/** An absolute path without `.`, `..` and double slashes. */
export function cleanPath(path: string): string {
  const parts: string[] = [];
  for (const part of path.split("/")) {
    if (part === "..") parts.pop();
    else if (part !== "" && part !== ".") parts.push(part);
  }
  return `/${parts.join("/")}`;
}

/** Why a name cannot be one of a file; undefined if it can. */
export function nameProblem(name: string): string | undefined {
  if (name === "") return "Enter a name";
  if (name === "." || name === "..") return "This name has a meaning of its own";
  if (/[/\0]/.test(name)) return "A name has no slash";
  return undefined;
}

/** The folders whose listing changed. Undefined means that all may have. */
export function changedFolders(changes: readonly FileChange[]): ReadonlySet<string> | undefined {
  const folders = new Set<string>();
  for (const { type, path } of changes) {
    if (type === "overflow") return undefined;
    folders.add(parentOf(path));
  }
  return folders;
}

export interface TreeRow {
  readonly entry: FileInfo;
  readonly level: number;
  readonly isOpen: boolean;
}

/** The visible rows: each folder before its entries. `listing` gives what is known of a folder. */
export function treeRows(
  root: string,
  open: ReadonlySet<string>,
  listing: (folder: string) => readonly FileInfo[] | undefined,
  level = 1,
): TreeRow[] {
  const rows: TreeRow[] = [];
  for (const entry of listing(root) ?? []) {
    const isOpen = entry.is_dir && open.has(entry.path);
    rows.push({ entry, level, isOpen });
    if (isOpen) rows.push(...treeRows(entry.path, open, listing, level + 1));
  }
  return rows;
}

const IMAGES: Record<string, string> = {
  png: "image/png",
  jpg: "image/jpeg",
  jpeg: "image/jpeg",
  gif: "image/gif",
  webp: "image/webp",
  avif: "image/avif",
  bmp: "image/bmp",
  ico: "image/x-icon",
  svg: "image/svg+xml",
};

/** The type of an image by its name; undefined for other files. */
export function imageType(path: string): string | undefined {
  const name = nameOf(path).toLowerCase();
  const at = name.lastIndexOf(".");
  return at < 0 ? undefined : IMAGES[name.slice(at + 1)];
}

export const TEXT_BYTES_MAX = 2 * 1024 * 1024;
export const IMAGE_BYTES_MAX = 20 * 1024 * 1024;

/** How a file can be shown. */
export function viewOf(path: string, size: number): "image" | "text" | "large" {
  if (imageType(path) !== undefined && size <= IMAGE_BYTES_MAX) return "image";
  return size <= TEXT_BYTES_MAX ? "text" : "large";
}

/** The text of a file; undefined if it is not text. */
export function textOf(bytes: Uint8Array): string | undefined {
  if (bytes.subarray(0, 8192).includes(0)) return undefined;
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}
