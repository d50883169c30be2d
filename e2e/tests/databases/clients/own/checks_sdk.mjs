// Our TypeScript SDK against a database that another test has made: it makes nothing itself.
import assert from "node:assert/strict";

const { Client, QueryError } = await import(process.env.SDK);
const { databases } = new Client();

const database = await databases.get(process.env.DATABASE);
assert.deepEqual([database.status, database.label], ["running", "orders"]);
const listed = (await databases.list()).find(({ id }) => id === database.id);
assert.deepEqual([listed?.label, listed?.password], ["orders", undefined]);
const connection = await databases.connection(database.id);
for (const name of ["connection_url", "broker_url", "broker_token"]) {
  assert.equal(connection[name], database[name], name);
}

const result = await database.query("SELECT $1::int + 1 AS n, $2::text[] AS words", [41, ["a", "b"]]);
assert.deepEqual([...result], [{ n: 42, words: ["a", "b"] }]);
assert.equal(result.columns[0].type, "INT4");
assert.equal((await database.execute("UPDATE t SET n = n WHERE n <= $1", [3])).rowsAffected, 3);
const [first, second] = await database.transaction([{ sql: "SELECT $1::int", params: [1] }, "SELECT 2"]);
assert.deepEqual([first.value, second.value], [1, 2]);
await assert.rejects(
  () => database.query("SELEC 1"),
  (error) => error instanceof QueryError && error.code === "42601",
);
assert.ok((await database.stats()).db_size_bytes > 1_000_000);
assert.ok(!(await database.logs({ lines: 50 })).includes(database.password));
console.log("checked: our TypeScript SDK");
