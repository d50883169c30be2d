import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { ExploreError, Sandbox, Volume } from "../../src/index.js";
import { failureOf } from "../stand-in.js";
import { client, create, TEMPLATE } from "./server.js";

let sandbox: Sandbox;
before(async () => {
  sandbox = await create();
});
after(() => sandbox?.kill());

test("a fork has memory and files, and is independent", async () => {
  await sandbox.exec("echo shared > /dev/shm/state");
  await using child = await sandbox.fork({ metadata: { way: "fork" } });
  await child.exec("echo own > /dev/shm/state");
  assert.equal((await sandbox.exec("cat /dev/shm/state")).stdout, "shared\n");
  assert.equal(child.metadata["way"], "fork");
  const tree = await sandbox.tree();
  assert.ok(tree.nodes.some(({ id, parent_id }) => id === child.id && parent_id === sandbox.id));
});

test("a code context keeps its variables, also in a fork", async () => {
  const context = await sandbox.createCodeContext();
  assert.equal((await context.runCode("x = 40; print('ran')")).stdout, "ran\n");
  assert.equal((await context.runCode("x + 2")).text, "42");
  assert.match((await context.runCode("1 / 0")).error ?? "", /ZeroDivisionError/);
  await using child = await sandbox.fork();
  assert.equal((await child.codeContext(context.id).runCode("x + 3")).text, "43");
  assert.ok((await sandbox.codeContexts()).some(({ id }) => id === context.id));
  await context.close();
  assert.equal((await sandbox.runCode("print(1 + 1)", "python")).stdout, "2\n");
  assert.equal((await sandbox.runOnce("print(3)")).stdout, "3\n");
  assert.ok((await client.server.languages()).includes("python"));
});

test("a tree has branches, and promote keeps one", async () => {
  const tree = await sandbox.forkTree(2);
  assert.equal(tree.branches.length, 2);
  const [winner, loser] = tree.branches;
  assert.ok(winner && loser);
  const promotion = await tree.promote(winner.id, { cleanupSiblings: true });
  assert.deepEqual([promotion.winner, promotion.deleted], [winner.id, [loser.id]]);
  await winner.kill();
});

test("explore keeps the best branch", async () => {
  const result = await sandbox.explore(
    [
      { label: "bad", cmd: "exit 3" },
      { label: "good", cmd: "echo PASS; echo x > /root/new-file" },
    ],
    { scoreFn: (_, { stdoutTail }) => (stdoutTail.includes("PASS") ? 1 : 0) },
  );
  try {
    assert.equal(result.winnerOutcome?.label, "good");
    assert.deepEqual(result.winnerOutcome?.filesChanged, ["/root/new-file"]);
    assert.equal(result.reaped.length, 1);
  } finally {
    await result.winner?.kill();
  }
  assert.ok((await failureOf(sandbox.explore(["false"]))) instanceof ExploreError);
});

test("a snapshot starts further sandboxes", async () => {
  await sandbox.exec("echo kept > /root/kept");
  const snapshot = await sandbox.snapshot();
  try {
    await using copy = await Sandbox.fromSnapshot(snapshot, { ttlSeconds: 300 }, client);
    assert.equal((await copy.exec("cat /root/kept")).stdout, "kept\n");
    const list = await client.snapshots.list({ sandboxId: sandbox.id });
    assert.deepEqual(
      list.map(({ id }) => id),
      [snapshot.id],
    );
    assert.equal((await client.snapshots.get(snapshot.id)).sandbox_id, sandbox.id);
  } finally {
    await client.snapshots.delete(snapshot.id);
  }
});

test("a volume outlives its sandbox, grows and is deleted", async () => {
  const name = `ts-${Date.now()}`;
  const volume = await Volume.getOrCreate({ name, sizeMb: 64 }, client);
  try {
    assert.equal((await Volume.getOrCreate({ name }, client)).size_mb, 64);
    {
      const volumes = [volume.mount("/workspace")];
      await using first = await create({ volumes });
      await first.exec("echo kept > /workspace/file && sync", { check: true });
      assert.deepEqual((await volume.refresh()).attached_to, [first.id]);
      const child = await first.fork();
      assert.equal((await child.exec("cat /workspace/file")).stdout, "kept\n");
      const copies = await client.volumes.list();
      assert.ok(copies.some((one) => one.sandbox_id === child.id && one.name.startsWith(name)));
      await child.exec("echo of the child > /workspace/file && sync", { check: true });
      await child.kill();
      assert.ok((await client.volumes.list()).every((one) => one.sandbox_id !== child.id));
    }
    assert.equal((await volume.grow({ sizeMb: 128 })).size_mb, 128);
    const volumes = [volume.mount("/data", { readOnly: true })];
    await using second = await create({ volumes });
    assert.equal((await second.exec("cat /data/file")).stdout, "kept\n");
  } finally {
    await volume.delete();
  }
  assert.ok(!(await client.volumes.list()).some((one) => one.name === name));
  assert.equal((await client.templates.get(TEMPLATE)).name, TEMPLATE);
});
