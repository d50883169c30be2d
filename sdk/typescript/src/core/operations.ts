// Written by `cargo xtask sdk` from docs/openapi.json. Do not edit.

/** A function for each operation of the API. It describes the request; a transport sends it. */

import type {
  BytesCall,
  EmptyCall,
  EventsCall,
  JsonCall,
  RequestBytes,
  SocketCall,
  TextCall,
} from "./call.js";
import { segment } from "./call.js";
import type * as models from "./models.js";

/** Report whether the server is healthy. */
export function getRootHealthz(): JsonCall<models.Health> {
  return { kind: "json", method: "GET", path: "/healthz" };
}

/** The workspace as tools for agents (same as `/v1/mcp`). */
export function postRootMcp(body: Record<string, unknown>): JsonCall<Record<string, unknown>> {
  return { kind: "json", method: "POST", path: "/mcp", json: body };
}

/** Metrics of the server, for Prometheus. */
export function getRootMetrics(): TextCall {
  return { kind: "text", method: "GET", path: "/metrics" };
}

/** List the languages of code sessions (same as `/v1/repl/languages`). */
export function getRootReplLanguages(): JsonCall<string[]> {
  return { kind: "json", method: "GET", path: "/repl/languages" };
}

/** List the API keys of the workspace, newest first. */
export function getApiKeys(): JsonCall<models.ApiKeys> {
  return { kind: "json", method: "GET", path: "/v1/api-keys" };
}

/** Create an API key; the only answer that shows it. */
export function postApiKeys(body?: models.CreateApiKey): JsonCall<models.ApiKey> {
  return { kind: "json", method: "POST", path: "/v1/api-keys", json: body };
}

/** Revoke an API key, at once. */
export function deleteApiKeysKey(key: string, query: { force?: boolean } = {}): EmptyCall {
  return { kind: "empty", method: "DELETE", path: `/v1/api-keys/${segment(key)}`, query };
}

/** List the audit entries of the workspace. */
export function getAudit(
  query: { since?: string; limit?: number; until?: string; actor?: string; method?: string } = {},
): JsonCall<models.AuditTrail> {
  return { kind: "json", method: "GET", path: "/v1/audit", query };
}

/** Export all audit entries of the workspace, oldest first. */
export function getAuditExport(query: { after?: number } = {}): TextCall {
  return { kind: "text", method: "GET", path: "/v1/audit/export", query };
}

/** Show how people can log in. */
export function getAuth(): JsonCall<models.LoginMethods> {
  return { kind: "json", method: "GET", path: "/v1/auth" };
}

/** Log in with a one-time link. */
export function postAuthLink(body: models.UseLink): JsonCall<models.LoggedIn> {
  return { kind: "json", method: "POST", path: "/v1/auth/link", json: body };
}

/** Make a link that logs the caller in once, for a browser. */
export function postAuthLinks(): JsonCall<models.SignInLink> {
  return { kind: "json", method: "POST", path: "/v1/auth/links" };
}

/** Log in with a password. */
export function postAuthLogin(body: models.LogIn): JsonCall<models.LoggedIn> {
  return { kind: "json", method: "POST", path: "/v1/auth/login", json: body };
}

/** End the session of this request. */
export function postAuthLogout(): EmptyCall {
  return { kind: "empty", method: "POST", path: "/v1/auth/logout" };
}

/** Exchange the code of a login for a session. */
export function postAuthOidcToken(body: models.ExchangeCode): JsonCall<models.LoggedIn> {
  return { kind: "json", method: "POST", path: "/v1/auth/oidc/token", json: body };
}

/** Change the caller's password. */
export function postAuthPassword(body: models.ChangePassword): JsonCall<models.LoggedIn> {
  return { kind: "json", method: "POST", path: "/v1/auth/password", json: body };
}

/** Make an account with an invite, and accept the invite. */
export function postAuthRegister(body: models.Register): JsonCall<models.LoggedIn> {
  return { kind: "json", method: "POST", path: "/v1/auth/register", json: body };
}

/** Set a new password with a reset link. */
export function postAuthReset(body: models.ResetPassword): EmptyCall {
  return { kind: "empty", method: "POST", path: "/v1/auth/reset", json: body };
}

/** Ask for a link to reset a password, by e-mail. */
export function postAuthResetRequest(body: models.AskReset): EmptyCall {
  return { kind: "empty", method: "POST", path: "/v1/auth/reset-request", json: body };
}

/** List the caller's sessions, newest first. */
export function getAuthSessions(): JsonCall<models.LoginSession[]> {
  return { kind: "json", method: "GET", path: "/v1/auth/sessions" };
}

/** End a session of the caller. */
export function deleteAuthSessionsSession(session: string): EmptyCall {
  return { kind: "empty", method: "DELETE", path: `/v1/auth/sessions/${segment(session)}` };
}

/** Make the first account, which administers the server. */
export function postAuthSetup(body: models.SetUp): JsonCall<models.LoggedIn> {
  return { kind: "json", method: "POST", path: "/v1/auth/setup", json: body };
}

/** Show what the workspace used and costs in this month. */
export function getBilling(): JsonCall<models.Bill> {
  return { kind: "json", method: "GET", path: "/v1/billing" };
}

/** Post the usage of the workspace to Stripe now. */
export function postBillingSync(): JsonCall<models.MeterFlush> {
  return { kind: "json", method: "POST", path: "/v1/billing/sync" };
}

