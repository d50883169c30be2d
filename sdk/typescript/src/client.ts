/** The client: where requests go, and everything that can be asked. */

import { AppsAPI } from "./apps.js";
import { AuthAPI } from "./auth.js";
import type { FetchBody, FetchHeaders } from "./body.js";
import type { ClientConfig } from "./config.js";
import { cleanUrl, resolveConfig } from "./config.js";
import type { Call } from "./core/call.js";
import { segment } from "./core/call.js";
import type * as models from "./core/models.js";
import * as operations from "./core/operations.js";
import { DatabasesAPI } from "./databases.js";
import { NetworkError } from "./errors.js";
import { EventsAPI } from "./events.js";
import { FunctionsAPI } from "./functions.js";
import { ApiKeysAPI, TokenNamespace } from "./keys.js";
import { OrgsAPI } from "./orgs.js";
import { environment } from "./runtime.js";
import { SandboxNamespace } from "./sandboxes.js";
import { SchedulesAPI } from "./schedules.js";
import { ServerAPI } from "./server.js";
import { SnapshotsAPI } from "./snapshots.js";
import { TemplateNamespace } from "./templates.js";
import type { CallOptions, TransportConfig } from "./transport.js";
import { Transport } from "./transport.js";
import { AuditAPI, BillingAPI, MetricsAPI, UsageAPI } from "./usage.js";
import { VolumesAPI } from "./volumes.js";
import { WebhooksAPI } from "./webhooks.js";

/** Who the caller is. */
export interface MeInfo extends Partial<models.Me> {
  [key: string]: unknown;
}

/** Options of a request of your own. */
export interface RequestOptions extends CallOptions {
  query?: Record<string, string | number | boolean | undefined> | undefined;
  json?: unknown;
  body?: FetchBody | undefined;
  headers?: FetchHeaders | undefined;
  /** How the answer is read: `json` by default. */
  parseAs?: "json" | "text" | "none" | undefined;
  /** Does not repeat a GET or DELETE that was answered with 404. */
  noRetry?: boolean | undefined;
}

/**
 * A client of one server. It keeps no connection open by itself and needs no closing.
 *
 * ```ts
 * const client = new PandaStack({ apiKey: process.env.PANDASTACK_API_KEY });
 * const sandbox = await client.sandboxes.create({ template: "code-interpreter" });
 * ```
 */
export class Client {
  readonly timeoutMs: number;
  /** How long refused creates are tried again, in seconds. */
  readonly maxCreateRetrySeconds: number;
  /** Sends the calls of `operations`. For what has no method of its own. */
  readonly transport: Transport;
  /** Host name below which previews are served, if it is not that of the server. */
  previewHost: string | undefined;

  /** Whether the browser sends a session cookie instead of a key. */
  readonly usesCookie: boolean;

  readonly sandboxes: SandboxNamespace;
  readonly templates: TemplateNamespace;
  readonly snapshots: SnapshotsAPI;
  readonly volumes: VolumesAPI;
  readonly webhooks: WebhooksAPI;
  readonly apiKeys: ApiKeysAPI;
  readonly tokens: TokenNamespace;
  readonly auth: AuthAPI;
  readonly orgs: OrgsAPI;
  readonly usage: UsageAPI;
  readonly billing: BillingAPI;
  readonly metrics: MetricsAPI;
  readonly audit: AuditAPI;
  readonly server: ServerAPI;
  readonly events: EventsAPI;
  readonly functions: FunctionsAPI;
  readonly schedules: SchedulesAPI;
  readonly databases: DatabasesAPI;
  readonly apps: AppsAPI;

  #apiUrl: string;
  #apiKey: string | undefined;
  #later: Promise<void> | undefined;
  readonly #org: string | undefined;
  readonly #fetch: typeof fetch | undefined;

