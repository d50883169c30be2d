/** Apps: services that a server builds and runs from Git. Not every server offers them. */

import type { Client } from "./client.js";
import { segment } from "./core/call.js";
import { itemsOf } from "./items.js";
import { lineOf } from "./logs.js";
import type { CallOptions } from "./transport.js";

/** An app. */
export interface AppInfo {
  id: string;
  workspace: string;
  name: string;
  git_url: string;
  git_branch: string;
  framework?: string;
  install_command?: string;
  build_command?: string;
  start_command?: string;
  root_directory?: string;
  port: number;
  env: Record<string, string>;
  template: string;
  cpu: number;
  memory_mb: number;
  sandbox_id?: string;
  active_deployment_id?: string;
  status: string;
  /** The address of the app. It stays the same over deployments. */
  url?: string;
  /** Whether the app is the preview of a pull request. */
  is_preview?: boolean;
  pr_number?: number;
  /** `open` or `closed`. */
  pr_state?: string;
  head_sha?: string;
  repo_full_name?: string;
  preview_url?: string;
  created_at: string;
  updated_at: string;
}

/** A repository whose pull requests get previews. */
export interface PreviewRepo {
  github_repo_id: number;
  repo_full_name: string;
  enabled: boolean;
}

/** An environment variable. The value of a secret is masked. */
export interface EnvVar {
  key: string;
  value?: string;
  secret: boolean;
  scope: "all" | "production" | "preview";
  updated_at?: string;
  created_by?: string;
}

/** A DNS record to make for a domain. */
export interface AppDomainRecord {
  /** `CNAME`, `ALIAS` or `TXT`. */
  type: string;
  name: string;
  value: string;
  /** `routing` or `verification`. */
  purpose: string;
  note?: string;
}

/** A domain of an app. */
export interface AppDomain {
  domain: string;
  app_id: string;
  status: "pending" | "verified" | "active" | "error";
  cert_status?: string;
  dns_note?: string;
  error?: string;
  records: AppDomainRecord[];
  created_at: string;
  updated_at: string;
}

/** A deployment of an app. */
export interface DeploymentInfo {
  id: string;
  app_id: string;
  workspace: string;
  status: string;
  git_commit?: string;
  git_ref?: string;
  sandbox_id?: string;
  build_logs?: string;
  error?: string;
  created_at: string;
  updated_at: string;
  finished_at?: string;
}

/** How an app is built and run. */
export interface AppUpdateOptions {
  git_branch?: string;
  /** `nextjs`, `vite`, `node` or `static`; found out by default. */
  framework?: string;
  install_command?: string;
  build_command?: string;
  start_command?: string;
  root_directory?: string;
  port?: number;
  env?: Record<string, string>;
  template?: string;
  cpu?: number;
  memory_mb?: number;
}

export interface AppCreateOptions extends AppUpdateOptions {
  name: string;
  git_url: string;
}

type Scope = "all" | "production" | "preview";

/** The apps of the workspace. */
export class AppsAPI {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  create(options: AppCreateOptions, call: CallOptions = {}): Promise<AppInfo> {
    return this.#client.request("POST", "/apps", { ...call, json: options });
  }