/** List databases without credentials, newest first. */
export function getDatabases(): JsonCall<models.ManagedDatabaseList> {
  return { kind: "json", method: "GET", path: "/v1/databases" };
}

/** Create a PostgreSQL database; returns at once. */
export function postDatabases(body?: models.CreateDatabase): JsonCall<models.ManagedDatabase> {
  return { kind: "json", method: "POST", path: "/v1/databases", json: body };
}

/** Delete a database with its data. */
export function deleteDatabasesId(id: string): EmptyCall {
  return { kind: "empty", method: "DELETE", path: `/v1/databases/${segment(id)}` };
}

/** Show a database; does not wake it. */
export function getDatabasesId(id: string): JsonCall<models.ManagedDatabase> {
  return { kind: "json", method: "GET", path: `/v1/databases/${segment(id)}` };
}

/** Change whether a database sleeps when idle. */
export function patchDatabasesId(
  id: string,
  body?: models.ChangeDatabase,
): JsonCall<models.ManagedDatabase> {
  return { kind: "json", method: "PATCH", path: `/v1/databases/${segment(id)}`, json: body };
}

/** Show backups, the restore window and the archive's state. */
export function getDatabasesIdBackups(id: string): JsonCall<models.DatabaseBackups> {
  return { kind: "json", method: "GET", path: `/v1/databases/${segment(id)}/backups` };
}

/** Take a base backup now. */
export function postDatabasesIdBackups(id: string): JsonCall<models.DatabaseBackup> {
  return { kind: "json", method: "POST", path: `/v1/databases/${segment(id)}/backups` };
}

/** Branch a database as it is now. */
export function postDatabasesIdBranches(
  id: string,
  body?: models.BranchDatabase,
): JsonCall<models.ManagedDatabase> {
  return {
    kind: "json",
    method: "POST",
    path: `/v1/databases/${segment(id)}/branches`,
    json: body,
  };
}

/** Clone a database as it was at a time. */
export function postDatabasesIdClone(
  id: string,
  body?: models.CloneDatabase,
): JsonCall<models.ManagedDatabase> {
  return { kind: "json", method: "POST", path: `/v1/databases/${segment(id)}/clone`, json: body };
}

/** Show how to connect. */
export function getDatabasesIdConnection(id: string): JsonCall<models.DatabaseConnection> {
  return { kind: "json", method: "GET", path: `/v1/databases/${segment(id)}/connection` };
}

/** Compare the schemas of two databases. */
export function getDatabasesIdDiff(
  id: string,
  query: { to?: string } = {},
): JsonCall<models.SchemaDiff> {
  return { kind: "json", method: "GET", path: `/v1/databases/${segment(id)}/diff`, query };
}

/** Rebuild a failed database from its archive. */
export function postDatabasesIdFailover(id: string): JsonCall<models.ManagedDatabase> {
  return { kind: "json", method: "POST", path: `/v1/databases/${segment(id)}/failover` };
}

/** Show the last lines of a running database's log. */
export function getDatabasesIdLogs(
  id: string,
  query: { lines?: number } = {},
): JsonCall<models.DatabaseLogs> {
  return { kind: "json", method: "GET", path: `/v1/databases/${segment(id)}/logs`, query };
}

/** Reset a branch to what its parent is now. */
export function postDatabasesIdReset(id: string): JsonCall<models.ManagedDatabase> {
  return { kind: "json", method: "POST", path: `/v1/databases/${segment(id)}/reset` };
}

/** Replace password and broker token. */
export function postDatabasesIdResetCredentials(id: string): JsonCall<models.ManagedDatabase> {
  return { kind: "json", method: "POST", path: `/v1/databases/${segment(id)}/reset-credentials` };
}

/** Restart a database on the newest version of its template. */
export function postDatabasesIdRestart(id: string): JsonCall<models.ManagedDatabase> {
  return { kind: "json", method: "POST", path: `/v1/databases/${segment(id)}/restart` };
}

/** Measure a running database. */
export function getDatabasesIdStats(id: string): JsonCall<models.DatabaseStats> {
  return { kind: "json", method: "GET", path: `/v1/databases/${segment(id)}/stats` };
}

/** Restore into a scratch machine and check the data. */
export function postDatabasesIdVerifyBackup(
  id: string,
  body?: models.VerifyBackup,
): JsonCall<models.BackupDrill> {
  return {
    kind: "json",
    method: "POST",
    path: `/v1/databases/${segment(id)}/verify-backup`,
    json: body,
  };
}

/** Wake a database. */
export function postDatabasesIdWake(id: string): JsonCall<models.DatabaseWake> {
  return { kind: "json", method: "POST", path: `/v1/databases/${segment(id)}/wake` };
}

/** List recent events of the workspace, or follow them. */
export function getEvents(
  query: { limit?: number; since?: string; kind?: "sandbox" | "database" | "all"; follow?: boolean } = {},
): JsonCall<models.WorkspaceEvents> {
  return { kind: "json", method: "GET", path: "/v1/events", query };
}

/** List recent events of the workspace, or follow them. */
export function getEventsStream(
  query: { limit?: number; since?: string; kind?: "sandbox" | "database" | "all"; follow?: boolean } = {},
): EventsCall {
  return { kind: "events", method: "GET", path: "/v1/events", query };
}

/** Report whether the server is healthy (same as `/healthz`). */
export function getHealthz(): JsonCall<models.Health> {
  return { kind: "json", method: "GET", path: "/v1/healthz" };
}