  constructor(config: ClientConfig = {}) {
    const resolved = resolveConfig(config);
    this.#apiUrl = resolved.apiUrl;
    this.#apiKey = resolved.apiKey;
    this.usesCookie = config.session === "cookie";
    this.#org = config.org;
    this.#fetch = config.fetch;
    this.#later = resolved.later?.then((file) => {
      this.#apiKey ??= file.apiKey;
      if (file.apiUrl !== undefined) this.#apiUrl = cleanUrl(file.apiUrl);
      this.#later = undefined;
    });
    this.timeoutMs = resolved.timeoutMs;
    this.maxCreateRetrySeconds = resolved.maxCreateRetrySeconds;
    this.previewHost = config.previewHost ?? environment("PANDASTACK_PREVIEW_HOST");
    this.transport = new Transport(() => this.#config());
    this.sandboxes = new SandboxNamespace(this);
    this.templates = new TemplateNamespace(this);
    this.snapshots = new SnapshotsAPI(this);
    this.volumes = new VolumesAPI(this);
    this.webhooks = new WebhooksAPI(this);
    this.apiKeys = new ApiKeysAPI(this);
    this.tokens = new TokenNamespace(this);
    this.auth = new AuthAPI(this);
    this.orgs = new OrgsAPI(this);
    this.usage = new UsageAPI(this);
    this.billing = new BillingAPI(this);
    this.metrics = new MetricsAPI(this);
    this.audit = new AuditAPI(this);
    this.server = new ServerAPI(this);
    this.events = new EventsAPI(this);
    this.functions = new FunctionsAPI(this);
    this.schedules = new SchedulesAPI(this);
    this.databases = new DatabasesAPI(this);
    this.apps = new AppsAPI(this);
  }

  /** The address of the server, without a slash at the end. */
  get apiUrl(): string {
    return this.#apiUrl;
  }

  /** The same as `apiUrl`. */
  get baseUrl(): string {
    return this.#apiUrl;
  }

  get apiKey(): string | undefined {
    return this.#apiKey;
  }

  /** The same as `sandboxes`. */
  get sandbox(): SandboxNamespace {
    return this.sandboxes;
  }

  /** The host name below which previews are served. */
  get previewSuffix(): string {
    if (this.previewHost) return this.previewHost.replace(/^\.+/, "");
    return new URL(this.#apiUrl).hostname.replace(/^api\./, "");
  }

  /** Who the caller is. */
  async me(options: CallOptions = {}): Promise<MeInfo> {
    return { ...(await this.transport.json(operations.getMe(), options)) };
  }

  /** Sends a request of your own. The path is relative to `/v1`. */
  async request<T>(method: string, path: string, options: RequestOptions = {}): Promise<T> {
    const { query, json, body, headers, signal, timeoutMs, noRetry = false } = options;
    const call = {
      method: method.toUpperCase() as Call["method"],
      path: `/v1/${path.replace(/^\/+/, "")}`,
      ...(query === undefined ? {} : { query }),
      ...(json === undefined ? {} : { json }),
      ...bodyFields(body),
    };
    const send = { signal, timeoutMs, noRetry, headers: withBodyType(headers, body) };
    if (options.parseAs === "none") {
      await this.transport.empty({ kind: "empty", ...call }, send);
      return undefined as T;
    }
    if (options.parseAs === "text") {
      return (await this.transport.text({ kind: "text", ...call }, send)) as T;
    }
    return this.transport.json<T>({ kind: "json", ...call }, send);
  }

  /** Sends a request to a port of a sandbox, through the server. See `sandbox.fetch`. */
  async proxied(
    sandboxId: string,
    port: number,
    path: string,
    init: RequestInit & { timeoutMs?: number | undefined },
  ): Promise<Response> {
    const config = await this.#config();
    const prefix = `/v1/sandboxes/${segment(sandboxId)}/proxy/${segment(port)}`;
    const headers = new Headers(init.headers);
    if (config.apiKey !== undefined) headers.set("authorization", `Bearer ${config.apiKey}`);
    if (config.cookie) headers.set("x-pandastack-csrf", "1");
    const timeoutMs = init.timeoutMs ?? this.timeoutMs;
    const signals = [init.signal, timeoutMs > 0 ? AbortSignal.timeout(timeoutMs) : undefined];
    const signal = AbortSignal.any(signals.filter((one) => one !== null && one !== undefined));
    const send = config.fetch ?? fetch;
    try {
      const address = `${config.apiUrl}${prefix}/${path.replace(/^\/+/, "")}`;
      return await send(address, { redirect: "manual", ...init, headers, signal });
    } catch (cause) {
      if (init.signal?.aborted) throw init.signal.reason;
      const text = `port ${port} of sandbox ${sandboxId} did not answer`;
      throw new NetworkError(text, undefined, undefined, { cause });
    }
  }

  #config(): TransportConfig | Promise<TransportConfig> {
    if (this.#later !== undefined) return this.#later.then(() => this.#config());
    return {
      apiUrl: this.#apiUrl,
      apiKey: this.#apiKey,
      timeoutMs: this.timeoutMs,
      maxCreateRetrySeconds: this.maxCreateRetrySeconds,
      org: this.#org,
      cookie: this.usesCookie,
      fetch: this.#fetch,
    };
  }
}

/** The client, by the name of the product. */
export class PandaStack extends Client {}

/** A form in the body of a request needs its own type. */
function withBodyType(
  headers: FetchHeaders | undefined,
  body: FetchBody | undefined,
): FetchHeaders | undefined {
  if (!(body instanceof URLSearchParams)) return headers;
  const all = new Headers(headers);
  all.set("content-type", "application/x-www-form-urlencoded;charset=UTF-8");
  return all;
}

function bodyFields(body: FetchBody | undefined): Pick<Call, "bytes" | "form"> {
  if (body === undefined) return {};
  if (body instanceof FormData) return { form: body };
  if (body instanceof URLSearchParams) return { bytes: body.toString() };
  if (ArrayBuffer.isView(body)) {
    return { bytes: new Uint8Array(body.buffer, body.byteOffset, body.byteLength) };
  }
  return { bytes: body };
}
