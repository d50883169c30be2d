import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, beforeEach, test } from "node:test";
import { AuthError, PandaStack, VERSION } from "../../src/index.js";
import { failureOf, json, StandIn } from "../stand-in.js";

const home = mkdtempSync(join(tmpdir(), "pandastack-config-"));
const kept = { ...process.env };

beforeEach(() => {
  for (const name of Object.keys(process.env)) {
    if (name.startsWith("PANDASTACK_")) delete process.env[name];
  }
  process.env["HOME"] = home;
  rmSync(join(home, ".config"), { recursive: true, force: true });
});

after(() => {
  process.env = kept;
  rmSync(home, { recursive: true });
});

function writeConfig(text: string): void {
  mkdirSync(join(home, ".config/pandastack"), { recursive: true });
  writeFileSync(join(home, ".config/pandastack/config.json"), text);
}

function check(url: string, key: string | undefined, options = {}): void {
  const client = new PandaStack(options);
  assert.deepEqual([client.apiUrl, client.baseUrl, client.apiKey], [url, url, key]);
}

const HOSTED = "https://api.pandastack.ai";

test("options come before the environment, and that before the config file", () => {
  check(HOSTED, undefined);
  writeConfig('{"token": "from-file", "api_url": "http://file"}');
  check("http://file", "from-file");
  process.env["PANDASTACK_TOKEN"] = "from-token";
  check(HOSTED, "from-token");
  process.env["PANDASTACK_API_KEY"] = "from-key";
  process.env["PANDASTACK_API"] = "http://env/";
  check("http://env", "from-key");
  check("http://mine", "mine", { baseUrl: "http://mine/v1/", token: "mine" });
  check("http://first", "first", {
    apiUrl: "http://first",
    baseUrl: "http://second",
    apiKey: "first",
    token: "second",
  });
});

test("the config file has several spellings, and may be broken", () => {
  writeConfig('{"apiKey": "camel", "apiUrl": "http://camel"}');
  check("http://camel", "camel");
  writeConfig('{"api_key": "snake", "token": ""}');
  check(HOSTED, "snake");
  process.env["PANDASTACK_API"] = "http://env";
  check("http://env", "snake");
  delete process.env["PANDASTACK_API"];
  for (const text of ["not json", "[]", '{"token": 3}']) {
    writeConfig(text);
    check(HOSTED, undefined);
  }
});

test("where files cannot be read at once, the config file is read before the first request", async () => {
  await using server = await StandIn.start((_, response) => json(response, 200, {}));
  writeConfig(JSON.stringify({ token: "late", apiUrl: server.url }));
  const load = process.getBuiltinModule;
  process.getBuiltinModule = undefined as never;
  try {
    await new PandaStack().me();
  } finally {
    process.getBuiltinModule = load;
  }
  assert.equal(server.seen[0]?.headers.authorization, "Bearer late");
});

test("without a key nothing is sent in its place", async () => {
  await using server = await StandIn.start((_, response) =>
    json(response, 401, { error: "unauthorized", detail: "missing bearer token" }),
  );
  const error = await failureOf(new PandaStack({ baseUrl: server.url }).me());
  assert.ok(error instanceof AuthError);
  assert.equal(server.seen[0]?.headers.authorization, undefined);
});

test("the time for retries is a number of seconds", () => {
  assert.equal(new PandaStack().maxCreateRetrySeconds, 60);
  process.env["PANDASTACK_MAX_CREATE_RETRY_SECONDS"] = "5";
  assert.equal(new PandaStack().maxCreateRetrySeconds, 5);
  assert.equal(new PandaStack({ maxCreateRetrySeconds: 0 }).maxCreateRetrySeconds, 0);
  process.env["PANDASTACK_MAX_CREATE_RETRY_SECONDS"] = "many";
  assert.equal(new PandaStack().maxCreateRetrySeconds, 60);
  assert.throws(() => new PandaStack({ maxCreateRetrySeconds: -1 }), /seconds/);
});

test("the version is that of the package", () => {
  const text = readFileSync("package.json", "utf8");
  assert.equal(VERSION, (JSON.parse(text) as { version: string }).version);
});
