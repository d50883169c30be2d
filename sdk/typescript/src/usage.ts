/** What the workspace uses and costs, its limits, its metrics and its audit trail. */

import type { Client } from "./client.js";
import type * as models from "./core/models.js";
import * as operations from "./core/operations.js";
import { defined } from "./defined.js";
import type { CallOptions } from "./transport.js";

/** Options of a usage report. Days are such as `2026-11-17`. */
export interface UsageOptions extends CallOptions {
  by?: "day" | "template" | "sandbox" | "member" | undefined;
  from?: string | undefined;
  to?: string | undefined;
}

/** Options of metrics over time. */
export interface SeriesOptions extends CallOptions {
  from?: string | undefined;
  to?: string | undefined;
  /** Instead of `from` and `to`: such as `1h`. */
  range?: string | undefined;
  step?: "15s" | "1m" | "5m" | "1h" | undefined;
}

/** Options of the audit trail. */
export interface AuditOptions extends CallOptions {
  since?: string | undefined;
  until?: string | undefined;
  limit?: number | undefined;
  actor?: string | undefined;
  method?: string | undefined;
}

/** The query of a usage report. */
export function usageQuery(options: UsageOptions): {
  by?: "day" | "template" | "sandbox" | "member";
  from?: string;
  to?: string;
} {
  return defined({ by: options.by, from: options.from, to: options.to });
}

/** Usage of the workspace. */
export class UsageAPI {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  /** Usage, split by day, template, sandbox or member. */
  report(options: UsageOptions = {}): Promise<models.UsageReport> {
    return this.#client.transport.json(operations.getUsage(usageQuery(options)), options);
  }

  /** The same as a table in CSV. */
  export(options: UsageOptions = {}): Promise<string> {
    return this.#client.transport.text(operations.getUsageExport(usageQuery(options)), options);
  }

  /** The limits of the workspace, and what it uses now. */
  quotas(options: CallOptions = {}): Promise<models.Quotas> {
    return this.#client.transport.json(operations.getQuotas(), options);
  }
}

/** What the workspace costs. */
export class BillingAPI {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  /** What the workspace used and costs in this month. */
  get(options: CallOptions = {}): Promise<models.Bill> {
    return this.#client.transport.json(operations.getBilling(), options);
  }

  /** Posts the usage to the payment provider now. */
  sync(options: CallOptions = {}): Promise<models.MeterFlush> {
    return this.#client.transport.json(operations.postBillingSync(), options);
  }

  /** The prices and the plans. */
  pricing(options: CallOptions = {}): Promise<models.Pricing> {
    return this.#client.transport.json(operations.getPricing(), options);
  }
}

/** Usage over time. */
export class MetricsAPI {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  /** Usage of all sandboxes over time. */
  overview(options: SeriesOptions = {}): Promise<models.MetricSeries> {
    return this.#client.transport.json(
      operations.getMetricsOverview(seriesQuery(options)),
      options,
    );
  }

  /** Usage of one sandbox over time. */
  sandbox(id: string, options: SeriesOptions = {}): Promise<models.MetricSeries> {
    const call = operations.getMetricsSandboxId(id, seriesQuery(options));
    return this.#client.transport.json(call, options);
  }
}

function seriesQuery(options: SeriesOptions): {
  from?: string;
  to?: string;
  range?: string;
  step?: "15s" | "1m" | "5m" | "1h";
} {
  const { from, to, range, step } = options;
  return defined({ from, to, range, step });
}

/** The audit trail of the workspace. */
export class AuditAPI {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  /** Entries, newest first. */
  async list(options: AuditOptions = {}): Promise<models.AuditEntry[]> {
    const { since, until, limit, actor, method } = options;
    const call = operations.getAudit(defined({ since, until, limit, actor, method }));
    return (await this.#client.transport.json(call, options)).entries;
  }

  /** All entries after a number, oldest first, with what is needed to check their hash chain. */
  async export(
    options: CallOptions & { after?: number | undefined } = {},
  ): Promise<models.ExportedAuditEntry[]> {
    const call = operations.getAuditExport(defined({ after: options.after }));
    const text = await this.#client.transport.text(call, options);
    return text
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => JSON.parse(line) as models.ExportedAuditEntry);
  }
}