/** Compare what exists on the host with what should exist. */
export function getHostAudit(): JsonCall<models.Audit> {
  return { kind: "json", method: "GET", path: "/v1/host/audit" };
}

/** The workspace as tools for agents (Model Context Protocol). */
export function postMcp(body: Record<string, unknown>): JsonCall<Record<string, unknown>> {
  return { kind: "json", method: "POST", path: "/v1/mcp", json: body };
}

/** Show the caller. */
export function getMe(): JsonCall<models.Me> {
  return { kind: "json", method: "GET", path: "/v1/me" };
}

/** Choose the organisation that later requests act in. */
export function postMeCurrentOrg(body: models.CurrentOrgRequest): JsonCall<models.CurrentOrg> {
  return { kind: "json", method: "POST", path: "/v1/me/current-org", json: body };
}

/** List the API keys of the current organisation, newest first. */
export function getMeTokens(): JsonCall<models.ApiKeys> {
  return { kind: "json", method: "GET", path: "/v1/me/tokens" };
}

/** Create an API key of the current organisation. */
export function postMeTokens(body?: models.CreateApiKey): JsonCall<models.ApiKey> {
  return { kind: "json", method: "POST", path: "/v1/me/tokens", json: body };
}

/** Revoke the API keys with this prefix. */
export function deleteMeTokensPrefix(prefix: string): EmptyCall {
  return { kind: "empty", method: "DELETE", path: `/v1/me/tokens/${segment(prefix)}` };
}

/** Metrics of the server, for Prometheus (same as `/metrics`). */
export function getMetrics(): TextCall {
  return { kind: "text", method: "GET", path: "/v1/metrics" };
}

/** Usage of all sandboxes of the workspace over time. */
export function getMetricsOverview(
  query: { from?: string; to?: string; range?: string; step?: "15s" | "1m" | "5m" | "1h" } = {},
): JsonCall<models.MetricSeries> {
  return { kind: "json", method: "GET", path: "/v1/metrics/overview", query };
}

/** Usage of one sandbox over time. */
export function getMetricsSandboxId(
  id: string,
  query: { from?: string; to?: string; range?: string; step?: "15s" | "1m" | "5m" | "1h" } = {},
): JsonCall<models.MetricSeries> {
  return { kind: "json", method: "GET", path: `/v1/metrics/sandbox/${segment(id)}`, query };
}

/** List the caller's organisations, oldest membership first. */
export function getOrgs(): JsonCall<models.Org[]> {
  return { kind: "json", method: "GET", path: "/v1/orgs" };
}

/** Create an organisation. */
export function postOrgs(body: models.CreateOrg): JsonCall<models.Org> {
  return { kind: "json", method: "POST", path: "/v1/orgs", json: body };
}

/** Show an invite to the person who has its link. */
export function getOrgsInvitesToken(token: string): JsonCall<models.InviteInfo> {
  return { kind: "json", method: "GET", path: `/v1/orgs/invites/${segment(token)}` };
}

/** Accept an invite. */
export function postOrgsInvitesTokenAccept(token: string): JsonCall<models.AcceptedInvite> {
  return { kind: "json", method: "POST", path: `/v1/orgs/invites/${segment(token)}/accept` };
}

/** Delete an organisation with everything that it owns. */
export function deleteOrgsOrg(org: string, query: { confirm?: string } = {}): EmptyCall {
  return { kind: "empty", method: "DELETE", path: `/v1/orgs/${segment(org)}`, query };
}

/** Show an organisation. */
export function getOrgsOrg(org: string): JsonCall<models.Org> {
  return { kind: "json", method: "GET", path: `/v1/orgs/${segment(org)}` };
}

/** Rename an organisation; its slug stays. */
export function patchOrgsOrg(org: string, body: models.RenameOrg): JsonCall<models.Org> {
  return { kind: "json", method: "PATCH", path: `/v1/orgs/${segment(org)}`, json: body };
}

/** Show what an organisation used and costs in this month. */
export function getOrgsOrgBilling(org: string): JsonCall<models.Bill> {
  return { kind: "json", method: "GET", path: `/v1/orgs/${segment(org)}/billing` };
}

/** Make a page at Stripe to buy a plan. */
export function postOrgsOrgBillingCheckout(
  org: string,
  body: models.BuyPlan,
): JsonCall<models.BillingPage> {
  return {
    kind: "json",
    method: "POST",
    path: `/v1/orgs/${segment(org)}/billing/checkout`,
    json: body,
  };
}

/** Make a page at Stripe to manage the subscription. */
export function postOrgsOrgBillingPortal(org: string): JsonCall<models.BillingPage> {
  return { kind: "json", method: "POST", path: `/v1/orgs/${segment(org)}/billing/portal` };
}

/** Remove the budget of an organisation. */
export function deleteOrgsOrgBudget(org: string): EmptyCall {
  return { kind: "empty", method: "DELETE", path: `/v1/orgs/${segment(org)}/budget` };
}

/** Limit what an organisation may cost in a month. */
export function putOrgsOrgBudget(
  org: string,
  body: models.WorkspaceBudgetRequest,
): JsonCall<models.WorkspaceBudget> {
  return { kind: "json", method: "PUT", path: `/v1/orgs/${segment(org)}/budget`, json: body };
}

/** List the open invites of an organisation, newest first. */
export function getOrgsOrgInvites(org: string): JsonCall<models.OrgInvite[]> {
  return { kind: "json", method: "GET", path: `/v1/orgs/${segment(org)}/invites` };
}

