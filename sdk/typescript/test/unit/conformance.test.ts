/**
 * Every operation of the API is reached by a public method. The table names it, and the test calls
 * it and looks at the request. An operation without an entry fails.
 */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import * as operations from "../../src/core/operations.js";
import { type PandaStack, Sandbox } from "../../src/index.js";
import { StandIn, sandboxInfo } from "../stand-in.js";

interface Given {
  readonly client: PandaStack;
  readonly sandbox: Sandbox;
  /** Ends streams, which would wait for more. */
  readonly signal: AbortSignal;
}

type Way = (given: Given) => unknown;

/** The same resource under another path. The published clients use the one that is named. */
const SAME_AS: Record<string, string> = {
  getRootHealthz: "getHealthz",
  getRootMetrics: "getMetrics",
  getRootReplLanguages: "getReplLanguages",
  postRootMcp: "postMcp",
  getRootVersion: "getVersion",
};

const process = { id: "prc_1", cmd: "make", pid: 1 };

const WAYS: Record<string, Way> = {
  getApiKeys: ({ client }) => client.apiKeys.list(),
  postApiKeys: ({ client }) => client.apiKeys.create({ label: "ci", expiresInDays: 3 }),
  deleteApiKeysKey: ({ client }) => client.apiKeys.revoke("key_1", { force: true }),
  getAudit: ({ client }) => client.audit.list({ limit: 3 }),
  getAuditExport: ({ client }) => client.audit.export({ after: 3 }),
  getAuth: ({ client }) => client.auth.methods(),
  postAuthLogin: ({ client }) => client.auth.login({ email: "a@b", password: "x" }),
  postAuthLink: ({ client }) => client.auth.link("psl_1"),
  postAuthLinks: ({ client }) => client.auth.makeLink(),
  postAuthLogout: ({ client }) => client.auth.logout(),
  postAuthOidcToken: ({ client }) => client.auth.exchangeCode({ code: "c" }),
  postAuthPassword: ({ client }) => client.auth.changePassword({ new_password: "x" }),
  postAuthRegister: ({ client }) => client.auth.register({ invite: "i" }),
  postAuthReset: ({ client }) => client.auth.resetPassword({ token: "t" }),
  postAuthResetRequest: ({ client }) => client.auth.requestReset("a@b"),
  getAuthSessions: ({ client }) => client.auth.sessions(),
  deleteAuthSessionsSession: ({ client }) => client.auth.endSession("ses_1"),
  postAuthSetup: ({ client }) => client.auth.setUp({ email: "a@b" }),
  getBilling: ({ client }) => client.billing.get(),
  postBillingSync: ({ client }) => client.billing.sync(),
  getDatabases: ({ client }) => client.databases.list(),
  postDatabases: ({ client }) => client.databases.create({}, { wait: false }),
  deleteDatabasesId: ({ client }) => client.databases.delete("db-1"),
  getDatabasesId: ({ client }) => client.databases.get("db-1"),
  patchDatabasesId: ({ client }) => client.databases.update("db-1", { always_on: true }),
  postDatabasesIdBranches: ({ client }) =>
    client.databases.branch("db-1", { label: "x" }, { wait: false }),
  getDatabasesIdBackups: ({ client }) => client.databases.backups("db-1"),
  postDatabasesIdBackups: ({ client }) => client.databases.backup("db-1"),
  postDatabasesIdClone: ({ client }) => client.databases.clone("db-1", {}, { wait: false }),
  getDatabasesIdDiff: ({ client }) => client.databases.diff("db-1", "db-2"),
  postDatabasesIdFailover: ({ client }) => client.databases.failover("db-1"),
  postDatabasesIdReset: ({ client }) => client.databases.reset("db-1", { wait: false }),
  postDatabasesIdRestart: ({ client }) => client.databases.restart("db-1", { wait: false }),
  postDatabasesIdVerifyBackup: ({ client }) =>
    client.databases.verifyBackup("db-1", {}, { wait: false }),
  getDatabasesIdConnection: ({ client }) => client.databases.connection("db-1"),
  getDatabasesIdLogs: ({ client }) => client.databases.logs("db-1", { lines: 20 }),
  postDatabasesIdResetCredentials: ({ client }) => client.databases.resetCredentials("db-1"),
  getDatabasesIdStats: ({ client }) => client.databases.stats("db-1"),
  postDatabasesIdWake: ({ client }) => client.databases.wake("db-1"),
  getEvents: ({ client }) => client.events.list({ limit: 3 }),
  getEventsStream: ({ client, signal }) => client.events.follow({ signal }).next(),
  getHealthz: ({ client }) => client.server.health(),
  getHostAudit: ({ client }) => client.server.hostAudit(),
  getMe: ({ client }) => client.me(),
  postMeCurrentOrg: ({ client }) => client.orgs.use("org_1"),
  getMeTokens: ({ client }) => client.tokens.list(),
  postMeTokens: ({ client }) => client.tokens.create("ci"),
  deleteMeTokensPrefix: ({ client }) => client.tokens.revoke("pds_12345678"),
  getMetrics: ({ client }) => client.server.metrics(),
  getMetricsOverview: ({ client }) => client.metrics.overview({ range: "1h" }),
  getMetricsSandboxId: ({ client }) => client.metrics.sandbox("sb-1", { step: "1m" }),
  getOrgs: ({ client }) => client.orgs.list(),
  postOrgs: ({ client }) => client.orgs.create("Acme", { slug: "acme" }),
  getOrgsInvitesToken: ({ client }) => client.orgs.showInvite("t"),
  postOrgsInvitesTokenAccept: ({ client }) => client.orgs.acceptInvite("t"),
  deleteOrgsOrg: ({ client }) => client.orgs.delete("org_1", { confirm: "acme" }),
  getOrgsOrg: ({ client }) => client.orgs.get("org_1"),
  patchOrgsOrg: ({ client }) => client.orgs.rename("org_1", "New"),
  getOrgsOrgBilling: ({ client }) => client.orgs.billing("org_1"),
  postOrgsOrgBillingCheckout: ({ client }) => client.orgs.checkout("org_1", "pro"),
  postOrgsOrgBillingPortal: ({ client }) => client.orgs.billingPortal("org_1"),
  deleteOrgsOrgBudget: ({ client }) => client.orgs.removeBudget("org_1"),
  putOrgsOrgBudget: ({ client }) => client.orgs.setBudget("org_1", { monthly_usd: 5 }),
  getOrgsOrgInvites: ({ client }) => client.orgs.invites("org_1"),
  deleteOrgsOrgInvitesInvite: ({ client }) => client.orgs.revokeInvite("org_1", "inv_1"),
  postOrgsOrgLeave: ({ client }) => client.orgs.leave("org_1"),
  getOrgsOrgMembers: ({ client }) => client.orgs.members("org_1"),
  postOrgsOrgMembers: ({ client }) => client.orgs.invite("org_1", "a@b", { role: "admin" }),
  deleteOrgsOrgMembersUser: ({ client }) => client.orgs.removeMember("org_1", "usr_1"),
  patchOrgsOrgMembersUser: ({ client }) => client.orgs.setRole("org_1", "usr_1", "admin"),
  postOrgsOrgTransfer: ({ client }) => client.orgs.transfer("org_1", "usr_1"),
  getOrgsOrgUsage: ({ client }) => client.orgs.usage("org_1", { by: "day" }),
  getOrgsOrgUsageExport: ({ client }) => client.orgs.exportUsage("org_1"),
  getPricing: ({ client }) => client.billing.pricing(),
  getQuotas: ({ client }) => client.usage.quotas(),
  getReplLanguages: ({ client }) => client.server.languages(),
  postMcp: ({ client }) => client.server.mcp({ jsonrpc: "2.0", method: "ping", id: 1 }),
  getSandboxes: ({ client }) => client.sandboxes.list({ limit: 3 }),
  postSandboxes: ({ client }) => client.sandboxes.create(),
  deleteSandboxesId: ({ sandbox }) => sandbox.kill(),
  getSandboxesId: ({ client }) => client.sandboxes.get("sb-1"),
  getSandboxesIdEgress: ({ sandbox }) => sandbox.egress(),
  putSandboxesIdEgress: ({ sandbox }) => sandbox.setEgress([]),
  getSandboxesIdEvents: ({ sandbox }) => sandbox.events({ tail: 3 }),
  getSandboxesIdDiff: ({ sandbox }) => sandbox.diff("sb-2"),
  getSandboxesIdEventsStream: ({ sandbox, signal }) => sandbox.followEvents({ signal }).next(),
  postSandboxesIdExec: ({ sandbox }) => sandbox.exec("true"),
  getSandboxesIdExecPty: ({ sandbox }) => sandbox.terminal(),
  postSandboxesIdExecStream: ({ sandbox }) => sandbox.stream("true").wait(),
  getSandboxesIdExecWs: ({ sandbox }) => sandbox.execSocket({ connectTimeoutMs: 100 }).connect(),
  postSandboxesIdFork: ({ sandbox }) => sandbox.fork(),
  postSandboxesIdForkTree: ({ sandbox }) => sandbox.forkTree(2),
  deleteSandboxesIdFs: ({ sandbox }) => sandbox.filesystem.remove("/x"),
  getSandboxesIdFs: ({ sandbox }) => sandbox.filesystem.read("/x"),
  putSandboxesIdFs: ({ sandbox }) => sandbox.filesystem.write("/x", "y"),
  postSandboxesIdFsChmod: ({ sandbox }) => sandbox.filesystem.chmod("/x", "0755"),
  getSandboxesIdFsDir: ({ sandbox }) => sandbox.filesystem.list("/"),
  postSandboxesIdFsMkdir: ({ sandbox }) => sandbox.filesystem.mkdir("/x"),
  postSandboxesIdFsMove: ({ sandbox }) => sandbox.filesystem.move("/x", "/y"),
  getSandboxesIdFsStat: ({ sandbox }) => sandbox.filesystem.stat("/x"),
  getSandboxesIdFsTar: ({ sandbox }) => sandbox.filesystem.downloadTar("/x"),
  putSandboxesIdFsTar: ({ sandbox }) => sandbox.filesystem.uploadTar("/x", new Uint8Array(1024)),
  getSandboxesIdFsWatch: ({ sandbox, signal }) => sandbox.filesystem.watch("/x", { signal }),
  postSandboxesIdHibernate: ({ sandbox }) => sandbox.hibernate(),
  getSandboxesIdLifecycle: ({ sandbox }) => sandbox.lifecycle(),
  patchSandboxesIdLifecycle: ({ sandbox }) => sandbox.setTtl(60),
  getSandboxesIdLogsStream: ({ sandbox, signal }) => sandbox.logs({ follow: true, signal }).next(),
  getSandboxesIdLogs: ({ sandbox }) => sandbox.logs().next(),
  postSandboxesIdMcp: ({ sandbox }) => sandbox.mcp({ jsonrpc: "2.0", method: "ping", id: 1 }),
  getSandboxesIdMetrics: ({ sandbox }) => sandbox.metrics(),
  postSandboxesIdPause: ({ sandbox }) => sandbox.pause(),
  getSandboxesIdPorts: ({ sandbox }) => sandbox.ports.list(),
  postSandboxesIdPorts: ({ sandbox }) => sandbox.ports.declare(3000, { label: "web" }),
  deleteSandboxesIdPortsPort: ({ sandbox }) => sandbox.ports.remove(3000),
  postSandboxesIdPreview: ({ sandbox }) => sandbox.ports.preview(3000),
  postSandboxesIdPreviewToken: ({ sandbox }) => sandbox.ports.share(3000),
  getSandboxesIdProcesses: ({ sandbox }) => sandbox.processes.list(),
  postSandboxesIdProcesses: ({ sandbox }) => sandbox.spawn("make"),
  deleteSandboxesIdProcessesProcess: ({ sandbox }) =>
    sandbox.processes.get("prc_1").then((one) => one.kill()),
  getSandboxesIdProcessesProcess: ({ sandbox }) => sandbox.processes.get("prc_1"),
  getSandboxesIdProcessesProcessOutput: ({ sandbox }) =>
    sandbox.processes.get("prc_1").then((one) => one.output({ offset: 0 })),
  getSandboxesIdProcessesProcessOutputStream: ({ sandbox, signal }) =>
    sandbox.processes.get("prc_1").then((one) => one.follow({ signal }).next()),
  postSandboxesIdProcessesProcessSignal: ({ sandbox }) =>
    sandbox.processes.get("prc_1").then((one) => one.signal("INT")),
  postSandboxesIdProcessesProcessStdin: ({ sandbox }) =>
    sandbox.processes.get("prc_1").then((one) => one.write("x")),
  postSandboxesIdPromote: ({ sandbox }) => sandbox.promote({ cleanupSiblings: true }),
  postSandboxesIdRepl: ({ sandbox }) => sandbox.runOnce("1", { language: "python" }),
  getSandboxesIdReplSessions: ({ sandbox }) => sandbox.codeContexts(),
  postSandboxesIdReplSessions: ({ sandbox }) => sandbox.createCodeContext(),
  deleteSandboxesIdReplSessionsSession: ({ sandbox }) => sandbox.codeContext("ses_1").close(),
  postSandboxesIdReplSessionsSessionRun: ({ sandbox }) =>
    sandbox.codeContext("ses_1").runCode("1 + 1"),
  postSandboxesIdResume: ({ sandbox }) => sandbox.resume(),
  postSandboxesIdSnapshots: ({ sandbox }) => sandbox.snapshot(),
  getSandboxesIdSsh: ({ sandbox }) => sandbox.ssh(),
  postSandboxesIdStart: ({ sandbox }) => sandbox.start(),
  postSandboxesIdStop: ({ sandbox }) => sandbox.stop(),
  getSandboxesIdTree: ({ sandbox }) => sandbox.tree(),
  postSandboxesIdWake: ({ sandbox }) => sandbox.wake(),
  getSnapshots: ({ client }) => client.snapshots.list({ sandboxId: "sb-1" }),
  deleteSnapshotsSnapshot: ({ client }) => client.snapshots.delete("snap_1"),
  getSnapshotsSnapshot: ({ client }) => client.snapshots.get("snap_1"),
  getStatsBoot: ({ client }) => client.server.bootStats({ limit: 3 }),
  getTemplates: ({ client }) => client.templates.list(),
  postTemplatesBuild: ({ client }) => client.templates.register({ name: "x", imageRef: "a:1" }),
  getTemplatesBuilds: ({ client }) => client.templates.builds(),
  getTemplatesBuildsBuild: ({ client }) => client.templates.buildStatus("bld_1"),
  getTemplatesBuildsBuildLogs: ({ client, signal }) =>
    client.templates.buildLogs("bld_1", { signal }).next(),
  deleteTemplatesName: ({ client }) => client.templates.delete("x"),
  getTemplatesName: ({ client }) => client.templates.get("x"),
  getUsage: ({ client }) => client.usage.report({ by: "template" }),
  getUsageExport: ({ client }) => client.usage.export(),
  getVersion: ({ client }) => client.server.version(),
  getVolumes: ({ client }) => client.volumes.list(),
  postVolumes: ({ client }) => client.volumes.create({ name: "v", sizeGb: 1 }),
  deleteVolumesName: ({ client }) => client.volumes.delete("v"),
  getVolumesName: ({ client }) => client.volumes.get("v"),
  patchVolumesName: ({ client }) => client.volumes.grow("v", { sizeGb: 2 }),
  getWebhooks: ({ client }) => client.webhooks.list(),
  postWebhooks: ({ client }) => client.webhooks.create({ url: "https://x", events: ["*"] }),
  getWebhooksDeadLetters: ({ client }) => client.webhooks.deadLetters({ limit: 3 }),
  getWebhooksDeliveriesDelivery: ({ client }) => client.webhooks.delivery("dlv_1"),
  postWebhooksDeliveriesDeliveryReplay: ({ client }) => client.webhooks.replay("dlv_1"),
  deleteWebhooksWebhook: ({ client }) => client.webhooks.delete("whk_1"),
  getWebhooksWebhook: ({ client }) => client.webhooks.get("whk_1"),
  patchWebhooksWebhook: ({ client }) => client.webhooks.update("whk_1", { enabled: false }),
  getWebhooksWebhookDeliveries: ({ client }) => client.webhooks.deliveries("whk_1", { limit: 1 }),
  postWebhooksWebhookPing: ({ client }) => client.webhooks.ping("whk_1"),
  postWebhooksWebhookRotateSecret: ({ client }) => client.webhooks.rotateSecret("whk_1"),
};

