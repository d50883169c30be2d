import assert from "node:assert/strict";
import { test } from "node:test";
import {
  BadRequestError,
  CommandCancelled,
  ExecInterrupted,
  NotFoundError,
  Sandbox,
  SandboxTimeout,
  ServerError,
  TimeoutError,
} from "../../src/index.js";
import {
  events,
  failureOf,
  json,
  type ServerSocket,
  StandIn,
  sandboxInfo,
  until,
} from "../stand-in.js";

interface Frame {
  id: string;
  cmd?: string;
  cancel?: boolean;
  stdin?: string | boolean;
  stdin_close?: boolean;
  signal?: string;
}

/** A server whose commands do what their text says. */
async function shell(): Promise<StandIn & { sockets: ServerSocket[]; frames: Frame[] }> {
  const server = await StandIn.start();
  const sockets: ServerSocket[] = [];
  const frames: Frame[] = [];
  server.upgrade = (socket) => {
    sockets.push(socket);
    socket.onText = (text) => {
      const frame = JSON.parse(text) as Frame;
      frames.push(frame);
      answer(socket, frame);
    };
  };
  return Object.assign(server, { sockets, frames });
}

function answer(socket: ServerSocket, frame: Frame): void {
  const { id, cmd = "" } = frame;
  if (!id) socket.send({ id: "", error: "id required" });
  else if (frame.cancel) socket.send({ id, error: "cancelled" });
  else if (frame.signal) socket.send({ id, exit: 143 });
  else if (typeof frame.stdin === "string" && !cmd) {
    socket.send({ id, stream: "stdout", data: frame.stdin });
  } else if (frame.stdin_close) socket.send({ id, exit: 0 });
  else if (cmd.startsWith("echo ")) {
    socket.send({ id, stream: "stdout", data: cmd.slice(5) });
    socket.send({ id, stream: "stderr", data: "!" });
    socket.send({ id, exit: 0 });
  } else if (cmd === "late") socket.send({ id, error: "exec timeout after 1s" });
  else if (cmd === "half") socket.send({ id, stream: "stdout", data: "half" });
}

function sandboxOf(server: StandIn): Sandbox {
  return Sandbox.fromInfo(sandboxInfo() as never, server.client());
}

test("many commands share one socket", async () => {
  await using server = await shell();
  await using socket = sandboxOf(server).execSocket();
  const texts = Array.from({ length: 200 }, (_, at) => `number ${at}`);
  const results = await Promise.all(texts.map((text) => socket.exec(`echo ${text}`)));
  assert.deepEqual(
    results.map(({ stdout }) => stdout),
    texts,
  );
  assert.equal(results[0]?.stderr, "!");
  assert.equal(server.sockets.length, 1);
  assert.equal(server.seen[0]?.headers.authorization, "Bearer pds_test");
  assert.equal(socket.inProgress, 0);
});

test("at most 64 commands are in progress; the others wait", async () => {
  await using server = await shell();
  await using socket = sandboxOf(server).execSocket();
  const running = Array.from({ length: 70 }, () => socket.start("sleep"));
  await until(() => server.frames.length === 64);
  await new Promise((resolve) => setTimeout(resolve, 50));
  assert.equal(server.frames.length, 64);
  for (const command of running.slice(0, 64)) await command.cancel();
  await until(() => server.frames.filter(({ cmd }) => cmd === "sleep").length === 70);
});

test("input, signals and cancel reach their command", async () => {
  await using server = await shell();
  await using socket = sandboxOf(server).execSocket();
  const cat = socket.start("cat", { stdin: true });
  await cat.write("é😀");
  await cat.write("x".repeat(200_000));
  await cat.closeStdin();
  const { stdout } = await cat.wait();
  assert.equal(stdout, `é😀${"x".repeat(200_000)}`);
  const signalled = socket.start("sleep");
  await signalled.signal("TERM");
  assert.equal((await signalled.wait()).exitCode, 143);
  const cancelled = socket.start("sleep");
  await cancelled.cancel();
  assert.ok((await failureOf(cancelled.wait())) instanceof CommandCancelled);
});

