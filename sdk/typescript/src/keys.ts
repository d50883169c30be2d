/** API keys. */

import type { Client } from "./client.js";
import type * as models from "./core/models.js";
import * as operations from "./core/operations.js";
import { defined } from "./defined.js";
import type { CallOptions } from "./transport.js";

/** A token without its secret. */
export interface TokenInfo {
  prefix: string;
  label?: string;
  created_at: string;
}

/** A new token. The secret is shown only here. */
export interface CreatedToken extends TokenInfo {
  token: string;
}

/** Options of a new key. */
export interface KeyOptions extends CallOptions {
  /** What the key is for. */
  label?: string | undefined;
  /** The key expires after this many days. Without it, it never does. */
  expiresInDays?: number | undefined;
}

/** The API keys of the workspace, managed with an API key. */
export class ApiKeysAPI {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  /** The keys, newest first. */
  async list(options: CallOptions = {}): Promise<models.ApiKey[]> {
    return (await this.#client.transport.json(operations.getApiKeys(), options)).items;
  }

  /** Creates a key. Only this answer shows it, as `token`. */
  create(options: KeyOptions = {}): Promise<models.ApiKey> {
    const call = operations.postApiKeys(keyRequest(options));
    return this.#client.transport.json(call, options);
  }

  /** Revokes a key, at once. The key of this client only with `force`. */
  async revoke(
    id: string,
    options: CallOptions & { force?: boolean | undefined } = {},
  ): Promise<void> {
    const call = operations.deleteApiKeysKey(id, defined({ force: options.force }));
    await this.#client.transport.empty(call, options);
  }
}

/** The tokens of the current organisation, managed by a person. */
export class TokenNamespace {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  /** The tokens, newest first. */
  async list(options: CallOptions = {}): Promise<TokenInfo[]> {
    const answer = await this.#client.transport.json(operations.getMeTokens(), options);
    return Array.isArray(answer) ? (answer as TokenInfo[]) : answer.items;
  }

  /** Creates a token. Only this answer shows it. */
  async create(label?: string, options: Omit<KeyOptions, "label"> = {}): Promise<CreatedToken> {
    const call = operations.postMeTokens(keyRequest({ ...options, label }));
    return (await this.#client.transport.json(call, options)) as CreatedToken;
  }

  /** Revokes the tokens with this prefix. */
  async revoke(prefix: string, options: CallOptions = {}): Promise<void> {
    await this.#client.transport.empty(operations.deleteMeTokensPrefix(prefix), options);
  }
}

function keyRequest(options: KeyOptions): models.CreateApiKey {
  return defined({ label: options.label, expires_in_days: options.expiresInDays });
}
