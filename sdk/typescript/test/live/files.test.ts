import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { ConflictError, NotFoundError, type Sandbox } from "../../src/index.js";
import { failureOf } from "../stand-in.js";
import { create } from "./server.js";

const folder = mkdtempSync(join(tmpdir(), "pandastack-live-"));
let sandbox: Sandbox;
before(async () => {
  sandbox = await create();
});
after(async () => {
  rmSync(folder, { recursive: true });
  await sandbox?.kill();
});

test("text and bytes come back as they were", async () => {
  const { filesystem } = sandbox;
  const path = "/tmp/a b/é.txt";
  assert.deepEqual(await filesystem.write(path, "é😀"), { path, bytes: 6 });
  assert.equal(await filesystem.read(path), "é😀");
  await filesystem.write(path, new Uint8Array());
  assert.equal(await filesystem.read(path), "");
  const bytes = Uint8Array.from({ length: 256 }, (_, at) => at);
  await filesystem.write(path, bytes, { mode: "0750" });
  assert.deepEqual(new Uint8Array(await filesystem.readBytes(path)), bytes);
  assert.equal((await filesystem.stat(path)).permissions, "0750");
  assert.ok((await failureOf(filesystem.read("/nowhere"))) instanceof NotFoundError);
  assert.equal(await filesystem.exists("/nowhere"), false);
  assert.equal(await filesystem.exists(path), true);
});

test("a large file goes up and down with its progress", async () => {
  const bytes = Buffer.alloc(5 * 1024 * 1024 + 3);
  for (let at = 0; at < bytes.length; at += 4096) bytes.writeUInt16BE(at & 0xffff, at);
  const local = join(folder, "large.bin");
  writeFileSync(local, bytes);
  const seen: number[] = [];
  await sandbox.filesystem.upload(local, "/tmp/large.bin", {
    onProgress: (progress) => seen.push(progress.bytes),
  });
  assert.equal(seen.at(-1), bytes.length);
  const sum = createHash("sha256").update(bytes).digest("hex");
  const { stdout } = await sandbox.exec("sha256sum /tmp/large.bin", { timeoutSeconds: 60 });
  assert.equal(stdout.split(" ")[0], sum);
  await sandbox.filesystem.download("/tmp/large.bin", join(folder, "back.bin"));
  assert.ok(readFileSync(join(folder, "back.bin")).equals(bytes));
});

test("directories are made, listed, moved, packed, unpacked and removed", async () => {
  const { filesystem } = sandbox;
  await filesystem.mkdir("/tmp/d/sub");
  await filesystem.write("/tmp/d/sub/f", "content");
  await filesystem.chmod("/tmp/d/sub/f", 0o600);
  const names = (await filesystem.list("/tmp/d", { recursive: true })).map(({ path }) => path);
  assert.deepEqual(names, ["/tmp/d/sub", "/tmp/d/sub/f"]);
  const walked = [];
  for await (const { dir } of filesystem.walk("/tmp/d")) walked.push(dir);
  assert.deepEqual(walked, ["/tmp/d", "/tmp/d/sub"]);
  await filesystem.move("/tmp/d/sub/f", "/tmp/d/g");
  await filesystem.write("/tmp/d/h", "x");
  assert.ok((await failureOf(filesystem.move("/tmp/d/h", "/tmp/d/g"))) instanceof ConflictError);
  const archive = await filesystem.downloadTar("/tmp/d");
  const unpacked = await filesystem.uploadTar("/tmp/copy", archive);
  assert.ok(unpacked.entries >= 3);
  assert.equal(await filesystem.read("/tmp/copy/g"), "content");
  await filesystem.remove("/tmp/copy");
  assert.equal(await filesystem.exists("/tmp/copy"), false);
});

test("changes are watched", async () => {
  const { filesystem } = sandbox;
  await filesystem.mkdir("/tmp/watched");
  await using watch = await filesystem.watch("/tmp/watched", { recursive: true });
  await filesystem.write("/tmp/watched/file", "x");
  for await (const { path } of watch) {
    if (path === "/tmp/watched/file") break;
  }
});