/** Method and path of an operation, as its source says. */
function requestOf(name: string): { method: string; path: RegExp } {
  const start = SOURCE.indexOf(`export function ${name}(`);
  const text = SOURCE.slice(start, SOURCE.indexOf("\n}\n", start));
  const method = /method: "([A-Z]+)"/.exec(text)?.[1] ?? assert.fail(name);
  const path = /path: (?:"([^"]+)"|`([^`]+)`)/.exec(text) ?? assert.fail(name);
  const pattern = (path[1] ?? path[2] ?? "").replace(/\$\{[^}]+\}/g, "[^/]+");
  return { method, path: new RegExp(`^${pattern}$`) };
}

const SOURCE = readFileSync("src/core/operations.ts", "utf8");
const NAMES = Object.keys(operations);

test("every operation is reached by a public method", () => {
  const missing = NAMES.filter((name) => !(name in WAYS) && !(name in SAME_AS));
  assert.deepEqual(missing, [], "add a public method, and its entry here");
});

test("every entry names an operation that exists", () => {
  for (const name of [...Object.keys(WAYS), ...Object.keys(SAME_AS)]) {
    assert.ok(NAMES.includes(name), name);
  }
  for (const [name, other] of Object.entries(SAME_AS)) {
    assert.ok(other in WAYS, `${name}: ${other}`);
    assert.equal(requestOf(other).path.source, `^\\/v1${requestOf(name).path.source.slice(1)}`);
  }
});

test("each method sends the request of its operation", async () => {
  await using server = await StandIn.start((seen, response) => {
    const isOne = /\/processes(\/prc_1)?$/.test(seen.path);
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify(isOne ? process : {}));
  });
  const client = server.client();
  const sandbox = Sandbox.fromInfo(sandboxInfo() as never, client);
  for (const [name, way] of Object.entries(WAYS)) {
    server.seen.length = 0;
    const stop = new AbortController();
    const timer = setTimeout(() => stop.abort(), 50);
    try {
      // The empty answer of the stand-in is an error for some. The request is what counts.
      await Promise.resolve(way({ client, sandbox, signal: stop.signal })).catch(() => undefined);
    } finally {
      clearTimeout(timer);
    }
    const { method, path } = requestOf(name);
    const hit = server.seen.some((seen) => seen.method === method && path.test(seen.path));
    assert.ok(hit, `${name} expects ${method} ${path}; sent: ${server.calls.join(", ")}`);
  }
});
