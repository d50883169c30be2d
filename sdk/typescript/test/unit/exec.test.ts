import assert from "node:assert/strict";
import { test } from "node:test";
import {
  CommandCancelled,
  CommandError,
  ExecInterrupted,
  NetworkError,
  NotFoundError,
  Sandbox,
  SandboxTimeout,
  ServerError,
  TimeoutError,
} from "../../src/index.js";
import { events, failureOf, json, StandIn, sandboxInfo, until } from "../stand-in.js";

function sandboxOf(server: StandIn, config = {}): Sandbox {
  return Sandbox.fromInfo(sandboxInfo() as never, server.client(config));
}

test("a command gives its result, and check makes a failure an error", async () => {
  await using server = await StandIn.start((_, response) =>
    json(response, 200, { stdout: "out", stderr: "err", exit_code: 3, duration_ms: 5 }),
  );
  const sandbox = sandboxOf(server);
  const result = await sandbox.exec(["ls", "-l"], { cwd: "/tmp", env: { A: "b" }, stdin: "in" });
  assert.deepEqual(result, {
    stdout: "out",
    stderr: "err",
    exit_code: 3,
    exitCode: 3,
    duration_ms: 5,
  });
  assert.deepEqual(JSON.parse(String(server.seen[0]?.body)), {
    argv: ["ls", "-l"],
    cwd: "/tmp",
    env: { A: "b" },
    stdin: "in",
  });
  const error = await failureOf(sandbox.commands.run("ls", { check: true }));
  assert.ok(error instanceof CommandError);
  assert.deepEqual([error.exitCode, error.stdout, error.stderr], [3, "out", "err"]);
});

test("a time limit of the command is told from a deadline of the call", async () => {
  await using server = await StandIn.start((_, response) =>
    json(response, 504, { error: "exec timeout after 1s" }),
  );
  const sandbox = sandboxOf(server);
  const timeout = await failureOf(sandbox.exec("sleep 9", { timeoutSeconds: 1 }));
  assert.ok(timeout instanceof SandboxTimeout);
  server.handler = () => undefined;
  const late = await failureOf(sandbox.exec("sleep 9", { timeoutMs: 100 }));
  assert.ok(late instanceof TimeoutError);
});

test("a machine that is not yet reachable is waited for", async () => {
  let early = true;
  await using server = await StandIn.start((_, response) => {
    if (early) json(response, 502, { error: "dial: connect: connection refused" });
    else json(response, 200, { stdout: "", stderr: "", exit_code: 0 });
    early = false;
  });
  assert.equal((await sandboxOf(server).exec("true")).exitCode, 0);
});

test("a stream gives its output in order, and its end", async () => {
  await using server = await StandIn.start((_, response) => {
    const send = events(response);
    send("stdout", { chunk: "a" });
    response.write(": ping\n\n");
    send("stderr", { chunk: "é" });
    send("exit", { exit_code: 4 });
    response.end();
  });
  const sandbox = sandboxOf(server);
  const pieces = [];
  const command = sandbox.stream("x");
  for await (const piece of command) pieces.push(piece);
  assert.deepEqual(pieces, [
    { stream: "stdout", data: "a" },
    { stream: "stderr", data: "é" },
  ]);
  assert.equal((await command.wait()).exitCode, 4);
  const seen: string[] = [];
  const onStdout = (chunk: string): void => void seen.push(chunk);
  assert.equal(await sandbox.execStream("x", { onStdout, onStderr: onStdout }), 4);
  assert.deepEqual(seen, ["a", "é"]);
  const text = await new Response(
    sandbox.stream("x").readable("stderr").pipeThrough(new TextEncoderStream()),
  ).text();
  assert.equal(text, "é");
});

test("a stream that ends or breaks early is an error with the output so far", async () => {
  let end: "close" | "cut" = "close";
  await using server = await StandIn.start((_, response) => {
    events(response)("stdout", { chunk: "half" });
    setTimeout(() => (end === "close" ? response.end() : response.socket?.destroy()), 20);
  });
  for (end of ["close", "cut"] as const) {
    const error = await failureOf(sandboxOf(server).execStream("x"));
    assert.ok(error instanceof ExecInterrupted && error instanceof NetworkError, end);
    assert.equal(error.stdout, "half");
  }
});

test("an error of a stream is a timeout, or an error of the server", async () => {
  let text = "exec timeout after 1s";
  await using server = await StandIn.start((_, response) => {
    events(response)("error", { error: text });
    response.end();
  });
  assert.ok((await failureOf(sandboxOf(server).execStream("x"))) instanceof SandboxTimeout);
  text = "the sandbox is gone";
  assert.ok((await failureOf(sandboxOf(server).execStream("x"))) instanceof ServerError);
  server.handler = (_, response) => json(response, 404, { error: "not found" });
  assert.ok((await failureOf(sandboxOf(server).execStream("x"))) instanceof NotFoundError);
});

test("a silent stream, a caller's signal and cancel all end a stream", async () => {
  let open = 0;
  await using server = await StandIn.start((_, response) => {
    open++;
    response.on("close", () => open--);
    events(response)("stdout", { chunk: "x" });
  });
  const sandbox = sandboxOf(server);
  assert.ok((await failureOf(sandbox.execStream("x", { timeoutMs: 100 }))) instanceof TimeoutError);
  const signal = AbortSignal.timeout(50);
  assert.equal((await failureOf(sandbox.execStream("x", { signal }))).name, "TimeoutError");
  const command = sandbox.stream("x");
  setTimeout(() => command.cancel(), 50);
  assert.ok((await failureOf(command.wait())) instanceof CommandCancelled);
  await until(() => open === 0);
});

test("leaving a loop does not hold up the command", async () => {
  await using server = await StandIn.start((_, response) => {
    const send = events(response);
    for (let at = 0; at < 100; at++) send("stdout", { chunk: "x".repeat(1000) });
    send("exit", { exit_code: 0 });
    response.end();
  });
  const command = sandboxOf(server).stream("x");
  for await (const _ of command) break;
  assert.equal((await command.wait()).stdout.length, 100_000);
});

test("a slow reader holds up the stream, not the memory", async () => {
  const piece = "x".repeat(64 * 1024);
  let sent = 0;
  await using server = await StandIn.start(async (_, response) => {
    const send = events(response);
    for (sent = 0; sent < 800; sent++) {
      send("stdout", { chunk: piece });
      if (response.writableNeedDrain)
        await new Promise((resolve) => response.once("drain", resolve));
    }
    send("exit", { exit_code: 0 });
    response.end();
  });
  const command = sandboxOf(server).stream("x");
  const reader = command[Symbol.asyncIterator]();
  await reader.next();
  await new Promise((resolve) => setTimeout(resolve, 500));
  assert.ok(sent < 800, `${sent} pieces were sent to a reader that had read one`);
  let pieces = 1;
  for (let next = await reader.next(); !next.done; next = await reader.next()) pieces++;
  assert.ok(pieces >= 800);
  const result = await command.wait();
  assert.equal(result.truncated, true);
});

test("a long command uses the stream, which has no limit for its head", async () => {
  await using server = await StandIn.start((_, response) => {
    events(response)("exit", { exit_code: 0 });
    response.end();
  });
  await sandboxOf(server).exec("sleep 1000", { timeoutSeconds: 1000 });
  assert.deepEqual(server.calls, ["POST /v1/sandboxes/sb-1/exec/stream"]);
});
