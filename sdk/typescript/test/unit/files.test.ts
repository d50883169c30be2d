import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { NetworkError, type Progress, Sandbox, ServerError } from "../../src/index.js";
import { events, failureOf, json, StandIn, sandboxInfo } from "../stand-in.js";

const folder = mkdtempSync(join(tmpdir(), "pandastack-files-"));
after(() => rmSync(folder, { recursive: true }));
const BYTES = Buffer.alloc(3 * 1024 * 1024 + 7, "abcdefg");

function sandboxOf(server: StandIn): Sandbox {
  return Sandbox.fromInfo(sandboxInfo() as never, server.client());
}

test("every kind of content is written as it is", async () => {
  await using server = await StandIn.start((seen, response) =>
    json(response, 200, { path: seen.query.get("path"), bytes: seen.body.length }),
  );
  const { filesystem } = sandboxOf(server);
  async function* parts(): AsyncGenerator<Uint8Array> {
    yield BYTES.subarray(0, 100_000);
    yield BYTES.subarray(100_000);
  }
  const contents = [
    BYTES,
    new Uint8Array(BYTES).buffer,
    new Blob([BYTES]),
    BYTES.toString(),
    parts(),
    new Blob([BYTES]).stream(),
  ];
  for (const content of contents) {
    const written = await filesystem.write("/a b/é", content, { mode: "0755" });
    assert.deepEqual(written, { path: "/a b/é", bytes: BYTES.length });
    const seen = server.seen.at(-1) ?? assert.fail();
    assert.ok(seen.body.equals(BYTES));
    assert.equal(seen.query.get("mode"), "0755");
    assert.equal(seen.headers["content-type"], "application/octet-stream");
  }
  await filesystem.write("/empty", "");
  assert.equal(server.seen.at(-1)?.body.length, 0);
});

test("transfers report how far they are", async () => {
  await using server = await StandIn.start((seen, response) => {
    if (seen.method === "PUT") json(response, 200, { path: "", bytes: seen.body.length });
    else response.writeHead(200, { "content-length": String(BYTES.length) }).end(BYTES);
  });
  const { filesystem } = sandboxOf(server);
  const local = join(folder, "up.bin");
  writeFileSync(local, BYTES);
  const seen: Progress[] = [];
  const onProgress = (progress: Progress): void => void seen.push(progress);
  const check = (): void => {
    assert.deepEqual(seen.at(-1), { bytes: BYTES.length, total: BYTES.length });
    assert.ok(seen.every(({ bytes }, at) => at === 0 || bytes > (seen[at - 1]?.bytes ?? 0)));
    seen.length = 0;
  };
  await filesystem.upload(local, "/up.bin", { onProgress });
  assert.ok(server.seen.at(-1)?.body.equals(BYTES));
  check();
  await filesystem.download("/up.bin", join(folder, "new/down.bin"), { onProgress });
  assert.ok(readFileSync(join(folder, "new/down.bin")).equals(BYTES));
  check();
  assert.ok(Buffer.from(await filesystem.readBytes("/up.bin", { onProgress })).equals(BYTES));
  check();
  const stream = await filesystem.readStream("/up.bin", { onProgress });
  assert.ok(Buffer.from(await new Response(stream).arrayBuffer()).equals(BYTES));
  check();
});

test("a slow transfer that moves does not meet the deadline; a stalled one does", async () => {
  let stall = false;
  await using server = await StandIn.start(async (_, response) => {
    response.writeHead(200);
    for (let at = 0; at < 6; at++) {
      response.write("x");
      await new Promise((resolve) => setTimeout(resolve, 300));
    }
    if (!stall) response.end();
  });
  const { filesystem } = sandboxOf(server);
  assert.equal(await filesystem.read("/slow", { timeoutMs: 1500 }), "xxxxxx");
  stall = true;
  assert.ok(
    (await failureOf(filesystem.read("/slow", { timeoutMs: 1500 }))) instanceof NetworkError,
  );
});

test("a download that breaks off leaves no file", async () => {
  await using server = await StandIn.start((_, response) => {
    response.writeHead(200, { "content-length": "1000" });
    response.write("half");
    setTimeout(() => response.socket?.destroy(), 20);
  });
  const target = join(folder, "broken/file");
  const work = sandboxOf(server).filesystem.download("/x", target);
  assert.ok((await failureOf(work)) instanceof NetworkError);
  assert.equal(existsSync(target), false);
  assert.deepEqual(readdirSync(join(folder, "broken")), []);
});

