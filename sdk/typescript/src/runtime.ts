/**
 * What this package uses of Node, where it exists (Node, Bun, Deno). Nothing is loaded before it
 * is needed, so that a bundle for a browser works.
 */

import { PandaStackError } from "./errors.js";

interface NodeProcess {
  readonly env?: Record<string, string | undefined>;
  readonly versions?: { readonly node?: string; readonly bun?: string };
  getBuiltinModule?(name: string): unknown;
}

interface Globals {
  readonly process?: NodeProcess;
  readonly Deno?: unknown;
  readonly WebSocket?: unknown;
}

const globals = globalThis as unknown as Globals;

/** The parts of `node:fs` that are used. */
export interface NodeFs {
  readFileSync(path: string, encoding: "utf8"): string;
  existsSync(path: string): boolean;
  statSync(path: string): { readonly size: number; isDirectory(): boolean };
  createReadStream(path: string): AsyncIterable<Uint8Array>;
  openAsBlob?(path: string): Promise<Blob>;
  readonly promises: {
    readFile(path: string): Promise<Uint8Array<ArrayBuffer>>;
    open(path: string, flags: string): Promise<NodeFile>;
    mkdir(path: string, options: { recursive: boolean }): Promise<unknown>;
    rename(from: string, to: string): Promise<void>;
    rm(path: string, options: { force: boolean }): Promise<void>;
  };
}

/** An open file of `node:fs`. */
export interface NodeFile {
  write(bytes: Uint8Array): Promise<{ readonly bytesWritten: number }>;
  close(): Promise<void>;
}

/** The parts of `node:path` that are used. */
export interface NodePath {
  join(...parts: string[]): string;
  dirname(path: string): string;
  resolve(path: string): string;
}

/** A socket of `node:net` or `node:tls`. */
export interface NodeSocket {
  on(event: string, listener: (value: never) => void): unknown;
  write(bytes: Uint8Array): boolean;
  end(): unknown;
  destroy(): unknown;
  setNoDelay(on: boolean): unknown;
  pause(): unknown;
  resume(): unknown;
  readonly writableLength: number;
}

/** A response of `node:http`. */
export interface NodeResponse extends AsyncIterable<Uint8Array> {
  readonly statusCode?: number;
  readonly headers: Record<string, string | string[] | undefined>;
}

/** A request of `node:http`. */
export interface NodeRequest {
  on(event: "upgrade", listener: NodeUpgradeListener): unknown;
  on(event: "response", listener: (response: NodeResponse) => void): unknown;
  on(event: "error", listener: (error: Error) => void): unknown;
  end(): unknown;
  destroy(): unknown;
}

/** Called when the server switches protocols. `head` is what followed the answer. */
export type NodeUpgradeListener = (
  response: NodeResponse,
  socket: NodeSocket,
  head: Uint8Array,
) => void;

/** The parts of `node:http` and `node:https` that are used. */
export interface NodeHttp {
  request(url: string, options: { headers: Record<string, string>; agent: false }): NodeRequest;
}

/** The value of an environment variable; undefined if it is missing, empty or not readable. */
export function environment(name: string): string | undefined {
  try {
    return globals.process?.env?.[name] || undefined;
  } catch {
    // Deno refuses without permission.
    return undefined;
  }
}

/** Whether the modules of Node exist here. */
export function hasNodeModules(): boolean {
  return typeof globals.process?.versions?.node === "string";
}

/** Whether this is a browser: a page, or a worker of one, which has no window. */
export function isBrowser(): boolean {
  return !hasNodeModules() && globals.Deno === undefined;
}

/** Whether the global WebSocket exists and can send headers. */
export function socketSendsHeaders(): boolean {
  if (typeof globals.WebSocket !== "function") return false;
  if (globals.Deno !== undefined) return false;
  const versions = globals.process?.versions;
  if (versions?.bun !== undefined) return true;
  return Number.parseInt(versions?.node ?? "0", 10) >= 22;
}

/** A module of Node, if it can be had without waiting. */
export function nodeModuleNow<T>(name: string): T | undefined {
  return globals.process?.getBuiltinModule?.(name) as T | undefined;
}

/** A module of Node. `purpose` completes the error text where there is none. */
export async function nodeModule<T>(name: string, purpose: string): Promise<T> {
  const now = nodeModuleNow<T>(name);
  if (now !== undefined) return now;
  if (!hasNodeModules()) {
    throw new PandaStackError(`${purpose} needs Node, Bun or Deno; this runtime has no ${name}`);
  }
  return (await import(/* @vite-ignore */ /* webpackIgnore: true */ name)) as T;
}
