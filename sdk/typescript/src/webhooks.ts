/** Webhooks: events that the server sends to an address of yours. */

import type { Client } from "./client.js";
import type * as models from "./core/models.js";
import * as operations from "./core/operations.js";
import { defined } from "./defined.js";
import { WebhookSignatureError } from "./errors.js";
import type { CallOptions } from "./transport.js";

/** Fields of a webhook that can be set. */
export interface WebhookOptions extends CallOptions {
  url?: string | undefined;
  /** Kinds of events, prefixes such as `sandbox.*`, or `*`. */
  events?: string[] | undefined;
  description?: string | undefined;
  enabled?: boolean | undefined;
}

/** An event as it is delivered. */
export interface WebhookEvent extends models.Event {
  id: string;
  sequence: number;
  workspace: string;
}

/** The webhooks of the workspace. */
export class WebhooksAPI {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  /** The webhooks, newest first. */
  list(options: CallOptions = {}): Promise<models.Webhook[]> {
    return this.#client.transport.json(operations.getWebhooks(), options);
  }

  /** Creates a webhook. Only this answer and `rotateSecret` show its secret. */
  create(options: WebhookOptions & { url: string; events: string[] }): Promise<models.Webhook> {
    const { url, events, description, enabled } = options;
    const body = { url, events, ...defined({ description, enabled }) };
    return this.#client.transport.json(operations.postWebhooks(body), options);
  }

  /** A webhook by its id. */
  get(id: string, options: CallOptions = {}): Promise<models.Webhook> {
    return this.#client.transport.json(operations.getWebhooksWebhook(id), options);
  }

  /** Changes the given fields. */
  update(id: string, options: WebhookOptions): Promise<models.Webhook> {
    const { url, events, description, enabled } = options;
    const body = defined({ url, events, description, enabled });
    return this.#client.transport.json(operations.patchWebhooksWebhook(id, body), options);
  }

  /** Deletes a webhook and its deliveries. */
  async delete(id: string, options: CallOptions = {}): Promise<void> {
    await this.#client.transport.empty(operations.deleteWebhooksWebhook(id), options);
  }

  /** Sends a test event and tells what the receiver answered. */
  ping(id: string, options: CallOptions = {}): Promise<models.Ping> {
    return this.#client.transport.json(operations.postWebhooksWebhookPing(id), options);
  }

  /** Makes a new secret. The old one also signs for `graceSeconds`, a day by default. */
  rotateSecret(
    id: string,
    options: CallOptions & { graceSeconds?: number | undefined } = {},
  ): Promise<models.Webhook> {
    const body = defined({ grace_seconds: options.graceSeconds });
    const call = operations.postWebhooksWebhookRotateSecret(id, body);
    return this.#client.transport.json(call, options);
  }

  /** The deliveries of a webhook, newest first. */
  deliveries(
    id: string,
    options: CallOptions & {
      status?: "pending" | "failed" | "delivered" | "dead" | undefined;
      limit?: number | undefined;
    } = {},
  ): Promise<models.Delivery[]> {
    const query = defined({ status: options.status, limit: options.limit });
    const call = operations.getWebhooksWebhookDeliveries(id, query);
    return this.#client.transport.json(call, options);
  }

  /** A delivery with its attempts. */
  delivery(id: string, options: CallOptions = {}): Promise<models.Delivery> {
    return this.#client.transport.json(operations.getWebhooksDeliveriesDelivery(id), options);
  }

  /** Delivers once more, whatever the earlier result was. */
  replay(deliveryId: string, options: CallOptions = {}): Promise<models.Delivery> {
    const call = operations.postWebhooksDeliveriesDeliveryReplay(deliveryId);
    return this.#client.transport.json(call, options);
  }

  /** Deliveries of all webhooks that were given up. */
  deadLetters(
    options: CallOptions & { limit?: number | undefined } = {},
  ): Promise<models.Delivery[]> {
    const call = operations.getWebhooksDeadLetters(defined({ limit: options.limit }));
    return this.#client.transport.json(call, options);
  }
}

const TOLERANCE_SECONDS = 300;

/** Headers of a delivery: of a web request, or an object such as Node's. */
export type WebhookHeaders = Headers | Record<string, string | string[] | undefined>;

/**
 * Checks the signature of a delivery and returns its event. `body` must be the raw body, as it came.
 *
 * ```ts
 * const event = await verifyWebhook(secret, request.headers, await request.text());
 * ```
 */
export async function verifyWebhook(
  secret: string,
  headers: WebhookHeaders,
  body: string | Uint8Array,
  options: { toleranceSeconds?: number | undefined; now?: Date | undefined } = {},
): Promise<WebhookEvent> {
  const id = header(headers, "webhook-id");
  const timestamp = header(headers, "webhook-timestamp");
  const signatures = header(headers, "webhook-signature");
  const now = (options.now ?? new Date()).getTime() / 1000;
  const age = Math.abs(now - Number(timestamp));
  if (!/^\d+$/.test(timestamp) || age > (options.toleranceSeconds ?? TOLERANCE_SECONDS)) {
    throw new WebhookSignatureError("the delivery is too old, or its clock is wrong");
  }
  const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
  const head = new TextEncoder().encode(`${id}.${timestamp}.`);
  const signed = new Uint8Array(head.byteLength + bytes.byteLength);
  signed.set(head);
  signed.set(bytes, head.byteLength);
  const key = await crypto.subtle.importKey(
    "raw",
    decodeBase64(secret.replace(/^whsec_/, "")),
    { name: "HMAC", hash: "SHA-256" },
    false,
    ["verify"],
  );
  for (const signature of signatures.split(" ")) {
    const [version, text = ""] = signature.split(",");
    if (version !== "v1") continue;
    // The comparison in `verify` takes the same time for every signature.
    if (await crypto.subtle.verify("HMAC", key, decodeBase64(text), signed)) {
      return JSON.parse(new TextDecoder().decode(bytes)) as WebhookEvent;
    }
  }
  throw new WebhookSignatureError("the delivery is not signed with this secret");
}

function header(headers: WebhookHeaders, name: string): string {
  const value =
    headers instanceof Headers
      ? headers.get(name)
      : Object.entries(headers).find(([key]) => key.toLowerCase() === name)?.[1];
  if (typeof value !== "string" || value === "") {
    throw new WebhookSignatureError(`the delivery has no header ${name}`);
  }
  return value;
}

function decodeBase64(text: string): Uint8Array<ArrayBuffer> {
  try {
    return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  } catch {
    throw new WebhookSignatureError("the secret or the signature is not base64");
  }
}
