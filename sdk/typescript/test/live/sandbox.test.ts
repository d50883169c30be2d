import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import {
  CommandCancelled,
  CommandError,
  NotFoundError,
  Sandbox,
  SandboxTimeout,
} from "../../src/index.js";
import { failureOf, until } from "../stand-in.js";
import { client, create, TEMPLATE } from "./server.js";

let sandbox: Sandbox;
before(async () => {
  sandbox = await create({ metadata: { test: "typescript" }, env: { GREETING: "hello" } });
});
after(() => sandbox?.kill());

test("a sandbox is found, listed and described", async () => {
  const found = await Sandbox.get(sandbox.id, client);
  assert.deepEqual([found.template, found.status], [TEMPLATE, "running"]);
  assert.equal(found.metadata["test"], "typescript");
  assert.ok((await client.sandboxes.list()).some(({ id }) => id === sandbox.id));
  const ids = [];
  for await (const one of client.sandboxes.iterate({ pageSize: 1 })) ids.push(one.id);
  assert.ok(ids.includes(sandbox.id));
  assert.equal(new Set(ids).size, ids.length);
  assert.equal((await sandbox.refresh()).id, sandbox.id);
  assert.match(String(sandbox), new RegExp(sandbox.id));
});

test("commands have input, environment, directory, exit code and limits", async () => {
  const result = await sandbox.exec("cat; echo $GREETING $MORE; pwd >&2; exit 3", {
    stdin: "é\n",
    env: { MORE: "there" },
    cwd: "/tmp",
  });
  assert.deepEqual(
    [result.stdout, result.stderr, result.exitCode],
    ["é\nhello there\n", "/tmp\n", 3],
  );
  assert.equal((await sandbox.run(["printf", "%s", "a b; c"])).stdout, "a b; c");
  assert.ok((await failureOf(sandbox.exec("false", { check: true }))) instanceof CommandError);
  const late = await failureOf(sandbox.exec("sleep 30", { timeoutSeconds: 1 }));
  assert.ok(late instanceof SandboxTimeout);
});

test("output is streamed as it comes, and cancel ends the command", async () => {
  const command = sandbox.stream("echo é; sleep 1; echo two >&2; exit 4");
  const pieces: string[] = [];
  for await (const { stream, data } of command) pieces.push(`${stream} ${data}`);
  assert.deepEqual(pieces, ["stdout é\n", "stderr two\n"]);
  assert.equal((await command.wait()).exitCode, 4);
  const endless = sandbox.stream("echo $$; exec sleep 1000");
  let pid = "";
  for await (const { data } of endless) {
    pid = data.trim();
    break;
  }
  await endless.cancel();
  assert.ok((await failureOf(endless.wait())) instanceof CommandCancelled);
  const gone = await sandbox.exec(
    `for i in 1 2 3 4 5 6 7 8 9 10; do kill -0 ${pid} 2>/dev/null || exit 0; sleep 1; done; exit 1`,
  );
  assert.equal(gone.exitCode, 0);
  const late = failureOf(sandbox.execStream("sleep 30", { timeoutSeconds: 1 }));
  assert.ok((await late) instanceof SandboxTimeout);
});

test("one socket runs many commands, with input, signals and cancel", async () => {
  await using socket = sandbox.execSocket();
  const numbers = Array.from({ length: 30 }, (_, at) => String(at));
  const results = await Promise.all(numbers.map((text) => socket.exec(["echo", text])));
  assert.deepEqual(
    results.map(({ stdout }) => stdout.trim()),
    numbers,
  );
  const cat = socket.start("cat; exit 7", { stdin: true });
  await cat.write("é😀");
  await cat.closeStdin();
  const { stdout, exitCode } = await cat.wait();
  assert.deepEqual([stdout, exitCode], ["é😀", 7]);
  const signalled = socket.start("echo ready; exec sleep 1000");
  for await (const _ of signalled) break;
  await signalled.signal("TERM");
  assert.equal((await signalled.wait()).exitCode, 143);
  const cancelled = socket.start("echo ready; exec sleep 1000");
  for await (const _ of cancelled) break;
  await cancelled.cancel();
  assert.ok((await failureOf(cancelled.wait())) instanceof CommandCancelled);
  assert.ok(
    (await failureOf(socket.exec("sleep 30", { timeoutSeconds: 1 }))) instanceof SandboxTimeout,
  );
  const resumed = await socket.exec("cat; echo done >&2; exit 5", { resumable: true, stdin: "in" });
  assert.deepEqual([resumed.stdout, resumed.stderr, resumed.exitCode], ["in", "done\n", 5]);
});

