import assert from "node:assert/strict";
import { test } from "node:test";
import { Sandbox } from "../../src/index.js";
import { json, StandIn, sandboxInfo } from "../stand-in.js";

test("two sandboxes are compared by id or by object", async () => {
  const answer = {
    sandbox_id: "a",
    with_id: "b",
    paths: ["/root"],
    files: [{ path: "/root/x", change: "added", mode: "f", with_size: 1 }],
    truncated: false,
    processes: [],
    with_processes: [{ pid: 7, command: "sleep 9" }],
  };
  await using server = await StandIn.start((_, response) => json(response, 200, answer));
  const sandbox = Sandbox.fromInfo(sandboxInfo() as never, server.client());
  const other = Sandbox.fromInfo({ ...sandboxInfo(), id: "b" } as never, server.client());
  assert.deepEqual(await sandbox.diff("b"), answer);
  assert.deepEqual(await sandbox.diff(other, { path: "/root" }), answer);
  assert.deepEqual(server.calls, Array(2).fill(`GET /v1/sandboxes/${sandbox.id}/diff`));
  assert.ok(server.seen.every(({ query }) => query.get("with") === "b"));
  assert.deepEqual(
    server.seen.map(({ query }) => query.get("path")),
    [null, "/root"],
  );
});