/** Withdraw an invite. */
export function deleteOrgsOrgInvitesInvite(org: string, invite: string): EmptyCall {
  return {
    kind: "empty",
    method: "DELETE",
    path: `/v1/orgs/${segment(org)}/invites/${segment(invite)}`,
  };
}

/** Leave an organisation. */
export function postOrgsOrgLeave(org: string): EmptyCall {
  return { kind: "empty", method: "POST", path: `/v1/orgs/${segment(org)}/leave` };
}

/** List the members of an organisation. */
export function getOrgsOrgMembers(org: string): JsonCall<models.OrgMember[]> {
  return { kind: "json", method: "GET", path: `/v1/orgs/${segment(org)}/members` };
}

/** Invite somebody to an organisation. */
export function postOrgsOrgMembers(
  org: string,
  body: models.CreateInvite,
): JsonCall<models.OrgInvite> {
  return { kind: "json", method: "POST", path: `/v1/orgs/${segment(org)}/members`, json: body };
}

/** Remove a member. */
export function deleteOrgsOrgMembersUser(org: string, user: string): EmptyCall {
  return {
    kind: "empty",
    method: "DELETE",
    path: `/v1/orgs/${segment(org)}/members/${segment(user)}`,
  };
}

/** Change the role of a member. */
export function patchOrgsOrgMembersUser(
  org: string,
  user: string,
  body: models.ChangeMember,
): EmptyCall {
  return {
    kind: "empty",
    method: "PATCH",
    path: `/v1/orgs/${segment(org)}/members/${segment(user)}`,
    json: body,
  };
}

/** Make another member the owner, and the caller an admin. */
export function postOrgsOrgTransfer(org: string, body: models.TransferOrg): EmptyCall {
  return { kind: "empty", method: "POST", path: `/v1/orgs/${segment(org)}/transfer`, json: body };
}

/** Usage of an organisation, split in the same ways. */
export function getOrgsOrgUsage(
  org: string,
  query: { by?: "day" | "template" | "sandbox" | "member"; from?: string; to?: string } = {},
): JsonCall<models.UsageReport> {
  return { kind: "json", method: "GET", path: `/v1/orgs/${segment(org)}/usage`, query };
}

/** Usage of an organisation as a table in CSV. */
export function getOrgsOrgUsageExport(
  org: string,
  query: { by?: "day" | "template" | "sandbox" | "member"; from?: string; to?: string } = {},
): TextCall {
  return { kind: "text", method: "GET", path: `/v1/orgs/${segment(org)}/usage/export`, query };
}

/** Show the prices and the plans. */
export function getPricing(): JsonCall<models.Pricing> {
  return { kind: "json", method: "GET", path: "/v1/pricing" };
}

/** Show the limits of the workspace, and what it uses. */
export function getQuotas(): JsonCall<models.Quotas> {
  return { kind: "json", method: "GET", path: "/v1/quotas" };
}

/** List the languages of code sessions. */
export function getReplLanguages(): JsonCall<string[]> {
  return { kind: "json", method: "GET", path: "/v1/repl/languages" };
}

/** List sandboxes, newest first. */
export function getSandboxes(
  query: { limit?: number; after?: string; kind?: "sandbox" | "database" | "all" } = {},
): JsonCall<models.Sandbox[]> {
  return { kind: "json", method: "GET", path: "/v1/sandboxes", query };
}

/** Create a sandbox; returns when it is ready. */
export function postSandboxes(body: models.CreateSandbox): JsonCall<models.Sandbox> {
  return { kind: "json", method: "POST", path: "/v1/sandboxes", json: body };
}

/** Delete a sandbox. */
export function deleteSandboxesId(id: string): EmptyCall {
  return { kind: "empty", method: "DELETE", path: `/v1/sandboxes/${segment(id)}` };
}

/** Show a sandbox. */
export function getSandboxesId(id: string): JsonCall<models.Sandbox> {
  return { kind: "json", method: "GET", path: `/v1/sandboxes/${segment(id)}` };
}

/** Compare the files and processes of two sandboxes. */
export function getSandboxesIdDiff(
  id: string,
  query: { with: string; path?: string },
): JsonCall<models.BranchDiff> {
  return { kind: "json", method: "GET", path: `/v1/sandboxes/${segment(id)}/diff`, query };
}

/** Show the egress rules of a sandbox. */
export function getSandboxesIdEgress(id: string): JsonCall<models.EgressList> {
  return { kind: "json", method: "GET", path: `/v1/sandboxes/${segment(id)}/egress` };
}

/** Replace the egress rules of a sandbox, at once. */
export function putSandboxesIdEgress(
  id: string,
  body: models.SetEgress,
): JsonCall<models.EgressList> {
  return { kind: "json", method: "PUT", path: `/v1/sandboxes/${segment(id)}/egress`, json: body };
}

/** List recent events of a sandbox, or follow them. */
export function getSandboxesIdEvents(
  id: string,
  query: { tail?: number; since?: string; follow?: boolean } = {},
): JsonCall<models.EventList> {
  return { kind: "json", method: "GET", path: `/v1/sandboxes/${segment(id)}/events`, query };
}

/** List recent events of a sandbox, or follow them. */
export function getSandboxesIdEventsStream(
  id: string,
  query: { tail?: number; since?: string; follow?: boolean } = {},
): EventsCall {
  return { kind: "events", method: "GET", path: `/v1/sandboxes/${segment(id)}/events`, query };
}

