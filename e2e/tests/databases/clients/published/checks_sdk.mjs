// The published TypeScript client: everything that it can do with a database.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { Client } from "@pandastack/sdk";

const { databases } = new Client({ apiUrl: process.env.PANDASTACK_API, apiKey: process.env.PANDASTACK_API_KEY });

const made = await databases.create({ label: "typescript" });
assert.deepEqual([made.status, made.label], ["running", "typescript"]);
assert.match(made.connection_url, /^postgres:\/\/pandastack:[\w-]+@[0-9a-f-]+\.db\.localhost:\d+\/pandastack$/);
assert.equal((await databases.get(made.id)).connection_url, made.connection_url);
const opened = execFileSync("psql", ["-XAtc", "SELECT 1", "-d", `${made.connection_url}?sslmode=require`], {
  env: { ...process.env, PGHOSTADDR: "127.0.0.1" },
});
assert.equal(opened.toString(), "1\n");
await assert.rejects(databases.failover(made.id), { statusCode: 409 });
assert.ok((await databases.list()).some(({ id, password }) => id === made.id && password === undefined));
assert.deepEqual(await databases.connection(made.id), {
  connection_url: made.connection_url,
  broker_url: made.broker_url,
  broker_token: made.broker_token,
});
assert.equal((await databases.update(made.id, { always_on: true })).always_on, true);
assert.match((await databases.wake(made.id)).status, /^(running|waking)$/);
const renewed = await databases.resetCredentials(made.id);
assert.notEqual(renewed.password, made.password);

const ask = { database: "pandastack", sql: "SELECT $1::int AS n", params: [7] };
const query = (token) =>
  fetch(`${made.broker_url}/v1/query`, {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: JSON.stringify(ask),
  });
assert.deepEqual((await (await query(renewed.broker_token)).json()).rows, [[7]]);
assert.equal((await query(made.broker_token)).status, 401);

await databases.delete(made.id);
await assert.rejects(databases.get(made.id), { statusCode: 404 });
console.log("checked: the published TypeScript client");
