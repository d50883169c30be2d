// Our TypeScript SDK with databases that are backed up, verified, cloned, restarted and reset.
import assert from "node:assert/strict";

const { Client } = await import(process.env.SDK);
const { databases } = new Client();
// Time limit of each step that takes minutes without KVM.
const PATIENCE_MS = 300_000;
const rows = async (database) => (await database.query("SELECT count(*), max(n) FROM item")).rows;

const source = await databases.create({ label: "by TypeScript", always_on: true });
await source.execute("CREATE TABLE item (n int); INSERT INTO item SELECT generate_series(1, 7)");

const taken = await source.backup({ timeoutMs: PATIENCE_MS });
assert.equal((await source.backups()).items[0].name, taken.name);
const drill = await source.verifyBackup({}, { waitMs: PATIENCE_MS });
assert.deepEqual([drill.status, drill.backup, drill.error], ["passed", taken.name, undefined]);
assert.ok(drill.relations_checked > 50);

const clone = await source.clone({ label: "TypeScript's clone" }, { timeoutMs: PATIENCE_MS });
assert.deepEqual([clone.status, clone.cloned_from], ["running", source.id]);
assert.deepEqual(await rows(clone), [[7, 7]]);
await clone.delete();

const { connection_url: ofSource } = source;
await source.restart({ waitMs: PATIENCE_MS });
assert.deepEqual([source.status, source.connection_url], ["running", ofSource]);
assert.deepEqual(await rows(source), [[7, 7]]);

const branch = await source.branch({ label: "TypeScript's branch" });
await branch.execute("DELETE FROM item WHERE n > 2");
await source.execute("INSERT INTO item VALUES (8)");
assert.deepEqual(await rows(branch), [[2, 2]]);
const { connection_url: ofBranch } = branch;
await branch.reset({ waitMs: PATIENCE_MS });
assert.deepEqual([branch.status, branch.connection_url], ["running", ofBranch]);
assert.deepEqual(await rows(branch), [[8, 8]]);

for (const database of [branch, source]) await database.delete();
console.log("checked: restored databases of our TypeScript SDK");