/** Run a command and return its output. */
export function postSandboxesIdExec(
  id: string,
  body: models.ExecRequest,
): JsonCall<models.ExecResponse> {
  return { kind: "json", method: "POST", path: `/v1/sandboxes/${segment(id)}/exec`, json: body };
}

/** WebSocket with a terminal. */
export function getSandboxesIdExecPty(
  id: string,
  query: { rows?: number; cols?: number; cmd?: string } = {},
): SocketCall {
  return { kind: "socket", method: "GET", path: `/v1/sandboxes/${segment(id)}/exec/pty`, query };
}

/** Run a command and stream its output. */
export function postSandboxesIdExecStream(id: string, body: models.ExecRequest): EventsCall {
  return {
    kind: "events",
    method: "POST",
    path: `/v1/sandboxes/${segment(id)}/exec/stream`,
    json: body,
  };
}

/** WebSocket that runs many commands at once. */
export function getSandboxesIdExecWs(id: string): SocketCall {
  return { kind: "socket", method: "GET", path: `/v1/sandboxes/${segment(id)}/exec/ws` };
}

/** Create a running copy of a sandbox. */
export function postSandboxesIdFork(id: string, body?: models.ForkRequest): JsonCall<models.Fork> {
  return { kind: "json", method: "POST", path: `/v1/sandboxes/${segment(id)}/fork`, json: body };
}

/** Create several copies as one tree. */
export function postSandboxesIdForkTree(
  id: string,
  body?: models.ForkRequest,
): JsonCall<models.ForkTree> {
  return {
    kind: "json",
    method: "POST",
    path: `/v1/sandboxes/${segment(id)}/fork-tree`,
    json: body,
  };
}

/** Delete a path and everything below it. */
export function deleteSandboxesIdFs(id: string, query: { path: string }): EmptyCall {
  return { kind: "empty", method: "DELETE", path: `/v1/sandboxes/${segment(id)}/fs`, query };
}

/** Read a file. */
export function getSandboxesIdFs(id: string, query: { path: string }): BytesCall {
  return { kind: "bytes", method: "GET", path: `/v1/sandboxes/${segment(id)}/fs`, query };
}

/** Write a file atomically. */
export function putSandboxesIdFs(
  id: string,
  body: RequestBytes,
  query: { path: string; mode?: string },
): JsonCall<models.Written> {
  return {
    kind: "json",
    method: "PUT",
    path: `/v1/sandboxes/${segment(id)}/fs`,
    bytes: body,
    query,
  };
}

/** Set permission bits. */
export function postSandboxesIdFsChmod(id: string, body: models.Chmod): JsonCall<models.Changed> {
  return {
    kind: "json",
    method: "POST",
    path: `/v1/sandboxes/${segment(id)}/fs/chmod`,
    json: body,
  };
}

/** List a directory. */
export function getSandboxesIdFsDir(
  id: string,
  query: { path?: string; recursive?: boolean; depth?: number } = {},
): JsonCall<models.DirListing> {
  return { kind: "json", method: "GET", path: `/v1/sandboxes/${segment(id)}/fs/dir`, query };
}

/** Create a directory. */
export function postSandboxesIdFsMkdir(id: string, body: models.MakeDir): JsonCall<models.Changed> {
  return {
    kind: "json",
    method: "POST",
    path: `/v1/sandboxes/${segment(id)}/fs/mkdir`,
    json: body,
  };
}

/** Move a path. */
export function postSandboxesIdFsMove(id: string, body: models.MovePath): JsonCall<models.Changed> {
  return { kind: "json", method: "POST", path: `/v1/sandboxes/${segment(id)}/fs/move`, json: body };
}

/** Show the metadata of a path. */
export function getSandboxesIdFsStat(id: string, query: { path: string }): JsonCall<models.Entry> {
  return { kind: "json", method: "GET", path: `/v1/sandboxes/${segment(id)}/fs/stat`, query };
}

/** Download a directory as a tar archive. */
export function getSandboxesIdFsTar(id: string, query: { path: string }): BytesCall {
  return { kind: "bytes", method: "GET", path: `/v1/sandboxes/${segment(id)}/fs/tar`, query };
}

/** Unpack a tar archive into a directory. */
export function putSandboxesIdFsTar(
  id: string,
  body: RequestBytes,
  query: { path: string },
): JsonCall<models.Unpacked> {
  return {
    kind: "json",
    method: "PUT",
    path: `/v1/sandboxes/${segment(id)}/fs/tar`,
    bytes: body,
    query,
  };
}

/** Stream the changes below a path. */
export function getSandboxesIdFsWatch(
  id: string,
  query: { path: string; recursive?: boolean },
): EventsCall {
  return { kind: "events", method: "GET", path: `/v1/sandboxes/${segment(id)}/fs/watch`, query };
}

/** Hibernate a sandbox: memory and disk are saved, the machine ends. */
export function postSandboxesIdHibernate(id: string): JsonCall<models.Status> {
  return { kind: "json", method: "POST", path: `/v1/sandboxes/${segment(id)}/hibernate` };
}

/** Show the idle limit and the idle time of a sandbox. */
export function getSandboxesIdLifecycle(id: string): JsonCall<models.Lifecycle> {
  return { kind: "json", method: "GET", path: `/v1/sandboxes/${segment(id)}/lifecycle` };
}

/** Change the idle limit of a sandbox. */
export function patchSandboxesIdLifecycle(
  id: string,
  body?: models.SetLifecycle,
): JsonCall<models.Lifecycle> {
  return {
    kind: "json",
    method: "PATCH",
    path: `/v1/sandboxes/${segment(id)}/lifecycle`,
    json: body,
  };
}