  async list(options: CallOptions = {}): Promise<AppInfo[]> {
    return itemsOf(await this.#client.request("GET", "/apps", options));
  }

  get(id: string, options: CallOptions = {}): Promise<AppInfo> {
    return this.#client.request("GET", path(id), options);
  }

  /** Changes an app. The next deployment uses it. */
  update(id: string, options: AppUpdateOptions, call: CallOptions = {}): Promise<AppInfo> {
    return this.#client.request("PATCH", path(id), { ...call, json: options });
  }

  async delete(id: string, options: CallOptions = {}): Promise<void> {
    await this.#client.request("DELETE", path(id), { ...options, parseAs: "none" });
  }

  /** Starts a deployment. */
  deploy(
    id: string,
    options: CallOptions & { gitRef?: string | undefined } = {},
  ): Promise<DeploymentInfo> {
    const { gitRef, ...call } = options;
    const json = gitRef ? { git_ref: gitRef } : {};
    return this.#client.request("POST", `${path(id)}/deploys`, { ...call, json });
  }

  /** The deployments, newest first. */
  async deployments(id: string, options: CallOptions = {}): Promise<DeploymentInfo[]> {
    return itemsOf(await this.#client.request("GET", `${path(id)}/deploys`, options));
  }

  /** A deployment with its log. */
  deployment(
    appId: string,
    deploymentId: string,
    options: CallOptions = {},
  ): Promise<DeploymentInfo> {
    return this.#client.request("GET", deployPath(appId, deploymentId), options);
  }

  /** Goes back to the deployment before. */
  rollback(id: string, options: CallOptions = {}): Promise<DeploymentInfo> {
    return this.#client.request("POST", `${path(id)}/rollback`, { ...options, json: {} });
  }

  /** Yields the lines of a deployment's log until it ends. */
  async *deployLogs(
    appId: string,
    deploymentId: string,
    options: CallOptions = {},
  ): AsyncGenerator<string> {
    const call = {
      kind: "events",
      method: "GET",
      path: `/v1${deployPath(appId, deploymentId)}/logs`,
    } as const;
    for await (const event of this.#client.transport.events(call, options)) {
      if (event.event === "done") return;
      const line = lineOf(event);
      if (line !== undefined) yield line;
    }
  }

  /** The apps that are previews of pull requests. */
  async previews(options: CallOptions = {}): Promise<AppInfo[]> {
    return (await this.list(options)).filter((app) => app.is_preview);
  }

  /** The repositories whose pull requests get previews. */
  async previewRepos(options: CallOptions = {}): Promise<PreviewRepo[]> {
    const answer = await this.#client.request<{ repos?: PreviewRepo[] }>(
      "GET",
      "/preview-repos",
      options,
    );
    return answer.repos ?? [];
  }

  /** Turns on previews for the pull requests of a repository. */
  enablePreviewRepo(
    githubRepoId: number,
    options: CallOptions & { repoFullName?: string | undefined } = {},
  ): Promise<{ github_repo_id: number; enabled: boolean }> {
    const { repoFullName = "", ...call } = options;
    const json = { github_repo_id: githubRepoId, repo_full_name: repoFullName };
    return this.#client.request("POST", "/preview-repos", { ...call, json });
  }

  /** Turns them off. Running previews stay. */
  async disablePreviewRepo(githubRepoId: number, options: CallOptions = {}): Promise<void> {
    const target = `/preview-repos/${segment(githubRepoId)}`;
    await this.#client.request("DELETE", target, { ...options, parseAs: "none" });
  }

  /** The environment variables of an app. */
  listEnv(appId: string, options: CallOptions = {}): Promise<EnvVar[]> {
    return this.#env(`${path(appId)}/env`, options);
  }

  /** Sets an environment variable. A secret is never shown again. */
  setEnv(
    appId: string,
    key: string,
    value: string,
    options: CallOptions & { secret?: boolean | undefined; scope?: Scope | undefined } = {},
  ): Promise<{ key: string; secret: boolean; scope: string }> {
    const { secret = false, scope = "all", ...call } = options;
    const json = { value, secret, scope };
    return this.#client.request("PUT", `${path(appId)}/env/${segment(key)}`, { ...call, json });
  }

  async unsetEnv(appId: string, key: string, options: CallOptions = {}): Promise<void> {
    const target = `${path(appId)}/env/${segment(key)}`;
    await this.#client.request("DELETE", target, { ...options, parseAs: "none" });
  }

  /** Sets the environment variables of a text in the format of `.env` files. */
  importEnv(
    appId: string,
    dotenv: string,
    options: CallOptions & { secret?: boolean | undefined; scope?: Scope | undefined } = {},
  ): Promise<{ imported: number; total: number }> {
    const { secret = false, scope = "all", ...call } = options;
    const json = { dotenv, secret, scope };
    return this.#client.request("POST", `${path(appId)}/env/import`, { ...call, json });
  }

  /** Adds a domain. The answer lists the DNS records to make. */
  addDomain(appId: string, domain: string, options: CallOptions = {}): Promise<AppDomain> {
    return this.#client.request("POST", `${path(appId)}/domains`, { ...options, json: { domain } });
  }

  async listDomains(appId: string, options: CallOptions = {}): Promise<AppDomain[]> {
    const answer = await this.#client.request<{ domains?: AppDomain[] }>(
      "GET",
      `${path(appId)}/domains`,
      options,
    );
    return answer.domains ?? [];
  }

  /** A domain. Ask until its status is `active`. */
  getDomain(appId: string, domain: string, options: CallOptions = {}): Promise<AppDomain> {
    return this.#client.request("GET", `${path(appId)}/domains/${segment(domain)}`, options);
  }

  async removeDomain(appId: string, domain: string, options: CallOptions = {}): Promise<void> {
    const target = `${path(appId)}/domains/${segment(domain)}`;
    await this.#client.request("DELETE", target, { ...options, parseAs: "none" });
  }

  /** The environment variables of all previews of a repository. */
  listPreviewEnv(githubRepoId: number, options: CallOptions = {}): Promise<EnvVar[]> {
    return this.#env(repoPath(githubRepoId), options);
  }

  setPreviewEnv(
    githubRepoId: number,
    key: string,
    value: string,
    options: CallOptions & { secret?: boolean | undefined } = {},
  ): Promise<{ key: string; secret: boolean }> {
    const { secret = false, ...call } = options;
    const target = `${repoPath(githubRepoId)}/${segment(key)}`;
    return this.#client.request("PUT", target, { ...call, json: { value, secret } });
  }

  async unsetPreviewEnv(
    githubRepoId: number,
    key: string,
    options: CallOptions = {},
  ): Promise<void> {
    const target = `${repoPath(githubRepoId)}/${segment(key)}`;
    await this.#client.request("DELETE", target, { ...options, parseAs: "none" });
  }

  importPreviewEnv(
    githubRepoId: number,
    dotenv: string,
    options: CallOptions & { secret?: boolean | undefined } = {},
  ): Promise<{ imported: number; total: number }> {
    const { secret = false, ...call } = options;
    const target = `${repoPath(githubRepoId)}/import`;
    return this.#client.request("POST", target, { ...call, json: { dotenv, secret } });
  }

  async #env(target: string, options: CallOptions): Promise<EnvVar[]> {
    const answer = await this.#client.request<{ env?: EnvVar[] }>("GET", target, options);
    return answer.env ?? [];
  }
}

function path(id: string): string {
  return `/apps/${segment(id)}`;
}

function deployPath(appId: string, deploymentId: string): string {
  return `${path(appId)}/deploys/${segment(deploymentId)}`;
}

function repoPath(githubRepoId: number): string {
  return `/repos/${segment(githubRepoId)}/preview-env`;
}
