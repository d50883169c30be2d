// node-postgres against a managed database. The URL is that of the API, the certificate must be right.
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";

const POOLED = `${process.env.DATABASE_URL}?sslmode=verify-full&sslrootcert=${process.env.DATABASE_CA}`;
const SESSION = `${POOLED}&options=-cpandastack.session%3Don`;
const CONNECTIONS = 20;

async function strangers_to_the_authority_do_not_connect() {
  const stranger = new pg.Client(`${process.env.DATABASE_URL}?sslmode=verify-full`);
  await assert.rejects(stranger.connect(), { code: "UNABLE_TO_VERIFY_LEAF_SIGNATURE" });
}

async function values_come_back_as_they_went(db) {
  const at = new Date("2024-02-29T23:59:59.123Z");
  const sent = [[1, null, 3], ["a", 'b"c', "ünï"], "12345678901234567890.0123456789", at];
  const raw = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
  const kept = { deep: [1, { x: null }], text: "ünï" };
  await db.query(
    "CREATE TABLE node_kept (ints int[], words text[], amount numeric, at timestamptz, raw bytea, doc jsonb)",
  );
  await db.query("INSERT INTO node_kept VALUES ($1, $2, $3, $4, $5, $6)", [...sent, raw, kept]);
  const { rows } = await db.query({ text: "SELECT * FROM node_kept", rowMode: "array" });
  assert.deepEqual(rows, [[...sent, raw, kept]]);
}

async function prepared_statements_are_used_again(db) {
  for (let number = 0; number < 8; number++) {
    const { rows } = await db.query({ name: "double", text: "SELECT $1::int * 2 AS n", values: [number] });
    assert.deepEqual(rows, [{ n: number * 2 }]);
  }
}

async function a_transaction_rolls_back(db) {
  await db.query("CREATE TABLE node_rolled (n int)");
  await db.query("BEGIN");
  await db.query("INSERT INTO node_rolled VALUES ($1)", [1]);
  await db.query("ROLLBACK");
  await db.query("BEGIN; INSERT INTO node_rolled VALUES (2); COMMIT");
  assert.deepEqual((await db.query("SELECT n FROM node_rolled")).rows, [{ n: 2 }]);
}

async function errors_have_their_state(db) {
  await db.query("CREATE TABLE node_unique (n int PRIMARY KEY)");
  await db.query("INSERT INTO node_unique VALUES (1)");
  const again = db.query("INSERT INTO node_unique VALUES ($1)", [1]);
  await assert.rejects(again, { code: "23505", constraint: "node_unique_pkey" });
  assert.equal((await db.query("SELECT count(*)::int AS n FROM node_unique")).rows[0].n, 1);
}

async function a_query_is_cancelled(db) {
  const query = new pg.Query("/* node */ SELECT pg_sleep(60)");
  const ended = new Promise((resolve) => query.once("error", resolve));
  db.query(query);
  // PostgreSQL ignores a cancel that comes before its query.
  const other = new pg.Client(POOLED);
  await other.connect();
  const ask = "SELECT count(*)::int AS n FROM pg_stat_activity WHERE query LIKE '/* node */%' AND state = 'active'";
  while ((await other.query(ask)).rows[0].n === 0) await sleep(100);
  await other.end();
  new pg.Client(POOLED).cancel(db, query);
  assert.equal((await ended).code, "57014");
  assert.deepEqual((await db.query("SELECT 1 AS n")).rows, [{ n: 1 }]);
}

async function vectors_are_near(db) {
  await db.query("CREATE TABLE node_vectors (id int, v vector(3))");
  const rows = [[1, [1, 0, 0]], [2, [0, 1, 0]], [3, [0.5, 0.5, 0]]];
  for (const [id, vector] of rows) {
    await db.query("INSERT INTO node_vectors VALUES ($1, $2)", [id, JSON.stringify(vector)]);
  }
  const near = await db.query("SELECT id FROM node_vectors ORDER BY v <-> $1 LIMIT 2", ["[1,0.05,0]"]);
  assert.deepEqual(near.rows, [{ id: 1 }, { id: 3 }]);
}

async function notifications_come(db) {
  const listener = new pg.Client(SESSION);
  await listener.connect();
  const heard = new Promise((resolve) => listener.once("notification", resolve));
  await listener.query("LISTEN node_news");
  await db.query("SELECT pg_notify('node_news', $1)", ["hello"]);
  const { channel, payload } = await heard;
  assert.deepEqual([channel, payload], ["node_news", "hello"]);
  await listener.query("CREATE TEMP TABLE mine AS SELECT 1 AS n");
  assert.deepEqual((await listener.query("SELECT n FROM mine")).rows, [{ n: 1 }]);
  await listener.end();
}

async function many_connect_at_once() {
  const pool = new pg.Pool({ connectionString: POOLED, max: CONNECTIONS });
  const clients = await Promise.all(Array.from({ length: CONNECTIONS }, () => pool.connect()));
  const answers = await Promise.all(clients.map((client, number) => client.query("SELECT $1::int AS n", [number])));
  assert.deepEqual(answers.map(({ rows }) => rows[0].n), clients.map((_, number) => number));
  clients.forEach((client) => client.release());
  await pool.end();
}

const checks = [
  strangers_to_the_authority_do_not_connect,
  values_come_back_as_they_went,
  prepared_statements_are_used_again,
  a_transaction_rolls_back,
  errors_have_their_state,
  a_query_is_cancelled,
  vectors_are_near,
  notifications_come,
  many_connect_at_once,
];

const db = new pg.Client(POOLED);
await db.connect();
for (const check of checks) {
  await check(db);
  console.log(`checked: ${check.name}`);
}
await db.end();
