/** Functions: code that a server runs on request. Not every server offers them. */

import { collected } from "./body.js";
import type { Client } from "./client.js";
import { segment } from "./core/call.js";
import { defined } from "./defined.js";
import { itemsOf } from "./items.js";
import type { CallOptions } from "./transport.js";

export type FunctionRuntime = "python" | "nodejs";

/** A function. */
export interface FunctionInfo {
  id: string;
  workspace: string;
  name: string;
  runtime: FunctionRuntime;
  entrypoint: string;
  code_size: number;
  template?: string;
  env?: Record<string, string>;
  public: boolean;
  endpoint?: string;
  url?: string;
  gcs_path?: string;
  version?: number;
  is_ready?: boolean;
  created_at: string;
  updated_at: string;
}

/** One run of a function. */
export interface FunctionRun {
  id: string;
  workspace: string;
  function_id: string;
  schedule_id?: string | null;
  sandbox_id?: string | null;
  /** `queued`, `running`, `success`, `error` or `timeout`. */
  status: string;
  exit_code?: number | null;
  stdout?: string;
  stderr?: string;
  duration_ms?: number;
  started_at: string;
  ended_at?: string | null;
}

export type FunctionRunInfo = FunctionRun;

export interface FunctionCreateOptions extends CallOptions {
  entrypoint?: string | undefined;
  env?: Record<string, string> | undefined;
  template?: string | undefined;
  public?: boolean | undefined;
}

export interface FunctionDeployOptions extends FunctionCreateOptions {
  name: string;
  runtime: FunctionRuntime;
  code: string | Uint8Array;
}

export interface FunctionUpdateOptions extends CallOptions {
  name?: string | undefined;
  env?: Record<string, string> | undefined;
  public?: boolean | undefined;
  entrypoint?: string | undefined;
}

/** How a function did in a period. */
export interface FunctionMetrics {
  period: string;
  total: number;
  errors: number;
  error_rate: number;
  p50_ms: number;
  p95_ms: number;
  p99_ms: number;
  cold_start_rate: number;
}

const ENTRYPOINTS = { python: "handler.py", nodejs: "index.js" } as const;

/** The functions of the workspace. */
export class FunctionsAPI {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  /** Creates a function from its source. */
  async create(
    name: string,
    runtime: FunctionRuntime,
    code: string | Uint8Array,
    options: FunctionCreateOptions = {},
  ): Promise<FunctionInfo> {
    const { signal, timeoutMs } = options;
    const json = {
      name,
      runtime,
      entrypoint: options.entrypoint ?? ENTRYPOINTS[runtime],
      code: base64(code),
      template: options.template ?? "code-interpreter",
      public: options.public ?? false,
      ...defined({ env: options.env }),
    };
    return withEndpoint(
      await this.#client.request("POST", "/functions", { json, signal, timeoutMs }),
    );
  }

  /** The same as {@link create}, with everything in one object. */
  deploy(options: FunctionDeployOptions): Promise<FunctionInfo> {
    return this.create(options.name, options.runtime, options.code, options);
  }

  async list(options: CallOptions = {}): Promise<FunctionInfo[]> {
    const answer = await this.#client.request("GET", "/functions", options);
    return itemsOf<FunctionInfo>(answer).map(withEndpoint);
  }

  async get(id: string, options: CallOptions = {}): Promise<FunctionInfo> {
    return withEndpoint(await this.#client.request("GET", path(id), options));
  }

  async update(id: string, options: FunctionUpdateOptions = {}): Promise<FunctionInfo> {
    const { signal, timeoutMs, ...fields } = options;
    const json = defined(fields);
    return withEndpoint(await this.#client.request("PATCH", path(id), { json, signal, timeoutMs }));
  }

  async delete(id: string, options: CallOptions = {}): Promise<void> {
    await this.#client.request("DELETE", path(id), { ...options, parseAs: "none" });
  }

  /** The source of a function. */
  async getCode(id: string, options: CallOptions = {}): Promise<ArrayBuffer> {
    const call = { kind: "bytes", method: "GET", path: `/v1${path(id)}/code` } as const;
    const bytes = await collected(await this.#client.transport.bytes(call, options));
    return new Uint8Array(bytes).buffer;
  }

  /** Runs a function and waits for its end. */
  invoke(id: string, input?: unknown, options: CallOptions = {}): Promise<FunctionRun> {
    const json = input === undefined ? {} : { input };
    return this.#client.request("POST", `${path(id)}/invoke`, { ...options, json });
  }

  /** The same as {@link invoke}. */
  trigger(id: string, input?: unknown, options: CallOptions = {}): Promise<FunctionRun> {
    return this.invoke(id, input, options);
  }

  /** Records a run that happened elsewhere. Runs nothing. */
  recordRun(id: string, run: unknown = {}, options: CallOptions = {}): Promise<FunctionRun> {
    return this.#client.request("POST", `${path(id)}/runs`, { ...options, json: run });
  }

  async runs(id: string, options: CallOptions = {}): Promise<FunctionRun[]> {
    return itemsOf(await this.#client.request("GET", `${path(id)}/runs`, options));
  }

  /** The same as {@link runs}. */
  listRuns(id: string, options: CallOptions = {}): Promise<FunctionRun[]> {
    return this.runs(id, options);
  }

  /** Replaces the code by a tar.gz of several files. */
  async deployBundle(
    id: string,
    bundle: Uint8Array,
    entrypoint?: string,
    options: CallOptions = {},
  ): Promise<FunctionInfo> {
    const body = new FormData();
    const file = new Blob([bundle as BlobPart], { type: "application/gzip" });
    body.set("bundle", file, "code.tar.gz");
    if (entrypoint) body.set("entrypoint", entrypoint);
    return withEndpoint(
      await this.#client.request("POST", `${path(id)}/deploy`, { ...options, body }),
    );
  }

  /** How a function did in the last hours. */
  metrics(id: string, periodHours = 24, options: CallOptions = {}): Promise<FunctionMetrics> {
    const query = { period: periodHours };
    return this.#client.request("GET", `${path(id)}/metrics`, { ...options, query });
  }
}

function path(id: string): string {
  return `/functions/${segment(id)}`;
}

function withEndpoint(info: FunctionInfo): FunctionInfo {
  return info.endpoint || !info.url ? info : { ...info, endpoint: info.url };
}

function base64(data: string | Uint8Array): string {
  const bytes = typeof data === "string" ? new TextEncoder().encode(data) : data;
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}