test("the time limit, the deadline and the signal of a command are told apart", async () => {
  await using server = await shell();
  await using socket = sandboxOf(server).execSocket();
  assert.ok((await failureOf(socket.exec("late"))) instanceof SandboxTimeout);
  assert.ok((await failureOf(socket.exec("sleep", { timeoutMs: 50 }))) instanceof TimeoutError);
  const stop = new AbortController();
  setTimeout(() => stop.abort(new Error("enough")), 20);
  assert.equal((await failureOf(socket.exec("sleep", { signal: stop.signal }))).message, "enough");
  const before = await failureOf(socket.exec("sleep", { signal: AbortSignal.abort("never") }));
  assert.equal(before as unknown, "never");
  await until(() => server.frames.filter(({ cancel }) => cancel).length >= 2);
});

test("a cut fails the commands in progress and keeps their output; the next one connects", async () => {
  await using server = await shell();
  await using socket = sandboxOf(server).execSocket();
  const half = socket.start("half");
  const sleeping = socket.start("sleep");
  for await (const piece of half) {
    assert.equal(piece.data, "half");
    break;
  }
  server.cut();
  const error = await failureOf(half.wait());
  assert.ok(error instanceof ExecInterrupted);
  assert.equal(error.stdout, "half");
  assert.ok((await failureOf(sleeping.wait())) instanceof ExecInterrupted);
  assert.equal(socket.connected, false);
  assert.equal((await socket.exec("echo again")).stdout, "again");
  assert.equal(server.sockets.length, 2);
});

test("a half-open socket is found out and replaced", async () => {
  await using server = await shell();
  await using socket = sandboxOf(server).execSocket({ silenceMs: 40 });
  await socket.connect();
  const [first] = server.sockets;
  assert.ok(first);
  first.onPing = () => undefined;
  first.onText = () => undefined;
  assert.ok((await failureOf(socket.exec("sleep"))) instanceof ExecInterrupted);
  assert.equal((await socket.exec("echo back")).stdout, "back");
});

test("a quiet command is not taken for a half-open socket", async () => {
  await using server = await shell();
  await using socket = sandboxOf(server).execSocket({ silenceMs: 500 });
  const command = socket.start("sleep");
  await new Promise((resolve) => setTimeout(resolve, 1500));
  await command.signal("TERM");
  assert.equal((await command.wait()).exitCode, 143);
});

test("a refusal of the socket is the same error as of any request", async () => {
  // A runtime that hides the refusal of an upgrade is followed by the same request without one.
  await using server = await StandIn.start((_, response) =>
    json(response, 404, { error: "sandbox not found", code: "sandbox.not_found" }),
  );
  const socket = sandboxOf(server).execSocket();
  const error = await failureOf(socket.exec("true"));
  assert.ok(error instanceof NotFoundError);
  assert.equal(error.code, "sandbox.not_found");
});

test("a server that is away is waited for, but not for ever", async () => {
  const server = await shell();
  const client = server.client();
  const sandbox = Sandbox.fromInfo(sandboxInfo() as never, client);
  await server[Symbol.asyncDispose]();
  const socket = sandbox.execSocket({ connectTimeoutMs: 300 });
  await failureOf(socket.exec("true"));
});

test("closing ends everything", async () => {
  await using server = await shell();
  const socket = sandboxOf(server).execSocket();
  const command = socket.start("sleep");
  await until(() => server.frames.length === 1);
  await socket.close();
  assert.ok((await failureOf(command.wait())) instanceof CommandCancelled);
  assert.ok((await failureOf(socket.exec("true"))) instanceof CommandCancelled);
});

