// Our TypeScript SDK with databases of its own: made, asked, branched, changed and deleted.
import assert from "node:assert/strict";

const { Client } = await import(process.env.SDK);
const { databases } = new Client();
const count = async (database) => (await database.query("SELECT count(*) FROM item")).value;

const source = await databases.create({ label: "by TypeScript" });
assert.deepEqual([source.status, source.label], ["running", "by TypeScript"]);
assert.equal(source.always_on, false);
await source.execute("CREATE TABLE item (n int); INSERT INTO item SELECT generate_series(1, 4)");
assert.equal(await count(source), 4);

const branch = await source.branch({ label: "TypeScript's branch" });
assert.deepEqual([branch.status, branch.label], ["running", "TypeScript's branch"]);
assert.equal(branch.branched_from, source.id);
assert.notEqual(branch.password, source.password);
assert.equal((await branch.execute("DELETE FROM item WHERE n > $1", [1])).rowsAffected, 3);
assert.deepEqual([await count(source), await count(branch)], [4, 1]);

assert.equal((await source.update({ always_on: true })).always_on, true);
assert.equal((await databases.get(source.id)).always_on, true);

for (const database of [branch, source]) await database.delete();
const left = (await databases.list()).map(({ id }) => id);
assert.ok(!left.includes(branch.id) && !left.includes(source.id));
console.log("checked: databases of our TypeScript SDK");