/** Show the console of a sandbox, or follow it. */
export function getSandboxesIdLogsStream(
  id: string,
  query: { follow?: boolean; stream?: string; tail?: number } = {},
): EventsCall {
  return { kind: "events", method: "GET", path: `/v1/sandboxes/${segment(id)}/logs`, query };
}

/** Show the console of a sandbox, or follow it. */
export function getSandboxesIdLogs(
  id: string,
  query: { follow?: boolean; stream?: string; tail?: number } = {},
): TextCall {
  return { kind: "text", method: "GET", path: `/v1/sandboxes/${segment(id)}/logs`, query };
}

/** The sandbox as tools for agents (Model Context Protocol). */
export function postSandboxesIdMcp(id: string, body: unknown): JsonCall<unknown> {
  return { kind: "json", method: "POST", path: `/v1/sandboxes/${segment(id)}/mcp`, json: body };
}

/** Current usage of a sandbox. */
export function getSandboxesIdMetrics(id: string): JsonCall<models.MachineMetrics> {
  return { kind: "json", method: "GET", path: `/v1/sandboxes/${segment(id)}/metrics` };
}

/** Pause a sandbox: its CPUs stop, its memory stays. */
export function postSandboxesIdPause(id: string): EmptyCall {
  return { kind: "empty", method: "POST", path: `/v1/sandboxes/${segment(id)}/pause` };
}

/** List listening and declared ports. */
export function getSandboxesIdPorts(id: string): JsonCall<models.Port[]> {
  return { kind: "json", method: "GET", path: `/v1/sandboxes/${segment(id)}/ports` };
}

/** Declare a port. */
export function postSandboxesIdPorts(id: string, body: models.DeclarePort): JsonCall<models.Port> {
  return { kind: "json", method: "POST", path: `/v1/sandboxes/${segment(id)}/ports`, json: body };
}

/** Remove the declaration of a port. */
export function deleteSandboxesIdPortsPort(id: string, port: number): EmptyCall {
  return {
    kind: "empty",
    method: "DELETE",
    path: `/v1/sandboxes/${segment(id)}/ports/${segment(port)}`,
  };
}

/** Create a signed preview link (same as `preview-token`). */
export function postSandboxesIdPreview(
  id: string,
  body: models.PreviewRequest,
): JsonCall<models.Preview> {
  return { kind: "json", method: "POST", path: `/v1/sandboxes/${segment(id)}/preview`, json: body };
}

/** Create a signed preview link to a port, for some paths and a limited time. */
export function postSandboxesIdPreviewToken(
  id: string,
  body: models.PreviewRequest,
): JsonCall<models.Preview> {
  return {
    kind: "json",
    method: "POST",
    path: `/v1/sandboxes/${segment(id)}/preview-token`,
    json: body,
  };
}

/** List processes, oldest first. */
export function getSandboxesIdProcesses(id: string): JsonCall<models.Process[]> {
  return { kind: "json", method: "GET", path: `/v1/sandboxes/${segment(id)}/processes` };
}

/** Start a process that outlives the request. */
export function postSandboxesIdProcesses(
  id: string,
  body: models.SpawnRequest,
): JsonCall<models.Process> {
  return {
    kind: "json",
    method: "POST",
    path: `/v1/sandboxes/${segment(id)}/processes`,
    json: body,
  };
}

/** Kill a process and its group, and remove it from the list. */
export function deleteSandboxesIdProcessesProcess(id: string, process: string): EmptyCall {
  return {
    kind: "empty",
    method: "DELETE",
    path: `/v1/sandboxes/${segment(id)}/processes/${segment(process)}`,
  };
}

/** Show a process. */
export function getSandboxesIdProcessesProcess(
  id: string,
  process: string,
): JsonCall<models.Process> {
  return {
    kind: "json",
    method: "GET",
    path: `/v1/sandboxes/${segment(id)}/processes/${segment(process)}`,
  };
}

/** Output of a process from an offset on, or follow it. */
export function getSandboxesIdProcessesProcessOutput(
  id: string,
  process: string,
  query: { offset?: number; follow?: boolean } = {},
): JsonCall<models.ProcessOutput> {
  return {
    kind: "json",
    method: "GET",
    path: `/v1/sandboxes/${segment(id)}/processes/${segment(process)}/output`,
    query,
  };
}

/** Output of a process from an offset on, or follow it. */
export function getSandboxesIdProcessesProcessOutputStream(
  id: string,
  process: string,
  query: { offset?: number; follow?: boolean } = {},
): EventsCall {
  return {
    kind: "events",
    method: "GET",
    path: `/v1/sandboxes/${segment(id)}/processes/${segment(process)}/output`,
    query,
  };
}

/** Send a signal to a process and its group. */
export function postSandboxesIdProcessesProcessSignal(
  id: string,
  process: string,
  body: models.SignalRequest,
): EmptyCall {
  return {
    kind: "empty",
    method: "POST",
    path: `/v1/sandboxes/${segment(id)}/processes/${segment(process)}/signal`,
    json: body,
  };
}

/** Write to the standard input of a process. */
export function postSandboxesIdProcessesProcessStdin(
  id: string,
  process: string,
  body: RequestBytes,
  query: { end?: boolean } = {},
): JsonCall<models.Fed> {
  return {
    kind: "json",
    method: "POST",
    path: `/v1/sandboxes/${segment(id)}/processes/${segment(process)}/stdin`,
    bytes: body,
    query,
  };
}