test("a frame that is not JSON, or too long a command, does not go unnoticed", async () => {
  await using server = await shell();
  await using socket = sandboxOf(server).execSocket();
  const long = await failureOf(socket.exec("x".repeat(2 * 1024 * 1024)));
  assert.ok(long instanceof BadRequestError);
  const command = socket.start("sleep");
  await until(() => server.frames.length === 1);
  server.sockets[0]?.frame(0x1, Buffer.from("not json"));
  assert.ok((await failureOf(command.wait())) instanceof ExecInterrupted);
});

test("a server that breaks the protocol of frames ends the socket", async () => {
  await using server = await shell();
  await using socket = sandboxOf(server).execSocket();
  const command = socket.start("sleep");
  await until(() => server.frames.length === 1);
  server.sockets[0]?.socket.write(Buffer.from([0xc1, 0x00]));
  assert.ok((await failureOf(command.wait())) instanceof ExecInterrupted);
});

test("a resumable command goes on after a cut, from the last byte received", async () => {
  const offsets: number[] = [];
  const calls: string[] = [];
  await using server = await StandIn.start((seen, response) => {
    calls.push(`${seen.method} ${seen.path}`);
    if (seen.method === "DELETE") return json(response, 200, {});
    if (seen.path.endsWith("/stdin")) return json(response, 200, { bytes: seen.body.length });
    if (seen.method === "POST") return json(response, 201, { id: "prc_1", cmd: "make", pid: 7 });
    const offset = Number(seen.query.get("offset"));
    offsets.push(offset);
    const send = events(response);
    if (offset === 0) {
      send("stdout", { chunk: "one ", offset: 4 });
      setTimeout(() => response.socket?.destroy(), 20);
    } else if (offset === 4) {
      send("stderr", { chunk: "two ", offset: 8 });
      send("error", { error: "the sandbox was put to sleep" });
      response.end();
    } else {
      send("stdout", { chunk: "three", offset: 13 });
      send("exit", { exit_code: 5, status: "exited", offset: 13 });
      response.end();
    }
    return undefined;
  });
  await using socket = sandboxOf(server).execSocket();
  const result = await socket.exec("make", { resumable: true, stdin: "input" });
  assert.deepEqual(offsets, [0, 4, 8]);
  const { stdout, stderr, exitCode } = result;
  assert.deepEqual(
    { stdout, stderr, exitCode },
    { stdout: "one three", stderr: "two ", exitCode: 5 },
  );
  await until(() => calls.at(-1) === "DELETE /v1/sandboxes/sb-1/processes/prc_1");
  assert.ok(calls.includes("POST /v1/sandboxes/sb-1/processes/prc_1/stdin"));
});

test("a process that is gone is not followed for ever", async () => {
  await using server = await StandIn.start((seen, response) => {
    if (seen.method === "POST") json(response, 201, { id: "prc_1", cmd: "make", pid: 7 });
    else json(response, 404, { error: "no such process" });
  });
  const process = await sandboxOf(server).processes.start("make");
  assert.ok((await failureOf(process.wait())) instanceof NotFoundError);
  server.handler = (_, response) => json(response, 502, { error: "host is away" });
  assert.ok((await failureOf(process.wait({ reconnectMs: 200 }))) instanceof ServerError);
});

test("a resumable command can be cancelled, which kills its process", async () => {
  const calls: string[] = [];
  await using server = await StandIn.start((seen, response) => {
    calls.push(`${seen.method} ${seen.path.split("/").slice(4).join("/")}`);
    if (seen.method === "POST") json(response, 201, { id: "prc_1", cmd: "make", pid: 7 });
    else if (seen.method === "DELETE") response.writeHead(204).end();
    else events(response)("stdout", { chunk: "one", offset: 3 });
  });
  await using socket = sandboxOf(server).execSocket();
  const command = socket.start("make", { resumable: true });
  for await (const { data } of command) {
    assert.equal(data, "one");
    break;
  }
  await command.cancel();
  assert.ok((await failureOf(command.wait())) instanceof CommandCancelled);
  assert.ok(calls.includes("DELETE processes/prc_1"));
});
