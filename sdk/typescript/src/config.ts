/** Finds the server and the key: options first, then the environment, then the config file. */

import { BadRequestError } from "./errors.js";
import type { NodeFs } from "./runtime.js";
import { environment, hasNodeModules, nodeModule, nodeModuleNow } from "./runtime.js";

/** The server that is used if none is named. */
export const API_URL_DEFAULT = "https://api.pandastack.ai";

const TIMEOUT_MS_DEFAULT = 30_000;
const CREATE_RETRY_SECONDS_DEFAULT = 60;

/** Options of a client. Every one of them can be left out. */
export interface ClientConfig {
  /** Address of the server, also from `PANDASTACK_API`. */
  apiUrl?: string | undefined;
  /** The same as `apiUrl`. */
  baseUrl?: string | undefined;
  /** The API key, also from `PANDASTACK_API_KEY` or `PANDASTACK_TOKEN`. */
  apiKey?: string | undefined;
  /** The same as `apiKey`. */
  token?: string | undefined;
  /** Deadline of a call in milliseconds; 30,000 by default. A call can set its own. */
  timeoutMs?: number | undefined;
  /**
   * How long a refused create or fork, or a request over the rate limit, is tried again, in
   * seconds. 60 by default, also from `PANDASTACK_MAX_CREATE_RETRY_SECONDS`. 0 turns it off.
   */
  maxCreateRetrySeconds?: number | undefined;
  /**
   * `cookie`: the page is served by the server itself, and the browser sends the session. No key
   * is read or sent, and log in answers with a cookie instead of a token.
   */
  session?: "cookie" | undefined;
  /** The organisation to act in, by id. Only for a person's session, not for an API key. */
  org?: string | undefined;
  /** Host name below which previews are served, also from `PANDASTACK_PREVIEW_HOST`. */
  previewHost?: string | undefined;
  /** Used instead of the global `fetch`. */
  fetch?: typeof fetch | undefined;
}

/** The resolved options. */
export interface ResolvedConfig {
  readonly apiUrl: string;
  readonly apiKey: string | undefined;
  readonly timeoutMs: number;
  readonly maxCreateRetrySeconds: number;
  /** Set if the config file could not be read at once: it names the rest. */
  readonly later: Promise<ConfigFile> | undefined;
}

/** What the config file says. */
export interface ConfigFile {
  readonly apiUrl?: string;
  readonly apiKey?: string;
}

/** Resolves the options of a client. */
export function resolveConfig(config: ClientConfig): ResolvedConfig {
  const url = config.apiUrl ?? config.baseUrl ?? environment("PANDASTACK_API");
  if (config.session === "cookie") return cookieConfig(config, url);
  const key =
    config.apiKey ??
    config.token ??
    environment("PANDASTACK_API_KEY") ??
    environment("PANDASTACK_TOKEN");
  const file = key === undefined || key === "" ? readConfigFile() : {};
  const pending = file instanceof Promise;
  return {
    apiUrl: cleanUrl(url ?? (pending ? undefined : file.apiUrl) ?? API_URL_DEFAULT),
    apiKey: (pending ? key : key || file.apiKey) || undefined,
    timeoutMs: config.timeoutMs ?? TIMEOUT_MS_DEFAULT,
    maxCreateRetrySeconds: retrySeconds(config.maxCreateRetrySeconds),
    later: pending
      ? file.then((found) => (url === undefined ? found : withoutUrl(found)))
      : undefined,
  };
}

/** With a cookie there is no key, so neither the environment nor the config file is asked for one. */
function cookieConfig(config: ClientConfig, url: string | undefined): ResolvedConfig {
  if ((config.apiKey ?? config.token) !== undefined) {
    throw new BadRequestError("a client with a session cookie has no key; leave one of them out");
  }
  return {
    apiUrl: cleanUrl(url ?? API_URL_DEFAULT),
    apiKey: undefined,
    timeoutMs: config.timeoutMs ?? TIMEOUT_MS_DEFAULT,
    maxCreateRetrySeconds: retrySeconds(config.maxCreateRetrySeconds),
    later: undefined,
  };
}

/** Removes the end that a base address may have: slashes and `/v1`. */
export function cleanUrl(url: string): string {
  const clean = url.trim().replace(/\/+$/, "").replace(/\/v1$/, "");
  if (!/^https?:\/\/[^/]/.test(clean)) {
    throw new BadRequestError(
      `${JSON.stringify(url)} is not the address of a server; it starts with http:// or https://`,
    );
  }
  return clean;
}

function withoutUrl(file: ConfigFile): ConfigFile {
  return file.apiKey === undefined ? {} : { apiKey: file.apiKey };
}

function retrySeconds(option: number | undefined): number {
  const named = option ?? numberFrom(environment("PANDASTACK_MAX_CREATE_RETRY_SECONDS"));
  if (named === undefined) return CREATE_RETRY_SECONDS_DEFAULT;
  if (!Number.isFinite(named) || named < 0) {
    throw new BadRequestError("maxCreateRetrySeconds is a number of seconds; 0 turns retries off");
  }
  return named;
}

function numberFrom(text: string | undefined): number | undefined {
  const value = Number(text);
  return text === undefined || !Number.isFinite(value) || value < 0 ? undefined : value;
}

/** Reads the config file: at once where the runtime allows it, else later. */
function readConfigFile(): ConfigFile | Promise<ConfigFile> {
  if (!hasNodeModules()) return {};
  const home = environment("HOME") ?? environment("USERPROFILE");
  if (home === undefined) return {};
  const path = `${home}/.config/pandastack/config.json`;
  const fs = nodeModuleNow<NodeFs>("node:fs");
  if (fs !== undefined) return parsed(fs, path);
  return nodeModule<NodeFs>("node:fs", "the config file")
    .then((later) => parsed(later, path))
    .catch(() => ({}));
}

/** A missing or unreadable file says nothing, as for the published clients. */
function parsed(fs: NodeFs, path: string): ConfigFile {
  try {
    const data = JSON.parse(fs.readFileSync(path, "utf8")) as Record<string, unknown>;
    const apiKey = firstText(data, ["token", "apiKey", "api_key"]);
    const apiUrl = firstText(data, ["apiUrl", "api_url"]);
    return {
      ...(apiKey === undefined ? {} : { apiKey }),
      ...(apiUrl === undefined ? {} : { apiUrl }),
    };
  } catch {
    return {};
  }
}

function firstText(data: Record<string, unknown>, names: string[]): string | undefined {
  return names
    .map((name) => data[name])
    .find((value) => typeof value === "string" && value !== "") as string | undefined;
}
