import assert from "node:assert/strict";
import { test } from "node:test";
import { NetworkError, Sandbox } from "../../src/index.js";
import { failureOf, StandIn, sandboxInfo, until } from "../stand-in.js";

test("a terminal carries bytes both ways, its size and its exit code", async () => {
  await using server = await StandIn.start();
  const notes: unknown[] = [];
  server.upgrade = (socket) => {
    socket.onBytes = (bytes) => {
      socket.frame(0x2, Buffer.concat([Buffer.from("> "), bytes]));
      if (bytes.toString() !== "exit\n") return;
      socket.send({ type: "exit", code: 4, exit: 4 });
      socket.frame(0x8, Buffer.alloc(0));
    };
    socket.onText = (text) => notes.push(JSON.parse(text));
  };
  const sandbox = Sandbox.fromInfo(sandboxInfo() as never, server.client());
  await using terminal = await sandbox.terminal({ rows: 40, cols: 120, cmd: "sh" });
  terminal.resize(50, 100);
  terminal.write("exit\n");
  let output = "";
  for await (const bytes of terminal) output += Buffer.from(bytes).toString();
  assert.equal(output, "> exit\n");
  assert.equal(await terminal.exitCode, 4);
  assert.deepEqual(notes, [{ resize: { rows: 50, cols: 100 } }]);
  const [seen] = server.seen;
  assert.equal(seen?.path, "/v1/sandboxes/sb-1/exec/pty");
  assert.equal(seen?.query.toString(), "rows=40&cols=120&cmd=sh");
});

test("a terminal whose connection breaks fails, for its loop and its exit code", async () => {
  await using server = await StandIn.start();
  let open = false;
  server.upgrade = () => {
    open = true;
  };
  const sandbox = Sandbox.fromInfo(sandboxInfo() as never, server.client());
  const terminal = await sandbox.ssh();
  await until(() => open);
  server.cut();
  assert.ok((await failureOf(terminal.exitCode)) instanceof NetworkError);
  await assert.rejects(async () => {
    for await (const _ of terminal) assert.fail();
  }, NetworkError);
});
