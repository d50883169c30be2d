// postgres.js against a managed database. The URL is that of the API, the certificate must be right.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { setTimeout as sleep } from "node:timers/promises";
import postgres from "postgres";

const ssl = { ca: readFileSync(process.env.DATABASE_CA, "utf8"), rejectUnauthorized: true };
const CONNECTIONS = 20;
const open = (options = {}) => postgres(process.env.DATABASE_URL, { ssl, onnotice: () => {}, ...options });

async function strangers_to_the_authority_do_not_connect() {
  const stranger = open({ ssl: "verify-full", max: 1 });
  await assert.rejects(stranger`SELECT 1`.execute(), { code: "UNABLE_TO_VERIFY_LEAF_SIGNATURE" });
  await stranger.end();
}

async function values_come_back_as_they_went(sql) {
  const [ints, words, amount] = [[1, 2, 3], ["a", 'b"c', "ünï"], "12345678901234567890.0123456789"];
  const [at, raw] = [new Date("2024-02-29T23:59:59.123Z"), Buffer.from(Array.from({ length: 256 }, (_, byte) => byte))];
  const doc = { deep: [1, { x: null }], text: "ünï" };
  await sql`CREATE TABLE js_kept (ints int[], words text[], amount numeric, at timestamptz, raw bytea, doc jsonb)`;
  await sql`INSERT INTO js_kept VALUES (${ints}, ${words}, ${amount}, ${at}, ${raw}, ${sql.json(doc)})`;
  assert.deepEqual({ ...(await sql`SELECT * FROM js_kept`)[0] }, { ints, words, amount, at, raw, doc });
}

async function prepared_statements_are_used_again(sql) {
  for (let number = 0; number < 8; number++) {
    assert.deepEqual([...(await sql`SELECT ${number}::int * 2 AS n`)], [{ n: number * 2 }]);
  }
}

async function a_transaction_rolls_back(sql) {
  await sql`CREATE TABLE js_rolled (n int)`;
  const broken = sql.begin(async (sql) => {
    await sql`INSERT INTO js_rolled VALUES (1)`;
    throw new Error("not today");
  });
  await assert.rejects(broken, /not today/);
  await sql.begin(async (sql) => {
    await sql`INSERT INTO js_rolled ${sql([{ n: 2 }, { n: 3 }])}`;
    await sql.savepoint((sql) => sql`INSERT INTO js_rolled VALUES (1 / 0)`).catch(() => {});
  });
  assert.deepEqual([...(await sql`SELECT n FROM js_rolled ORDER BY n`)], [{ n: 2 }, { n: 3 }]);
}

async function rows_are_copied_both_ways(sql) {
  await sql`CREATE TABLE js_copied (n int, word text)`;
  const lines = Array.from({ length: 500 }, (_, number) => `${number}\tword ${number}\n`);
  await pipeline(Readable.from(lines), await sql`COPY js_copied FROM STDIN`.writable());
  const parts = [];
  for await (const part of await sql`COPY (SELECT * FROM js_copied ORDER BY n) TO STDOUT`.readable()) {
    parts.push(part);
  }
  assert.equal(Buffer.concat(parts).toString(), lines.join(""));
}

async function rows_come_by_a_cursor(sql) {
  let sum = 0;
  for await (const rows of sql`SELECT n FROM generate_series(1, 100) AS n`.cursor(30)) {
    sum += rows.reduce((total, { n }) => total + n, 0);
  }
  assert.equal(sum, 5050);
}

async function errors_have_their_state(sql) {
  await sql`CREATE TABLE js_unique (n int PRIMARY KEY)`;
  await sql`INSERT INTO js_unique VALUES (1)`;
  const again = sql`INSERT INTO js_unique VALUES (${1})`.execute();
  await assert.rejects(again, { code: "23505", constraint_name: "js_unique_pkey" });
}

async function a_query_is_cancelled(sql) {
  const query = sql`/* js */ SELECT pg_sleep(60)`.execute();
  const refused = assert.rejects(query, { code: "57014" });
  // PostgreSQL ignores a cancel that comes before its query.
  const running = () =>
    sql`SELECT count(*)::int AS n FROM pg_stat_activity WHERE query LIKE '/* js */%' AND state = 'active'`;
  while ((await running())[0].n === 0) await sleep(100);
  await query.cancel();
  await refused;
  assert.deepEqual([...(await sql`SELECT 1 AS n`)], [{ n: 1 }]);
}

async function vectors_are_near(sql) {
  await sql`CREATE TABLE js_vectors (id int, v vector(3))`;
  const rows = [{ id: 1, v: "[1,0,0]" }, { id: 2, v: "[0,1,0]" }, { id: 3, v: "[0.5,0.5,0]" }];
  await sql`INSERT INTO js_vectors ${sql(rows)}`;
  const near = await sql`SELECT id FROM js_vectors ORDER BY v <-> ${"[1,0.05,0]"} LIMIT 2`;
  assert.deepEqual([...near], [{ id: 1 }, { id: 3 }]);
}

async function notifications_come(sql) {
  const session = open({ max: 1, connection: { options: "-cpandastack.session=on" } });
  let hear;
  const heard = new Promise((resolve) => (hear = resolve));
  await session.listen("js_news", hear);
  await sql.notify("js_news", "hello");
  assert.equal(await heard, "hello");
  await session`CREATE TEMP TABLE mine AS SELECT 1 AS n`;
  assert.deepEqual([...(await session`SELECT n FROM mine`)], [{ n: 1 }]);
  await session.end();
}

async function many_connect_at_once() {
  const sql = open({ max: CONNECTIONS });
  // A reserved connection is nobody else's, so each has its own.
  const reserved = await Promise.all(Array.from({ length: CONNECTIONS }, () => sql.reserve()));
  const answers = await Promise.all(reserved.map((one, number) => one`SELECT ${number}::int AS n`));
  assert.deepEqual(answers.map(([{ n }]) => n), reserved.map((_, number) => number));
  reserved.forEach((one) => one.release());
  await sql.end();
}

const checks = [
  strangers_to_the_authority_do_not_connect,
  values_come_back_as_they_went,
  prepared_statements_are_used_again,
  a_transaction_rolls_back,
  rows_are_copied_both_ways,
  rows_come_by_a_cursor,
  errors_have_their_state,
  a_query_is_cancelled,
  vectors_are_near,
  notifications_come,
  many_connect_at_once,
];

const sql = open({ max: 2 });
for (const check of checks) {
  await check(sql);
  console.log(`checked: ${check.name}`);
}
await sql.end();
