// The acceptance checks of the API contract, with the TypeScript client as published. `node checks.mjs NAME` runs one.

import assert from "node:assert/strict";
import http from "node:http";
import { text } from "node:stream/consumers";
import { AuthError, Client, NotFoundError, Sandbox, SandboxTimeout, ServerError, BadRequestError } from "@pandastack/sdk";

const plain = { template: "mini" };
const client = new Client();

async function waitFor(what, condition, seconds = 180) {
  const until = Date.now() + seconds * 1000;
  while (!(await condition())) {
    assert.ok(Date.now() < until, `${what}: not within ${seconds} s`);
    await new Promise((done) => setTimeout(done, 100));
  }
}

const checks = {
  async create_without_arguments() {
    const box = await Sandbox.create();
    const done = await box.exec("echo hi");
    assert.deepEqual([done.exitCode, done.stdout], [0, "hi\n"]);
    assert.equal(box.template, "ubuntu-24.04");
  },

  async streams_keep_text_whole_and_come_at_once() {
    const box = await Sandbox.create(plain);
    const text = "é Å 😀 \u2028 |";
    const pieces = [];
    let heard;
    const onStdout = (piece) => {
      // The command waits for this file: without incremental delivery it would wait for ever.
      heard ??= box.filesystem.write("/run/heard", "1");
      pieces.push(piece);
    };
    const command = `printf '%s' '${text}'; until [ -e /run/heard ]; do sleep 0.1; done; printf '%s' '${text}'; exit 5`;
    assert.equal(await box.execStream(command, { onStdout, timeoutSeconds: 180 }), 5);
    await heard;
    assert.equal(pieces.join(""), text + text);
  },

  async a_machine_killed_under_a_stream_is_an_error() {
    const box = await Sandbox.create(plain);
    let killing;
    const onStdout = () => (killing ??= box.exec("echo b > /proc/sysrq-trigger").catch(() => {}));
    await assert.rejects(box.execStream("echo started; sleep 600", { onStdout }), ServerError);
    await killing;
    await waitFor("the sandbox is seen as failed", async () => (await Sandbox.get(box.id)).status === "failed");
  },

  async timeouts_are_sandbox_timeouts() {
    const box = await Sandbox.create(plain);
    await assert.rejects(box.exec("sleep 60", { timeoutSeconds: 1 }), SandboxTimeout);
    await assert.rejects(box.execStream("sleep 60", { timeoutSeconds: 1 }), SandboxTimeout);
    const context = await box.createCodeContext();
    await assert.rejects(context.runCode("import time; time.sleep(60)", { timeoutSeconds: 2 }), SandboxTimeout);
    assert.equal((await context.runCode("6 * 7", { timeoutSeconds: 120 })).text, "42");
  },

  async a_quota_is_told_at_once() {
    await Sandbox.create(plain);
    await assert.rejects(Sandbox.create(plain), (error) => error instanceof BadRequestError && error.statusCode === 429);
  },

  async forks_have_memory_and_trees_are_promoted() {
    const box = await Sandbox.create(plain);
    await box.exec("sleep 100000 > /dev/null 2>&1 & echo $! > /run/sleeper; echo in-memory > /dev/shm/note");
    const hasMemory = "cat /dev/shm/note && kill -0 $(cat /run/sleeper) && echo lives";
    const child = await box.fork({ metadata: { a: "b" } });
    assert.equal((await child.exec(hasMemory)).stdout, "in-memory\nlives\n");
    assert.equal(child.info.metadata.a, "b");
    assert.equal(child.info.metadata.fork_parent_id, box.id);
    await child.kill();

    const leaves = await box.forkTree({ count: 4 });
    const tree = leaves[0].info.metadata.fork_tree_id;
    assert.ok(tree && leaves.every((leaf) => leaf.info.metadata.fork_tree_id === tree));
    for (const leaf of leaves) assert.equal((await leaf.exec(hasMemory)).stdout, "in-memory\nlives\n");
    const promoted = await leaves[1].promote({ cleanupSiblings: true, treeId: tree });
    assert.deepEqual([...promoted.deleted].sort(), [0, 2, 3].map((at) => leaves[at].id).sort());
    const second = await box.forkTree({ count: 2 });
    assert.deepEqual((await second[0].promote({ cleanupSiblings: true })).deleted, [second[1].id]);
    const left = (await Sandbox.list()).map((other) => other.id).sort();
    assert.deepEqual(left, [box.id, leaves[1].id, second[0].id].sort());
  },

  async explore_finds_and_keeps_the_best() {
    const box = await Sandbox.create(plain);
    const found = await box.explore(["exit 1", "echo good > /root/made-here; exit 0", "exit 3"], { captureFiles: "/root" });
    assert.equal(found.winnerOutcome.exitCode, 0);
    assert.equal((await found.winner.exec("cat /root/made-here")).stdout, "good\n");
    assert.equal(found.reaped.length, 2);
    assert.deepEqual((await Sandbox.list()).map((other) => other.id).sort(), [box.id, found.winner.id].sort());
  },

  async sleep_is_seen_and_use_wakes() {
    const box = await Sandbox.create({ ...plain, persistent: true });
    await box.exec("sleep 100000 > /dev/null 2>&1 & echo $! > /run/sleeper");
    await box.hibernate();
    assert.equal((await Sandbox.get(box.id)).status, "hibernated");
    assert.equal((await box.exec("kill -0 $(cat /run/sleeper) && echo lives")).stdout, "lives\n");
    await box.wake();
    assert.equal((await Sandbox.get(box.id)).status, "running");
  },

  async code_contexts_keep_state_and_give_rich_results() {
    const box = await Sandbox.create(plain);
    const context = await box.createCodeContext();
    await context.runCode("x = 41");
    assert.equal((await context.runCode("x + 1")).text, "42");
    assert.match((await context.runCode("1 / 0")).error, /ZeroDivisionError/);
    const drawn = await context.runCode("class P:\n    def _repr_png_(self): return b'\\x89PNG picture'\nP()");
    assert.equal(drawn.results[0].png, Buffer.from("\x89PNG picture", "latin1").toString("base64"));
    await context.close();
  },

  async files_round_trip() {
    const box = await Sandbox.create(plain);
    const path = "/srv/a folder/naïve 😀.txt";
    assert.equal(await box.filesystem.exists(path), false);
    await box.filesystem.write(path, "text é 😀");
    assert.equal(await box.filesystem.exists(path), true);
    assert.equal(await box.filesystem.read(path), "text é 😀");
    await box.filesystem.write("/srv/empty", "");
    assert.equal(await box.filesystem.read("/srv/empty"), "");
    assert.deepEqual((await box.filesystem.list("/srv/a folder")).map((entry) => entry.name), ["naïve 😀.txt"]);
    await assert.rejects(box.filesystem.read("/srv/nothing"), NotFoundError);
  },

  async templates_are_built_from_dockerfiles() {
    // The client sends this with CRLF line ends, a heredoc too.
    const dockerfile = "FROM mini\nCOPY <<EOF /srv/here.txt\nline one\nline two\nEOF\nCOPY nested/deep/file.txt /srv/\nRUN wc -l < /srv/here.txt > /srv/count\n";
    const build = await client.templates.buildFromDockerfile({
      name: "ts-context",
      dockerfile,
      context: { "nested/deep/file.txt": "from the context\n" },
    });
    const log = [];
    for await (const line of client.templates.buildLogs(build.id)) log.push(line);
    const ended = await client.templates.waitForBuild(build.id);
    assert.equal(ended.status, "done", log.join("\n"));
    const box = await Sandbox.create({ template: "ts-context" });
    assert.equal((await box.exec("cat /srv/file.txt /srv/here.txt /srv/count")).stdout, "from the context\nline one\nline two\n2\n");
    const broken = await client.templates.buildFromDockerfile({ name: "ts-broken", dockerfile: "FROM mini\nRUN exit 7\n" });
    await assert.rejects(client.templates.waitForBuild(broken.id));
    assert.ok(Array.isArray(await client.templates.list()) && Array.isArray(await client.templates.builds()));
  },

  async snapshots_are_listed_by_sandbox() {
    const [one, two] = [await Sandbox.create(plain), await Sandbox.create(plain)];
    await one.exec("echo kept > /root/note");
    const [first, second] = [await one.snapshot(), await two.snapshot()];
    assert.deepEqual((await client.snapshots.list({ sandbox_id: one.id })).map((item) => item.id), [first.id]);
    const again = await Sandbox.create({ fromSnapshot: first.id });
    assert.equal((await again.exec("cat /root/note")).stdout, "kept\n");
    await client.snapshots.delete(second.id);
    await assert.rejects(client.snapshots.get(second.id), NotFoundError);
    assert.ok(Array.isArray(await client.templates.list()));
  },

  async logs_follow_and_stand_idleness() {
    const box = await Sandbox.create(plain);
    await box.exec("(sleep 5; echo a line for the console > /dev/console) > /dev/null 2>&1 &");
    let seen = false;
    for await (const line of box.logs({ follow: true })) {
      assert.ok(!line.startsWith("{"), `only real lines: ${line}`);
      if ((seen = line.includes("a line for the console"))) break;
    }
    assert.ok(seen);
  },

  async previews_need_no_key_and_wake() {
    const box = await Sandbox.create({ ...plain, persistent: true });
    const server = new URL(box.client.apiUrl);
    box.client.previewHost = `localhost:${server.port}`;
    await box.exec("mkdir /srv/site && echo hello > /srv/site/a.txt");
    await box.exec("cd /srv/site && setsid python3 -m http.server 8000 > /tmp/http.log 2>&1 < /dev/null &");
    await waitFor("the port is listed", async () => 8000 in (await box.previewUrls()));
    const url = new URL(box.previewUrl(8000, "http"));
    assert.equal(url.host, `8000-${box.id}.localhost:${server.port}`);
    // As a browser does: whatever ends in `.localhost` is this machine.
    const ask = (path) =>
      new Promise((done, failed) => {
        const options = { host: "127.0.0.1", port: url.port, path, headers: { host: url.host } };
        const request = http.get(options, async (answer) => done([answer.statusCode, await text(answer)]));
        request.on("error", failed);
      });
    assert.deepEqual(await ask("/a.txt"), [200, "hello\n"]);
    await box.hibernate();
    assert.equal((await Sandbox.get(box.id)).status, "hibernated");
    assert.deepEqual(await ask("/a.txt"), [200, "hello\n"]);
    assert.equal((await Sandbox.get(box.id)).status, "running");
    await box.kill();
    assert.equal((await ask("/"))[0], 404);
  },

  async volumes_outlive_sandboxes_and_have_one_writer() {
    await client.volumes.create({ name: "data", size_mb: 64 });
    const mounted = "awk '/vdb/{print $2}' /proc/mounts";
    const box = await Sandbox.create({ ...plain, volumes: [{ name: "data" }] });
    const place = (await box.exec(mounted)).stdout.trim();
    assert.ok(place);
    await box.exec(`echo kept > ${place}/note && sync`);
    await assert.rejects(client.volumes.delete("data"), BadRequestError);
    await assert.rejects(Sandbox.create({ ...plain, volumes: [{ name: "data" }] }), BadRequestError);
    await box.kill();
    const reader = await Sandbox.create({ ...plain, volumes: [{ name: "data", readOnly: true }] });
    assert.equal((await reader.exec(`cat ${place}/note`)).stdout, "kept\n");
    await reader.kill();
    await client.volumes.delete("data");
    await assert.rejects(client.volumes.get("data"), NotFoundError);
  },

  async a_person_manages_keys() {
    assert.equal((await client.me()).user_id, "default");
    await assert.rejects(client.tokens.list(), AuthError);
    const json = { email: "ada@example.com", password: "correct horse battery" };
    const begun = await client.request("POST", "/auth/setup", { json });
    const person = new Client({ apiKey: begun.token });
    const me = await person.me();
    assert.deepEqual([me.email, me.auth_method, me.current_org.role], ["ada@example.com", "session", "owner"]);
    assert.deepEqual(me.orgs, [me.current_org]);
    const made = await person.tokens.create("ci");
    assert.ok(made.token.startsWith(made.prefix) && made.label === "ci");
    const unnamed = await person.tokens.create();
    assert.deepEqual((await person.tokens.list()).map((token) => token.prefix).slice(0, 2), [unnamed.prefix, made.prefix]);
    assert.equal((await new Client({ apiKey: made.token }).me()).user_id, me.workspace);
    await person.tokens.revoke(made.prefix);
    await assert.rejects(new Client({ apiKey: made.token }).me(), AuthError);
    await assert.rejects(person.tokens.revoke(made.prefix), NotFoundError);
  },
};

const name = process.argv[2];
await checks[name]();
console.log(`checked: ${name}`);
// A stream that was left early keeps its connection, and the program with it.
process.exit(0);
