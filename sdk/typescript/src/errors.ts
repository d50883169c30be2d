/** The errors of this package. All of them are a {@link PandaStackError}. */

import type { TemplateBuild } from "./templates.js";

/** Further facts about a failure. All are optional. */
export interface ErrorDetails {
  /** The stable code of the failure, such as `sandbox.not_found`. */
  code?: string | undefined;
  /** The id of the request, for a question to the operator. */
  requestId?: string | undefined;
  /** Seconds after which the server asks to try again. */
  retryAfter?: number | undefined;
  /** The decoded body of the answer. */
  body?: unknown;
  cause?: unknown;
}

/**
 * The base of all errors of this package.
 *
 * ```ts
 * try {
 *   await sandbox.exec("true");
 * } catch (error) {
 *   if (error instanceof PandaStackError) console.error(error.status, error.code, error.requestId);
 * }
 * ```
 */
export class PandaStackError extends Error {
  /** The HTTP status, if the server answered. */
  readonly statusCode: number | undefined;
  declare readonly response: Response | undefined;
  readonly code: string | undefined;
  readonly requestId: string | undefined;
  readonly retryAfter: number | undefined;
  /** The decoded body of the answer, if there was one. */
  declare readonly body: unknown;

  constructor(
    message: string,
    statusCode?: number,
    response?: Response,
    details: ErrorDetails = {},
  ) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.name = new.target.name;
    this.statusCode = statusCode;
    this.code = details.code;
    this.requestId = details.requestId;
    this.retryAfter = details.retryAfter;
    // These are left out where an error is printed: they repeat what the rest says.
    Object.defineProperty(this, "response", { value: response, enumerable: false });
    Object.defineProperty(this, "body", { value: details.body, enumerable: false });
  }

  /** The HTTP status, if the server answered. The same as `statusCode`. */
  get status(): number | undefined {
    return this.statusCode;
  }
}

/** The credential is missing or wrong (401), or it may not do this (403). */
export class AuthError extends PandaStackError {}

/** The resource does not exist, or belongs to another workspace (404). */
export class NotFoundError extends PandaStackError {}

/** The request was refused (any other 4xx), or is invalid and was not sent. */
export class BadRequestError extends PandaStackError {}

/** The resource is in a state that does not allow this (409). */
export class ConflictError extends BadRequestError {}

/** Too many requests, or a quota is used up (429). `retryAfter` is set only for the first. */
export class RateLimitError extends BadRequestError {}

/**
 * A statement of a database failed, or its time was over. `code` is PostgreSQL's, such as `23505`.
 */
export class QueryError extends BadRequestError {
  /** PostgreSQL's further words. */
  get detail(): string | undefined {
    return textField(this.body, "detail");
  }

  /** What PostgreSQL advises. */
  get hint(): string | undefined {
    return textField(this.body, "hint");
  }

  /** Where it happened, such as a line of a function. */
  get where(): string | undefined {
    return textField(this.body, "where");
  }

  /** The index of the statement, in a transaction. */
  get statement(): number | undefined {
    const index = (this.body as { statement?: unknown } | undefined)?.statement;
    return typeof index === "number" ? index : undefined;
  }
}

/** The server failed (5xx). */
export class ServerError extends PandaStackError {}

/** The server has no room at the moment (503 or 507). Nothing was created. */
export class CapacityError extends ServerError {}

/** The server could not be reached, or its answer broke off or could not be read. */
export class NetworkError extends PandaStackError {}

/** The deadline of the call passed. `timeoutMs` of the call or the client sets it. */
export class TimeoutError extends NetworkError {}

/**
 * The connection broke while a command ran. The server ends such a command. The output until then
 * is kept here. Use a process, or `resumable`, for work that must survive this.
 */
export class ExecInterrupted extends NetworkError {
  readonly stdout: string;
  readonly stderr: string;

  constructor(message: string, stdout = "", stderr = "", details: ErrorDetails = {}) {
    super(message, undefined, undefined, details);
    this.stdout = stdout;
    this.stderr = stderr;
  }
}

/** A command or a cell ran longer than its own time limit and was ended. */
export class SandboxTimeout extends PandaStackError {}

/** A command was cancelled by this client. */
export class CommandCancelled extends PandaStackError {}

/** A command exited with another code than 0, and the caller asked for `check`. */
export class CommandError extends PandaStackError {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;

  constructor(message: string, exitCode: number, stdout = "", stderr = "") {
    super(message);
    this.exitCode = exitCode;
    this.stdout = stdout;
    this.stderr = stderr;
  }
}

/** The build of a template failed, or did not end in time. `build` is its last known state. */
export class TemplateBuildError extends PandaStackError {
  readonly build: TemplateBuild;

  constructor(message: string, build: TemplateBuild) {
    super(message);
    this.build = build;
  }
}

/** No branch of an exploration can be chosen, or it was asked for too many branches. */
export class ExploreError extends PandaStackError {}

/** A webhook delivery is not signed with this secret, or is too old. */
export class WebhookSignatureError extends PandaStackError {}

/** Makes the error for an answer with a status of 300 or more. Reads its body. */
export async function errorFromResponse(response: Response): Promise<PandaStackError> {
  const text = await response.text().catch(() => "");
  const body = parsed(text);
  const status = response.status;
  const message = messageOf(body) ?? (text.trim() || `the server answered with status ${status}`);
  const details: ErrorDetails = {
    code: textField(body, "code"),
    requestId: textField(body, "request_id") ?? response.headers.get("x-request-id") ?? undefined,
    retryAfter: retryAfterSeconds(response.headers.get("retry-after")),
    body,
  };
  return new (classOf(status))(message, status, response, details);
}

type ErrorClass = new (
  message: string,
  statusCode?: number,
  response?: Response,
  details?: ErrorDetails,
) => PandaStackError;

function classOf(status: number): ErrorClass {
  if (status === 401 || status === 403) return AuthError;
  if (status === 404) return NotFoundError;
  if (status === 409) return ConflictError;
  if (status === 429) return RateLimitError;
  if (status === 503 || status === 507) return CapacityError;
  if (status >= 500) return ServerError;
  if (status >= 400) return BadRequestError;
  return PandaStackError;
}

/** Reads `Retry-After`: seconds, or a date. */
export function retryAfterSeconds(value: string | null, now = Date.now()): number | undefined {
  const text = value?.trim();
  if (!text) return undefined;
  if (/^\d+(\.\d+)?$/.test(text)) return Number(text);
  const date = Date.parse(text);
  return Number.isNaN(date) ? undefined : Math.max(0, (date - now) / 1000);
}

function parsed(text: string): unknown {
  try {
    return text ? JSON.parse(text) : undefined;
  } catch {
    return undefined;
  }
}

function messageOf(body: unknown): string | undefined {
  const detail = textField(body, "detail");
  const text = textField(body, "error") ?? textField(body, "message");
  if (text === undefined || detail === undefined) return text ?? detail;
  return text.includes(detail) ? text : `${text}: ${detail}`;
}

function textField(body: unknown, name: string): string | undefined {
  if (typeof body !== "object" || body === null) return undefined;
  const value = (body as Record<string, unknown>)[name];
  return typeof value === "string" && value ? value : undefined;
}