test("text that is split inside a character is read whole", async () => {
  const bytes = Buffer.from("é€😀");
  await using server = await StandIn.start(async (_, response) => {
    response.writeHead(200);
    for (const byte of bytes) {
      response.write(Buffer.of(byte));
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    response.end();
  });
  assert.equal(await sandboxOf(server).filesystem.read("/x"), "é€😀");
});

test("directories are listed, and walked, with whole paths", async () => {
  await using server = await StandIn.start((seen, response) => {
    const path = seen.query.get("path");
    const dir = { name: "sub", is_dir: true, size: 0, mode: "d", mtime: 1 };
    const file = { name: "f", is_dir: false, size: 5, mode: "f", mtime: 2 };
    json(response, 200, { path, entries: path === "/" ? [dir, file] : [file] });
  });
  const { filesystem } = sandboxOf(server);
  const entries = await filesystem.list("/", { recursive: true, depth: 2 });
  assert.deepEqual(
    entries.map(({ path }) => path),
    ["/sub", "/f"],
  );
  assert.equal(server.seen[0]?.query.toString(), "path=%2F&recursive=true&depth=2");
  const dirs = [];
  for await (const { dir, files } of filesystem.walk()) dirs.push([dir, files[0]?.path]);
  assert.deepEqual(dirs, [
    ["/", "/f"],
    ["/sub", "/sub/f"],
  ]);
});

test("exists is false only for a path that is missing", async () => {
  let status = 404;
  await using server = await StandIn.start((_, response) =>
    json(response, status, { error: "x", name: "x" }),
  );
  const { filesystem } = sandboxOf(server);
  assert.equal(await filesystem.exists("/x"), false);
  status = 200;
  assert.equal(await filesystem.exists("/x"), true);
  status = 500;
  assert.ok((await failureOf(filesystem.exists("/x"))) instanceof ServerError);
});

test("changes of files have the shape that the server wants", async () => {
  await using server = await StandIn.start((_, response) => json(response, 200, { path: "/x" }));
  const { filesystem } = sandboxOf(server);
  const bodies = async (work: Promise<unknown>): Promise<unknown> => {
    await work;
    return JSON.parse(String(server.seen.at(-1)?.body));
  };
  assert.deepEqual(await bodies(filesystem.mkdir("/a/b")), { path: "/a/b", parents: true });
  assert.deepEqual(await bodies(filesystem.chmod("/a", 0o7)), { path: "/a", mode: "0007" });
  assert.deepEqual(await bodies(filesystem.chmod("/a", "0755", { recursive: true })), {
    path: "/a",
    mode: "0755",
    recursive: true,
  });
  assert.deepEqual(await bodies(filesystem.move("/a", "/b", { overwrite: true })), {
    from: "/a",
    to: "/b",
    overwrite: true,
  });
});

test("a watch is active when it is handed out, and ends when it is closed", async () => {
  await using server = await StandIn.start((_, response) => {
    const send = events(response);
    send("ready", { path: "/w" });
    send("change", { type: "created", path: "/w/a", is_dir: false });
    send("overflow", { path: "/w" });
  });
  await using watch = await sandboxOf(server).filesystem.watch("/w", { recursive: true });
  const seen = [];
  for await (const change of watch) {
    seen.push(`${change.type} ${change.path}`);
    if (seen.length === 2) await watch.close();
  }
  assert.deepEqual(seen, ["created /w/a", "overflow /w"]);
});

test("a watch that fails, or whose connection breaks, is an error", async () => {
  let cut = false;
  await using server = await StandIn.start((_, response) => {
    const send = events(response);
    send("ready", { path: "/w" });
    if (cut) setTimeout(() => response.socket?.destroy(), 10);
    else send("error", { error: "the sandbox sleeps" });
  });
  for (cut of [false, true]) {
    const watch = await sandboxOf(server).filesystem.watch("/w");
    await assert.rejects(
      async () => {
        for await (const _ of watch) assert.fail();
      },
      cut ? NetworkError : ServerError,
    );
  }
});

test("the address of a file holds its path and no key", async () => {
  await using server = await StandIn.start();
  const { filesystem } = sandboxOf(server);
  const file = new URL(await filesystem.address("/a b/c?.txt"));
  assert.equal(file.searchParams.get("path"), "/a b/c?.txt");
  assert.match(file.pathname, /^\/v1\/sandboxes\/[^/]+\/fs$/);
  const archive = new URL(await filesystem.address("/a", { archive: true }));
  assert.match(archive.pathname, /\/fs\/tar$/);
  assert.doesNotMatch(file.href + archive.href, /pds_test/);
  assert.equal(server.seen.length, 0);
});