/** Keep one copy of a tree; deletes its siblings if asked. */
export function postSandboxesIdPromote(
  id: string,
  body?: models.PromoteRequest,
): JsonCall<models.Promotion> {
  return { kind: "json", method: "POST", path: `/v1/sandboxes/${segment(id)}/promote`, json: body };
}

/** Run code without a session. */
export function postSandboxesIdRepl(id: string, body: models.RunOnce): JsonCall<models.RanOnce> {
  return { kind: "json", method: "POST", path: `/v1/sandboxes/${segment(id)}/repl`, json: body };
}

/** List code sessions, oldest first. */
export function getSandboxesIdReplSessions(id: string): JsonCall<models.CodeSession[]> {
  return { kind: "json", method: "GET", path: `/v1/sandboxes/${segment(id)}/repl/sessions` };
}

/** Open a code session, which keeps its state between cells. */
export function postSandboxesIdReplSessions(
  id: string,
  body?: models.OpenSession,
): JsonCall<models.CodeSession> {
  return {
    kind: "json",
    method: "POST",
    path: `/v1/sandboxes/${segment(id)}/repl/sessions`,
    json: body,
  };
}

/** Close a code session. */
export function deleteSandboxesIdReplSessionsSession(id: string, session: string): EmptyCall {
  return {
    kind: "empty",
    method: "DELETE",
    path: `/v1/sandboxes/${segment(id)}/repl/sessions/${segment(session)}`,
  };
}

/** Run a cell and return its output and results. */
export function postSandboxesIdReplSessionsSessionRun(
  id: string,
  session: string,
  body: models.RunCell,
): JsonCall<models.CellResult> {
  return {
    kind: "json",
    method: "POST",
    path: `/v1/sandboxes/${segment(id)}/repl/sessions/${segment(session)}/run`,
    json: body,
  };
}

/** Resume a paused sandbox. */
export function postSandboxesIdResume(id: string): EmptyCall {
  return { kind: "empty", method: "POST", path: `/v1/sandboxes/${segment(id)}/resume` };
}

/** Create a snapshot of memory and disk. */
export function postSandboxesIdSnapshots(id: string): JsonCall<models.Snapshot> {
  return { kind: "json", method: "POST", path: `/v1/sandboxes/${segment(id)}/snapshots` };
}

/** WebSocket with a terminal, for the `ssh` command of the CLI. */
export function getSandboxesIdSsh(
  id: string,
  query: { rows?: number; cols?: number } = {},
): SocketCall {
  return { kind: "socket", method: "GET", path: `/v1/sandboxes/${segment(id)}/ssh`, query };
}

/** Wake a hibernated sandbox (same as `wake`). */
export function postSandboxesIdStart(id: string): JsonCall<models.Status> {
  return { kind: "json", method: "POST", path: `/v1/sandboxes/${segment(id)}/start` };
}

/** Hibernate a sandbox (same as `hibernate`). */
export function postSandboxesIdStop(id: string): JsonCall<models.Status> {
  return { kind: "json", method: "POST", path: `/v1/sandboxes/${segment(id)}/stop` };
}

/** Show ancestors, siblings and descendants. */
export function getSandboxesIdTree(id: string): JsonCall<models.FamilyTree> {
  return { kind: "json", method: "GET", path: `/v1/sandboxes/${segment(id)}/tree` };
}

/** Wake a hibernated sandbox; succeeds if it is awake. */
export function postSandboxesIdWake(id: string): JsonCall<models.Status> {
  return { kind: "json", method: "POST", path: `/v1/sandboxes/${segment(id)}/wake` };
}

/** List snapshots, newest first. */
export function getSnapshots(query: { sandbox_id?: string } = {}): JsonCall<models.SnapshotList> {
  return { kind: "json", method: "GET", path: "/v1/snapshots", query };
}

/** Delete a snapshot. */
export function deleteSnapshotsSnapshot(snapshot: string): EmptyCall {
  return { kind: "empty", method: "DELETE", path: `/v1/snapshots/${segment(snapshot)}` };
}

/** Show a snapshot. */
export function getSnapshotsSnapshot(snapshot: string): JsonCall<models.Snapshot> {
  return { kind: "json", method: "GET", path: `/v1/snapshots/${segment(snapshot)}` };
}

/** Statistics of start times. */
export function getStatsBoot(query: { limit?: number } = {}): JsonCall<models.BootStats> {
  return { kind: "json", method: "GET", path: "/v1/stats/boot", query };
}

/** List templates. */
export function getTemplates(): JsonCall<models.Template[]> {
  return { kind: "json", method: "GET", path: "/v1/templates" };
}

/** Build a template; returns the build at once. */
export function postTemplatesBuild(
  body: FormData,
  query: { replace?: boolean } = {},
): JsonCall<models.Build> {
  return { kind: "json", method: "POST", path: "/v1/templates/build", form: body, query };
}

/** List builds, newest first. */
export function getTemplatesBuilds(): JsonCall<models.Build[]> {
  return { kind: "json", method: "GET", path: "/v1/templates/builds" };
}

/** Show a build. */
export function getTemplatesBuildsBuild(build: string): JsonCall<models.Build> {
  return { kind: "json", method: "GET", path: `/v1/templates/builds/${segment(build)}` };
}

