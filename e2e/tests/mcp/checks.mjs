// The official TypeScript client against the tools of a workspace: `checks.mjs http URL` or
// `checks.mjs stdio PROGRAM`.

import assert from "node:assert/strict";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [kind, place] = process.argv.slice(2);
const PNG =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const PATIENCE = 120_000;

async function connected() {
  const client = new Client({ name: "checks", version: "1" });
  const headers = { Authorization: `Bearer ${process.env.PANDASTACK_API_KEY}` };
  const transport =
    kind === "http"
      ? new StreamableHTTPClientTransport(new URL(place), { requestInit: { headers } })
      : new StdioClientTransport({ command: place, args: ["mcp"], env: process.env });
  await client.connect(transport);
  return client;
}

const client = await connected();

async function parts(name, args, options) {
  const done = await client.callTool({ name, arguments: args }, undefined, { timeout: 2 * PATIENCE, ...options });
  assert.ok(!done.isError, `${name}: ${JSON.stringify(done.content)}`);
  return done.content;
}

const text = async (name, args) => (await parts(name, args))[0].text;
const json = async (name, args) => JSON.parse(await text(name, args));

assert.equal(client.getServerVersion().name, "pandastack");
const { tools } = await client.listTools();
assert.ok(tools.length >= 13);
const { id } = await json("create_sandbox", { template: "mini" });
try {
  await text("write_file", { sandbox_id: id, path: "/srv/a.txt", content: "héllo\n" });
  assert.equal(await text("read_file", { sandbox_id: id, path: "/srv/a.txt" }), "héllo\n");
  await text("write_file", { sandbox_id: id, path: "/srv/p.png", content: PNG, encoding: "base64" });
  const [image] = await parts("read_file", { sandbox_id: id, path: "/srv/p.png" });
  assert.deepEqual([image.type, image.mimeType, image.data], ["image", "image/png", PNG]);

  const ran = await json("run_command", { sandbox_id: id, command: "echo hi; exit 3" });
  assert.deepEqual([ran.stdout, ran.exit_code], ["hi\n", 3]);
  const [first, note] = await parts("run_command", { sandbox_id: id, command: "seq 1 9000" });
  assert.ok(first.text.length < 30_000 && JSON.parse(first.text).stdout.endsWith("9000\n"));
  const path = /bytes are in (\S+) of the sandbox/.exec(note.text)[1];
  const [start] = await parts("read_file", { sandbox_id: id, path, offset: 2, limit: 4 });
  assert.equal(start.text, "2\n3\n");

  const read = await client.readResource({ uri: `sandbox://${id}/srv/a.txt` });
  assert.equal(read.contents[0].text, "héllo\n");
  const { resources } = await client.listResources();
  assert.ok(resources.some((resource) => resource.uri === `sandbox://${id}/workspace/`));

  await cancelled();
  const { children } = await json("fork_sandbox", { sandbox_id: id });
  assert.equal(await text("read_file", { sandbox_id: children[0].id, path: "/srv/a.txt" }), "héllo\n");
  await text("delete_sandbox", { sandbox_id: children[0].id });
} finally {
  await text("delete_sandbox", { sandbox_id: id });
}
await client.close();
console.log("checked");

/** A call that is given up ends its command. Over HTTP the connection of the call is closed. */
async function cancelled() {
  const other = await connected();
  const given = new AbortController();
  const heard = Promise.withResolvers?.() ?? later();
  const call = other.callTool(
    { name: "run_command", arguments: { sandbox_id: id, command: "sleep 1234", timeout_seconds: 120 } },
    undefined,
    {
      onprogress: ({ progress }) => progress > 0 && heard.resolve(),
      signal: given.signal,
      timeout: 2 * PATIENCE,
    },
  );
  call.then(() => heard.reject(new Error("the command ended")), () => {});
  await heard.promise;
  given.abort();
  await assert.rejects(call);
  if (kind === "http") {
    await other.close();
  }
  const until = Date.now() + PATIENCE;
  for (;;) {
    // The pattern does not match the command that has it.
    const { stdout } = await json("run_command", { sandbox_id: id, command: "pgrep -fc 'sleep 123[4]' || true" });
    if (stdout.trim() === "0") {
      break;
    }
    assert.ok(Date.now() < until, "the command goes on");
  }
  await other.close();
}

function later() {
  const made = {};
  made.promise = new Promise((resolve, reject) => Object.assign(made, { resolve, reject }));
  return made;
}
