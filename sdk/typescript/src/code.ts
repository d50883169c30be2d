/** Code contexts: a kernel that keeps its variables from one cell to the next. */

import type * as models from "./core/models.js";
import * as operations from "./core/operations.js";
import { defined } from "./defined.js";
import { asTimeout, nameOf } from "./exec.js";
import type { CallOptions, Transport } from "./transport.js";

/** One result of a cell: the same value in one or more forms. */
export interface Result {
  /** All forms by MIME type. Images are base64. */
  data: Record<string, string>;
  png?: string;
  jpeg?: string;
  svg?: string;
  html?: string;
  markdown?: string;
  /** The decoded `application/json`. */
  json?: unknown;
  text?: string;
  /** The image, if there is one: png, else jpeg, else svg. */
  chart?: string;
}

/** What a cell printed, returned and raised. */
export interface Execution {
  results: Result[];
  stdout: string;
  stderr: string;
  /** The traceback, if the code raised an exception. */
  error?: string;
  exit_code: number;
  duration_ms?: number;
  /** The first PNG of the results. */
  png?: string;
  /** The text of the first result that has one. */
  text?: string;
  /** Whether the kernel was restarted. The variables of earlier cells are then gone. */
  restarted?: boolean;
  /** Whether output beyond the limit was left out. */
  truncated?: boolean;
}

/** Options of a cell. */
export interface RunCodeOptions extends CallOptions {
  /** The cell is interrupted after this many seconds. 30 by default. */
  timeoutSeconds?: number | undefined;
}

const CELL_SECONDS_DEFAULT = 30;
const ANSWER_GRACE_MS = 15_000;

/** What a context needs of its client. */
export interface CodeClient {
  readonly transport: Transport;
}

/**
 * A kernel in a sandbox. Variables stay from one cell to the next.
 *
 * ```ts
 * await using context = await sandbox.createCodeContext();
 * await context.runCode("x = 40");
 * const { text } = await context.runCode("x + 2"); // "42"
 * ```
 */
export class CodeContext implements AsyncDisposable {
  readonly id: string;
  readonly language: string;
  readonly sandboxId: string;
  readonly #client: CodeClient;

  constructor(client: CodeClient, sandboxId: string, id: string, language = "python") {
    this.#client = client;
    this.sandboxId = sandboxId;
    this.id = id;
    this.language = language;
  }

  /** Runs a cell. An exception in the code is not an error of the call: see `error`. */
  async runCode(code: string, options: RunCodeOptions = {}): Promise<Execution> {
    const seconds = options.timeoutSeconds;
    const timeout_ms = seconds === undefined ? undefined : Math.round(seconds * 1000);
    const call = operations.postSandboxesIdReplSessionsSessionRun(this.sandboxId, this.id, {
      code,
      ...defined({ timeout_ms }),
    });
    const timeoutMs =
      options.timeoutMs ?? (seconds ?? CELL_SECONDS_DEFAULT) * 1000 + ANSWER_GRACE_MS;
    try {
      const cell = await this.#client.transport.json(call, { ...options, timeoutMs });
      return executionOf(cell);
    } catch (error) {
      throw asTimeout(error, nameOf(code));
    }
  }

  /** Ends the kernel. A context that is already gone is no error. */
  async close(options: CallOptions = {}): Promise<void> {
    const call = operations.deleteSandboxesIdReplSessionsSession(this.sandboxId, this.id);
    await this.#client.transport.empty(call, { ...options, noRetry: true }).catch(() => undefined);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/** Makes the result of a cell from the server's answer. */
export function executionOf(cell: models.CellResult): Execution {
  const results = (cell.results ?? []).map((item) => resultOf(bundleOf(item)));
  const execution: Execution = {
    results,
    stdout: cell.stdout ?? "",
    stderr: cell.stderr ?? "",
    exit_code: cell.exit ?? cell.exit_code ?? 0,
  };
  const png = results.find((result) => result.png !== undefined)?.png;
  const text = results.find((result) => result.text !== undefined)?.text;
  if (png !== undefined) execution.png = png;
  if (text !== undefined) execution.text = text;
  if (cell.error) execution.error = cell.error;
  if (cell.duration_ms !== undefined) execution.duration_ms = cell.duration_ms;
  if (cell.restarted) execution.restarted = true;
  if (cell.truncated) execution.truncated = true;
  return execution;
}

/** A server may also send one form only, as `type` and `data`. */
function bundleOf(item: Record<string, string>): Record<string, string> {
  const type = item["type"];
  return type === undefined ? item : { [type]: item["data"] ?? "" };
}

function resultOf(data: Record<string, string>): Result {
  const json = data["application/json"];
  const chart = data["image/png"] || data["image/jpeg"] || data["image/svg+xml"] || undefined;
  return {
    data,
    ...defined({
      png: data["image/png"] || undefined,
      jpeg: data["image/jpeg"] || undefined,
      svg: data["image/svg+xml"] || undefined,
      html: data["text/html"] || undefined,
      markdown: data["text/markdown"] || undefined,
      json: json === undefined ? undefined : jsonOf(json),
      text: data["text/plain"],
      chart,
    }),
  } as Result;
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