/** Show the log of a build, or follow it. */
export function getTemplatesBuildsBuildLogs(
  build: string,
  query: { follow?: boolean } = {},
): EventsCall {
  return {
    kind: "events",
    method: "GET",
    path: `/v1/templates/builds/${segment(build)}/logs`,
    query,
  };
}

/** Delete a template; sandboxes created from it are not affected. */
export function deleteTemplatesName(name: string): EmptyCall {
  return { kind: "empty", method: "DELETE", path: `/v1/templates/${segment(name)}` };
}

/** Show a template. */
export function getTemplatesName(name: string): JsonCall<models.Template> {
  return { kind: "json", method: "GET", path: `/v1/templates/${segment(name)}` };
}

/** Usage of the workspace by day, template, sandbox or member. */
export function getUsage(
  query: { by?: "day" | "template" | "sandbox" | "member"; from?: string; to?: string } = {},
): JsonCall<models.UsageReport> {
  return { kind: "json", method: "GET", path: "/v1/usage", query };
}

/** The same usage as a table in CSV. */
export function getUsageExport(
  query: { by?: "day" | "template" | "sandbox" | "member"; from?: string; to?: string } = {},
): TextCall {
  return { kind: "text", method: "GET", path: "/v1/usage/export", query };
}

/** Show the version of what runs the sandboxes. */
export function getVersion(): JsonCall<models.Version> {
  return { kind: "json", method: "GET", path: "/v1/version" };
}

/** List volumes by name. */
export function getVolumes(): JsonCall<models.Volume[]> {
  return { kind: "json", method: "GET", path: "/v1/volumes" };
}

/** Create a volume. */
export function postVolumes(body: models.CreateVolume): JsonCall<models.Volume> {
  return { kind: "json", method: "POST", path: "/v1/volumes", json: body };
}

/** Delete a volume that no sandbox uses. */
export function deleteVolumesName(name: string): EmptyCall {
  return { kind: "empty", method: "DELETE", path: `/v1/volumes/${segment(name)}` };
}

/** Show a volume. */
export function getVolumesName(name: string): JsonCall<models.Volume> {
  return { kind: "json", method: "GET", path: `/v1/volumes/${segment(name)}` };
}

/** Grow a volume, also while it is in use. */
export function patchVolumesName(name: string, body: models.GrowVolume): JsonCall<models.Volume> {
  return { kind: "json", method: "PATCH", path: `/v1/volumes/${segment(name)}`, json: body };
}

/** List webhooks, newest first. */
export function getWebhooks(): JsonCall<models.Webhook[]> {
  return { kind: "json", method: "GET", path: "/v1/webhooks" };
}

/** Subscribe a URL to events; shows its secret. */
export function postWebhooks(body: models.CreateWebhook): JsonCall<models.Webhook> {
  return { kind: "json", method: "POST", path: "/v1/webhooks", json: body };
}

/** List deliveries that failed for good. */
export function getWebhooksDeadLetters(
  query: { limit?: number } = {},
): JsonCall<models.Delivery[]> {
  return { kind: "json", method: "GET", path: "/v1/webhooks/dead-letters", query };
}

/** Show a delivery and its attempts. */
export function getWebhooksDeliveriesDelivery(delivery: string): JsonCall<models.Delivery> {
  return { kind: "json", method: "GET", path: `/v1/webhooks/deliveries/${segment(delivery)}` };
}

/** Deliver again. */
export function postWebhooksDeliveriesDeliveryReplay(delivery: string): JsonCall<models.Delivery> {
  return {
    kind: "json",
    method: "POST",
    path: `/v1/webhooks/deliveries/${segment(delivery)}/replay`,
  };
}

/** Delete a webhook and its deliveries. */
export function deleteWebhooksWebhook(webhook: string): EmptyCall {
  return { kind: "empty", method: "DELETE", path: `/v1/webhooks/${segment(webhook)}` };
}

/** Show a webhook. */
export function getWebhooksWebhook(webhook: string): JsonCall<models.Webhook> {
  return { kind: "json", method: "GET", path: `/v1/webhooks/${segment(webhook)}` };
}

/** Change, enable or disable a webhook. */
export function patchWebhooksWebhook(
  webhook: string,
  body: models.ChangeWebhook,
): JsonCall<models.Webhook> {
  return { kind: "json", method: "PATCH", path: `/v1/webhooks/${segment(webhook)}`, json: body };
}

/** List deliveries, newest first. */
export function getWebhooksWebhookDeliveries(
  webhook: string,
  query: { status?: "pending" | "failed" | "delivered" | "dead"; limit?: number } = {},
): JsonCall<models.Delivery[]> {
  return {
    kind: "json",
    method: "GET",
    path: `/v1/webhooks/${segment(webhook)}/deliveries`,
    query,
  };
}

/** Send a test event and show the receiver's answer. */
export function postWebhooksWebhookPing(webhook: string): JsonCall<models.Ping> {
  return { kind: "json", method: "POST", path: `/v1/webhooks/${segment(webhook)}/ping` };
}

/** Create a new secret; the old one also signs during a grace period. */
export function postWebhooksWebhookRotateSecret(
  webhook: string,
  body?: models.RotateSecret,
): JsonCall<models.Webhook> {
  return {
    kind: "json",
    method: "POST",
    path: `/v1/webhooks/${segment(webhook)}/rotate-secret`,
    json: body,
  };
}

/** Show the version of the server. */
export function getRootVersion(): JsonCall<models.Version> {
  return { kind: "json", method: "GET", path: "/version" };
}
