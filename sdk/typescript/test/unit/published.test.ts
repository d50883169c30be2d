/** The names that the published package 0.9.0 has, and the shapes of the product pages. */

import assert from "node:assert/strict";
import { test } from "node:test";
import * as sdk from "../../src/index.js";
import { json, StandIn, sandboxInfo } from "../stand-in.js";

const CLASSES: Record<string, string> = {
  AppsAPI:
    "create list get update delete deploy deployments deployment rollback deployLogs previews " +
    "previewRepos enablePreviewRepo disablePreviewRepo listEnv setEnv unsetEnv importEnv addDomain " +
    "listDomains getDomain removeDomain listPreviewEnv setPreviewEnv unsetPreviewEnv " +
    "importPreviewEnv",
  AuthError: "",
  BadRequestError: "",
  Client: "me request",
  CodeContext: "runCode close",
  CommandError: "",
  DatabasesAPI:
    "create waitUntilReady list get delete connection failover wake update clone resetCredentials",
  ExploreError: "",
  FunctionsAPI:
    "create deploy list get update delete getCode invoke trigger recordRun runs listRuns " +
    "deployBundle metrics",
  NetworkError: "",
  NotFoundError: "",
  PandaStackError: "",
  Sandbox:
    "_retryOnWarmup exec execStream runCode createCodeContext logs kill pause resume snapshot fork " +
    "forkTree promote explore hibernate wake setTtl setPersistent lifecycle previewUrl previewUrls",
  SandboxTimeout: "",
  SchedulesAPI: "create list get update delete trigger runs listRuns",
  ServerError: "",
  SnapshotsAPI: "list get delete",
  TemplateBuildError: "",
  VolumesAPI: "create list get delete",
};

test("every published class and method exists", () => {
  const found = sdk as unknown as Record<string, { prototype: Record<string, unknown> }>;
  for (const [name, methods] of Object.entries(CLASSES)) {
    assert.equal(typeof found[name], "function", name);
    for (const method of methods.split(" ").filter(Boolean)) {
      assert.equal(typeof found[name]?.prototype[method], "function", `${name}.${method}`);
    }
  }
  for (const method of ["create", "list", "get", "fromInfo"] as const) {
    assert.equal(typeof sdk.Sandbox[method], "function");
  }
  assert.equal(sdk.default, sdk.Client);
  const aliases = ["Apps", "Databases", "Functions", "Schedules", "Snapshots", "Volumes"];
  for (const name of aliases) assert.equal(found[`${name}Namespace`], found[`${name}API`]);
});

test("the parts of a client and a sandbox have the published methods", () => {
  const client = new sdk.PandaStack({ apiUrl: "http://x", apiKey: "k", timeoutMs: 5 });
  assert.deepEqual([client.apiUrl, client.apiKey, client.timeoutMs], ["http://x", "k", 5]);
  const sandbox = sdk.Sandbox.fromInfo(sandboxInfo() as never, client);
  const parts: [object, string][] = [
    [client.sandboxes, "create list get delete"],
    [
      client.templates,
      "list get build register buildFromDockerfile delete builds buildStatus buildLogs waitForBuild",
    ],
    [client.tokens, "list create revoke"],
    [sandbox.filesystem, "read write upload download list stat exists walk"],
    [sandbox.commands, "run"],
    [sandbox, Symbol.asyncDispose.toString()],
  ];
  for (const [part, names] of parts) {
    for (const name of names.split(" ")) {
      const key = name.startsWith("Symbol") ? Symbol.asyncDispose : name;
      assert.equal(typeof (part as Record<string | symbol, unknown>)[key], "function", name);
    }
  }
  assert.equal(sandbox.previewUrl(3000), "https://3000-sb-1.x");
  assert.throws(() => sandbox.previewUrl(0), RangeError);
  client.previewHost = ".preview.example.com";
  assert.equal(sandbox.previewUrl(80, "http"), "http://80-sb-1.preview.example.com");
});

test("errors are made as they were", () => {
  const error = new sdk.NotFoundError("gone", 404);
  assert.deepEqual([error.message, error.statusCode, error.response], ["gone", 404, undefined]);
  assert.ok(error instanceof sdk.PandaStackError && error instanceof Error);
  const command = new sdk.CommandError("bad", 3, "out");
  assert.deepEqual([command.exitCode, command.stdout, command.stderr], [3, "out", ""]);
});

