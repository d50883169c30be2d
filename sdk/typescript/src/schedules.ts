/** Schedules: functions that run at set times. Not every server offers them. */

import type { Client } from "./client.js";
import { segment } from "./core/call.js";
import { defined } from "./defined.js";
import type { FunctionRun } from "./functions.js";
import { itemsOf } from "./items.js";
import type { CallOptions } from "./transport.js";

/** A schedule. */
export interface ScheduleInfo {
  id: string;
  workspace: string;
  name: string;
  function_id: string;
  cron: string;
  paused: boolean;
  last_run_at?: string | null;
  next_run_at?: string | null;
  created_at: string;
  updated_at: string;
}

export interface ScheduleCreateOptions extends CallOptions {
  paused?: boolean | undefined;
}

/** A whole schedule as one object. */
export interface ScheduleCreateRequest {
  name: string;
  function_id: string;
  cron: string;
  paused?: boolean;
}

export interface ScheduleUpdateOptions extends CallOptions {
  cron?: string | undefined;
  paused?: boolean | undefined;
}

/** The schedules of the workspace. */
export class SchedulesAPI {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  create(
    name: string,
    functionId: string,
    cron: string,
    options?: ScheduleCreateOptions,
  ): Promise<ScheduleInfo>;
  create(request: ScheduleCreateRequest): Promise<ScheduleInfo>;
  create(
    first: string | ScheduleCreateRequest,
    functionId = "",
    cron = "",
    options: ScheduleCreateOptions = {},
  ): Promise<ScheduleInfo> {
    const { signal, timeoutMs, paused = false } = options;
    const json =
      typeof first === "string"
        ? { name: first, function_id: functionId, cron, paused }
        : { ...first, paused: first.paused ?? false };
    return this.#client.request("POST", "/schedules", { json, signal, timeoutMs });
  }

  async list(options: CallOptions = {}): Promise<ScheduleInfo[]> {
    return itemsOf(await this.#client.request("GET", "/schedules", options));
  }

  get(id: string, options: CallOptions = {}): Promise<ScheduleInfo> {
    return this.#client.request("GET", path(id), options);
  }

  update(id: string, options: ScheduleUpdateOptions = {}): Promise<ScheduleInfo> {
    const { cron, paused, ...more } = options;
    return this.#client.request("PATCH", path(id), { ...more, json: defined({ cron, paused }) });
  }

  async delete(id: string, options: CallOptions = {}): Promise<void> {
    await this.#client.request("DELETE", path(id), { ...options, parseAs: "none" });
  }

  /** Runs the function of a schedule now. */
  trigger(id: string, options: CallOptions = {}): Promise<FunctionRun> {
    return this.#client.request("POST", `${path(id)}/trigger`, { ...options, json: {} });
  }

  async runs(id: string, options: CallOptions = {}): Promise<FunctionRun[]> {
    return itemsOf(await this.#client.request("GET", `${path(id)}/runs`, options));
  }

  /** The same as {@link runs}. */
  listRuns(id: string, options: CallOptions = {}): Promise<FunctionRun[]> {
    return this.runs(id, options);
  }
}

function path(id: string): string {
  return `/schedules/${segment(id)}`;
}
