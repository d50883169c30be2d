import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { ServerError, TemplateBuildError } from "../../src/index.js";
import { failureOf, json, type Seen, StandIn } from "../stand-in.js";

const folder = mkdtempSync(join(tmpdir(), "pandastack-templates-"));
after(() => rmSync(folder, { recursive: true }));

/** The fields of a form: texts, and files as `name:content`. */
async function formOf(seen: Seen | undefined): Promise<Record<string, string>> {
  const headers = { "content-type": String(seen?.headers["content-type"]) };
  const form = await new Response(new Uint8Array(seen?.body ?? []), { headers }).formData();
  const fields: Record<string, string> = {};
  for (const [name, value] of form) {
    fields[name] = typeof value === "string" ? value : `${value.name}:${await value.text()}`;
  }
  return fields;
}

test("every kind of build sends its own fields", async () => {
  await using server = await StandIn.start((_, response) => json(response, 202, { id: "b" }));
  const { templates } = server.client();
  const dockerfile = join(folder, "Dockerfile");
  writeFileSync(dockerfile, "FROM scratch\n");
  const rootfs = join(folder, "root.tar.gz");
  writeFileSync(rootfs, "bytes");
  const sent = async (work: Promise<unknown>): Promise<Record<string, string>> => {
    await work;
    return formOf(server.seen.at(-1));
  };
  assert.deepEqual(await sent(templates.register({ name: "a", imageRef: "x:1", sizeMb: 5 })), {
    name: "a",
    image_ref: "x:1",
    size_mb: "5",
  });
  const context = { "src/main.py": "print()", data: new Uint8Array([65]) };
  const options = { name: "a", dockerfile, context, memoryMb: 512, cpu: 2, start: false };
  assert.deepEqual(await sent(templates.buildFromDockerfile(options)), {
    name: "a",
    dockerfile: "FROM scratch\r\n",
    size_mb: "1024",
    cpu: "2",
    memory_mb: "512",
    start: "false",
    "src/main.py": "src/main.py:print()",
    data: "data:A",
  });
  assert.equal((await sent(templates.build({ name: "a", rootfs })))["rootfs"], "root.tar.gz:bytes");
  const bytes = new TextEncoder().encode("bytes");
  const build = templates.build({ name: "a", rootfs: bytes, filename: "f.tar", replace: true });
  assert.equal((await sent(build))["rootfs"], "f.tar:bytes");
  assert.equal(server.seen.at(-1)?.query.get("replace"), "true");
  const snapshot = { id: "snap_1" };
  const fields = await sent(templates.buildFromSnapshot({ name: "a", snapshot }));
  assert.equal(fields["from_snapshot"], "snap_1");
});

test("the log of a build goes on after a cut, without repeating a line", async () => {
  let tries = 0;
  await using server = await StandIn.start((_, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write("data: one\n\ndata: two\n\n");
    if (++tries < 3) {
      setTimeout(() => response.socket?.destroy(), 10);
      return;
    }
    response.end("data: \n\ndata: three\n\nevent: done\ndata: end\n\n");
  });
  const lines = [];
  for await (const line of server.client().templates.buildLogs("b")) lines.push(line);
  assert.deepEqual(lines, ["one", "two", "", "three"]);
  assert.equal(tries, 3);
});

test("waiting for a build gives its log, and its failure as an error", async () => {
  const states = ["queued", "running", "failed"];
  await using server = await StandIn.start((seen, response) => {
    if (!seen.path.endsWith("/logs")) {
      const status = states.length > 1 ? states.shift() : states[0];
      return json(response, 200, { id: "b", status, error: "step 3 failed" });
    }
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.end("data: hello\n\nevent: done\ndata: end\n\n");
    return undefined;
  });
  const { templates } = server.client();
  const lines: string[] = [];
  const onLog = (line: string): void => void lines.push(line);
  const error = await failureOf(templates.waitForBuild("b", { intervalMs: 5, onLog }));
  assert.ok(error instanceof TemplateBuildError);
  assert.equal(error.build.status, "failed");
  assert.deepEqual(lines, ["hello"]);
  states[0] = "done";
  assert.equal((await templates.waitForBuild("b")).status, "done");
  states[0] = "running";
  const late = await failureOf(templates.waitForBuild("b", { intervalMs: 10, timeoutMs: 50 }));
  assert.match(late.message, /did not end within 0\.05 s.*running/);
});

test("lines of a console are read, followed, and fail as the server says", async () => {
  let text = "one\r\ntwo\n";
  await using server = await StandIn.start((seen, response) => {
    if (seen.query.get("follow") !== "true") {
      response.end(text);
      return;
    }
    response.writeHead(200, { "content-type": "text/event-stream" });
    const lines = ['{"line":"one\\n"}', '{"chunk":"two"}', "plain", "[1]", text];
    response.end(lines.map((line) => `event: line\ndata: ${line}\n\n`).join(""));
  });
  const { sandboxes } = server.client();
  server.handler = ((handler) => (seen, response) => {
    if (seen.path.endsWith("/sb-1")) json(response, 200, { id: "sb-1" });
    else return handler(seen, response);
  })(server.handler);
  const sandbox = await sandboxes.get("sb-1");
  const all = async (follow: boolean): Promise<string[]> => {
    const lines = [];
    for await (const line of sandbox.logs({ follow })) lines.push(line);
    return lines;
  };
  assert.deepEqual(await all(false), ["one", "two"]);
  text = "last";
  assert.deepEqual(await all(true), ["one", "two", "plain", "[1]", "last"]);
  text = '{"error":"gone"}';
  assert.ok((await failureOf(all(true))) instanceof ServerError);
});

test("events of a sandbox are followed over a cut, and end with the sandbox", async () => {
  let connects = 0;
  let deleted = false;
  const event = (at: number): string =>
    `event: event\ndata: {"type":"e${at}","time":"2026-11-17T00:00:0${at}Z"}\n\n`;
  await using server = await StandIn.start((seen, response) => {
    if (!seen.path.endsWith("/events")) {
      return json(response, deleted ? 404 : 200, { id: "sb-1", error: "gone" });
    }
    response.writeHead(200, { "content-type": "text/event-stream" });
    if (++connects === 1) {
      response.write(event(1));
      setTimeout(() => response.socket?.destroy(), 10);
      return undefined;
    }
    assert.match(seen.query.get("since") ?? "", /^2026-11-17T00:00:01Z$/);
    deleted = true;
    response.end(event(1) + event(2));
    return undefined;
  });
  const sandbox = await server.client().sandboxes.get("sb-1");
  const types = [];
  for await (const { type } of sandbox.followEvents()) types.push(type);
  assert.deepEqual(types, ["e1", "e2"]);
});
