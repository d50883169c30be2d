/** Runs commands over HTTP. */

import type { ExecResult, OutputCallbacks } from "./command.js";
import { checked, RunningCommand } from "./command.js";
import type * as models from "./core/models.js";
import * as operations from "./core/operations.js";
import { defined } from "./defined.js";
import {
  CommandCancelled,
  NetworkError,
  type PandaStackError,
  SandboxTimeout,
  ServerError,
  TimeoutError,
} from "./errors.js";
import { eventObject } from "./sse.js";
import type { CallOptions, Transport } from "./transport.js";

/** How a command runs. */
export interface CommandOptions {
  /** The command is ended after this many seconds. Without it, only the call has a deadline. */
  timeoutSeconds?: number | undefined;
  cwd?: string | undefined;
  env?: Record<string, string> | undefined;
  user?: string | undefined;
}

/** Options of `exec`. */
export interface ExecOptions extends CommandOptions, CallOptions {
  /** Makes an exit code other than 0 a {@link CommandError}. */
  check?: boolean | undefined;
  /** Text for standard input. */
  stdin?: string | undefined;
}

/** Options of a command whose output is streamed. */
export interface ExecStreamOptions extends ExecOptions, OutputCallbacks {}

/** A shell command line, or a program with its arguments that runs without a shell. */
export type CommandLine = string | readonly string[];

// Time for the answer after a command was ended at its limit.
const ANSWER_GRACE_MS = 10_000;
// Node gives up on an answer whose head takes five minutes. A stream has its head at once.
const WHOLE_ANSWER_MS_MAX = 240_000;

/** Runs a command and returns its result. */
export async function runCommand(
  transport: Transport,
  sandboxId: string,
  command: CommandLine,
  options: ExecOptions,
  clientTimeoutMs: number,
): Promise<ExecResult> {
  const limitMs =
    options.timeoutMs ??
    (options.timeoutSeconds
      ? Math.max(clientTimeoutMs, options.timeoutSeconds * 1000 + ANSWER_GRACE_MS)
      : clientTimeoutMs);
  const name = nameOf(command);
  if (limitMs > WHOLE_ANSWER_MS_MAX || limitMs === 0) {
    return streamCommand(transport, sandboxId, command, { ...options, totalMs: limitMs }).wait(
      options,
    );
  }
  try {
    const call = operations.postSandboxesIdExec(sandboxId, execRequest(command, options));
    const answer = await transport.json(call, { signal: options.signal, timeoutMs: limitMs });
    const result: ExecResult = { ...answer, exitCode: answer.exit_code };
    return options.check ? checked(name, result) : result;
  } catch (error) {
    throw asTimeout(error, name);
  }
}

/** Starts a command and streams its output. */
export function streamCommand(
  transport: Transport,
  sandboxId: string,
  command: CommandLine,
  options: ExecStreamOptions & { totalMs?: number },
): RunningCommand {
  const name = nameOf(command);
  const stop = new AbortController();
  let cancelled = false;
  return new RunningCommand(name, options, (sink) => {
    const caller = options.signal;
    const abort = (): void => stop.abort(caller?.reason);
    if (caller?.aborted) abort();
    caller?.addEventListener("abort", abort, { once: true });
    const total = options.totalMs;
    const timer = total ? setTimeout(() => stop.abort(overdue(name, total)), total) : undefined;
    const call = operations.postSandboxesIdExecStream(sandboxId, execRequest(command, options));
    const read = async (): Promise<void> => {
      for await (const event of transport.events(call, {
        signal: stop.signal,
        timeoutMs: options.totalMs === undefined ? options.timeoutMs : undefined,
      })) {
        const data = eventObject(event);
        if (event.event === "stdout" || event.event === "stderr") {
          await sink.output(event.event, String(data["chunk"] ?? ""));
        } else if (event.event === "exit") return sink.exit(Number(data["exit_code"] ?? 0));
        else if (event.event === "error") throw commandFailure(String(data["error"]), name);
      }
      sink.cut("the stream ended early");
    };
    read()
      .catch((error: unknown) => {
        if (cancelled) sink.fail(new CommandCancelled(`command cancelled: ${name}`));
        else if (isCut(error)) sink.cut(error.message, error);
        else sink.fail(error);
      })
      .finally(() => {
        clearTimeout(timer);
        caller?.removeEventListener("abort", abort);
      });
    return {
      cancel: () => {
        cancelled = true;
        stop.abort(new CommandCancelled(`command cancelled: ${name}`));
      },
    };
  });
}

/** The body of a request that runs a command. */
export function execRequest(command: CommandLine, options: ExecOptions): models.ExecRequest {
  return {
    ...commandFields(command),
    ...defined({
      cwd: options.cwd,
      env: options.env,
      user: options.user,
      stdin: options.stdin,
      timeout_seconds: options.timeoutSeconds,
    }),
  };
}

/** The fields that name the command itself. */
export function commandFields(command: CommandLine): { cmd: string } | { argv: string[] } {
  return typeof command === "string" ? { cmd: command } : { argv: [...command] };
}

/** A command as error texts show it. */
export function nameOf(command: CommandLine): string {
  const text = typeof command === "string" ? command : command.join(" ");
  return text.length > 200 ? `${text.slice(0, 200)}…` : text;
}

/** The error for a command that the server reports as failed. */
export function commandFailure(text: string, name: string): PandaStackError {
  const message = text.toLowerCase();
  if (message.includes("timeout"))
    return new SandboxTimeout(`command timed out: ${name} (${text})`);
  if (message === "cancelled") return new CommandCancelled(`command cancelled: ${name}`);
  return new ServerError(text);
}

/** Turns a server's report of a command that ran too long into {@link SandboxTimeout}. */
export function asTimeout(error: unknown, name: string): unknown {
  if (!(error instanceof ServerError)) return error;
  const text = error.message.toLowerCase();
  const isTimeout = text.includes("timeout") || text.includes("deadline exceeded");
  if (!isTimeout || text.includes("i/o timeout")) return error;
  return new SandboxTimeout(`command timed out: ${name}`, error.statusCode, error.response, {
    code: error.code,
    requestId: error.requestId,
    cause: error,
  });
}

function isCut(error: unknown): error is NetworkError {
  return error instanceof NetworkError && !(error instanceof TimeoutError);
}

function overdue(name: string, ms: number): PandaStackError {
  return new SandboxTimeout(`command did not end within ${ms / 1000} s: ${name}`);
}