test("a fork tree is an array, and the tree of the product pages", async () => {
  const child = (id: string): object => ({ ...sandboxInfo(id), metadata: { fork_tree_id: "t1" } });
  await using server = await StandIn.start((seen, response) => {
    if (seen.path.endsWith("/promote")) json(response, 200, { winner: "b", tree_id: "t1" });
    else json(response, 201, { tree_id: "t1", children: [child("a"), child("b")], errors: [] });
  });
  const sandbox = sdk.Sandbox.fromInfo(sandboxInfo() as never, server.client());
  for (const count of [2, { count: 2 }]) {
    const tree = await sandbox.forkTree(count);
    assert.equal(tree.length, 2);
    assert.ok(Array.isArray(tree));
    assert.deepEqual(
      tree.map(({ id }) => id),
      ["a", "b"],
    );
    assert.deepEqual(
      tree.branches.map(({ id }) => id),
      ["a", "b"],
    );
    assert.equal(tree.map((one) => one).constructor, Array);
  }
  const tree = await sandbox.forkTree(2, { metadata: { why: "test" } });
  assert.deepEqual(JSON.parse(String(server.seen.at(-1)?.body)), {
    count: 2,
    metadata: { why: "test" },
  });
  await tree.promote("b", { cleanupSiblings: true });
  assert.equal(server.calls.at(-1), "POST /v1/sandboxes/b/promote");
  assert.deepEqual(JSON.parse(String(server.seen.at(-1)?.body)), {
    cleanup_siblings: true,
    tree_id: "t1",
  });
  assert.throws(() => tree.promote("c"), /not a branch/);
  await tree.branches[0]?.promote("t1", true);
  assert.deepEqual(JSON.parse(String(server.seen.at(-1)?.body)), {
    cleanup_siblings: true,
    tree_id: "t1",
  });
});

test("the old shapes of a fork's answer are understood", async () => {
  let body: unknown;
  await using server = await StandIn.start((_, response) => json(response, 201, body));
  const sandbox = sdk.Sandbox.fromInfo(sandboxInfo() as never, server.client());
  for (body of [{ children: ["c1"] }, { sandbox: sandboxInfo("c1") }, sandboxInfo("c1")]) {
    const child = await sandbox.fork();
    assert.deepEqual([child.id, child.template, child.status], ["c1", "mini", "running"]);
  }
  for (body of [["c1"], { items: ["c1"] }, { sandboxes: [sandboxInfo("c1")] }]) {
    assert.equal((await sandbox.forkTree({ count: 1 }))[0]?.id, "c1");
  }
});

test("both spellings of the options of a create are sent", async () => {
  await using server = await StandIn.start((_, response) => json(response, 201, sandboxInfo()));
  const client = server.client();
  const bodyOf = async (options: sdk.SandboxCreateOptions): Promise<unknown> => {
    await client.sandboxes.create(options);
    return JSON.parse(String(server.seen.at(-1)?.body));
  };
  assert.deepEqual(await bodyOf({}), { template: "ubuntu-24.04" });
  const expected = {
    template: "t",
    from_snapshot: "s",
    ttl_seconds: 5,
    persistent: true,
    metadata: { a: "b" },
    env: { X: "y" },
    volumes: [{ name: "v", read_only: true, mount_path: "/w" }],
    egress_allowlist: [],
    egress_mbps: 3,
  };
  const same = { template: "t", persistent: true, metadata: { a: "b" }, env: { X: "y" } };
  const camel = await bodyOf({
    ...same,
    fromSnapshot: "s",
    ttlSeconds: 5,
    volumes: [{ name: "v", readOnly: true, mountPath: "/w" }],
    egressAllowlist: [],
    egressMbps: 3,
  });
  const snake = await bodyOf({
    ...same,
    from_snapshot: "s",
    ttl_seconds: 5,
    volumes: [{ name: "v", read_only: true, mount_path: "/w" }],
    egress_allowlist: [],
    egress_mbps: 3,
  });
  assert.deepEqual(camel, expected);
  assert.deepEqual(snake, expected);
});

test("a code context keeps the published shape of its results", async () => {
  await using server = await StandIn.start((_, response) =>
    json(response, 200, {
      id: "ses_1",
      stdout: "printed",
      stderr: "",
      exit: 0,
      results: [
        { "image/png": "iVBO", "text/plain": "<Figure>" },
        { type: "application/json", data: '{"a":1}' },
      ],
    }),
  );
  const sandbox = sdk.Sandbox.fromInfo(sandboxInfo() as never, server.client());
  await using context = await sandbox.createCodeContext("py");
  assert.deepEqual([context.id, context.language], ["ses_1", "python"]);
  const cell = await context.runCode("plot()", { timeoutSeconds: 1.5 });
  assert.deepEqual(JSON.parse(String(server.seen.at(-1)?.body)), {
    code: "plot()",
    timeout_ms: 1500,
  });
  assert.deepEqual([cell.png, cell.text, cell.exit_code], ["iVBO", "<Figure>", 0]);
  assert.equal(cell.results[0]?.chart, "iVBO");
  assert.deepEqual(cell.results[1]?.json, { a: 1 });
});