test("a socket to a sandbox that does not exist is refused as any request", async () => {
  const info = { ...sandbox.info, id: "00000000-0000-4000-8000-000000000000" };
  const other = Sandbox.fromInfo(info, client);
  assert.ok((await failureOf(other.execSocket().exec("true"))) instanceof NotFoundError);
});

test("a process outlives its request and is followed from any offset", async () => {
  const process = await sandbox.spawn("read line; echo got $line; exit 6", {
    stdin: true,
    tag: "t",
  });
  assert.ok((await sandbox.processes.list()).some(({ id }) => id === process.id));
  await process.write("input\n");
  const events = [];
  for await (const event of process.follow()) events.push(event);
  assert.deepEqual(
    events.map(({ type }) => type),
    ["stdout", "exit"],
  );
  const rest = [];
  for await (const event of process.follow({ offset: 4 })) rest.push(event);
  assert.equal(rest[0]?.type === "stdout" && rest[0].data, "input\n");
  assert.equal((await process.output()).stdout, "got input\n");
  assert.equal((await process.wait()).exitCode, 6);
  assert.equal((await process.refresh()).status, "exited");
  await process.kill();
  assert.ok((await failureOf(process.refresh())) instanceof NotFoundError);
});

test("a terminal has a size, output and an exit code", async () => {
  await using terminal = await sandbox.terminal({ rows: 33, cols: 99, cmd: "/bin/sh" });
  terminal.write("stty size; exit 9\n");
  let output = "";
  for await (const bytes of terminal) output += new TextDecoder().decode(bytes);
  assert.match(output, /33 99/);
  assert.equal(await terminal.exitCode, 9);
});

test("events, logs, metrics and lifecycle can be read", async () => {
  assert.ok((await sandbox.events()).some(({ type }) => type === "sandbox.running"));
  const stop = new AbortController();
  const types: string[] = [];
  const following = (async () => {
    for await (const { type } of sandbox.followEvents({ tail: 10, signal: stop.signal })) {
      types.push(type);
    }
  })().catch(() => undefined);
  await until(() => types.includes("sandbox.running"));
  stop.abort();
  await following;
  for await (const line of sandbox.logs({ tail: 5 })) assert.equal(typeof line, "string");
  assert.ok((await sandbox.metrics()).pid > 0);
  assert.equal((await sandbox.setTtl(900)).ttl_seconds, 900);
  assert.equal((await sandbox.setPersistent(false)).persistent, false);
  assert.equal((await sandbox.lifecycle()).ttl_seconds, 900);
});

test("egress rules are set and shown", async () => {
  assert.equal(await sandbox.egress(), null);
  assert.deepEqual(await sandbox.setEgress(["example.com"]), ["example.com"]);
  assert.equal(await sandbox.setEgress(null), null);
});

test("ports are found, reached and shared", async () => {
  const python = "python3 -m http.server 3000 --bind 0.0.0.0 -d /tmp";
  const server = await sandbox.spawn(python);
  await sandbox.filesystem.write("/tmp/hello.txt", "hello");
  for (const end = Date.now() + 180_000; ; ) {
    const response = await sandbox.fetch(3000, "/hello.txt", { timeoutMs: 20_000 });
    if (response.ok) {
      assert.equal(await response.text(), "hello");
      break;
    }
    await response.body?.cancel();
    assert.ok(Date.now() < end, `status ${response.status}`);
    await new Promise((resolve) => setTimeout(resolve, 300));
  }
  assert.ok((await sandbox.ports.list()).some(({ port, listening }) => port === 3000 && listening));
  assert.ok(3000 in (await sandbox.previewUrls()));
  const { url, paths } = await sandbox.ports.share(3000, { paths: ["/hello.txt"], ttlSeconds: 60 });
  assert.ok(url.includes("/v1/p/") && paths.length === 1);
  const declared = await sandbox.ports.declare(4000, { label: "later" });
  assert.equal(declared.label, "later");
  await sandbox.ports.remove(4000);
  await server.kill();
});

test("hibernate, wake, pause, resume", async () => {
  await sandbox.exec("echo kept > /dev/shm/x");
  await sandbox.hibernate();
  assert.equal((await sandbox.refresh()).status, "hibernated");
  await sandbox.wake();
  assert.equal((await sandbox.exec("cat /dev/shm/x")).stdout, "kept\n");
  await sandbox.pause();
  assert.equal((await sandbox.refresh()).status, "paused");
  await sandbox.resume();
  assert.equal((await sandbox.refresh()).status, "running");
});
