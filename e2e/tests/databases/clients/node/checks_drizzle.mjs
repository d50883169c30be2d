// Drizzle ORM on node-postgres against a managed database. The URL is that of the API, the certificate must be right.
import assert from "node:assert/strict";
import { asc, eq, l2Distance, sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/node-postgres";
import { integer, jsonb, numeric, pgTable, serial, text, timestamp, vector } from "drizzle-orm/pg-core";
import pg from "pg";

const POOLED = `${process.env.DATABASE_URL}?sslmode=verify-full&sslrootcert=${process.env.DATABASE_CA}`;
const CONNECTIONS = 20;

const items = pgTable("drizzle_items", {
  id: serial().primaryKey(),
  name: text().notNull().unique(),
  tags: text().array(),
  amount: numeric({ precision: 40, scale: 10 }),
  at: timestamp({ withTimezone: true }),
  doc: jsonb(),
  place: vector({ dimensions: 3 }),
});
const parts = pgTable("drizzle_parts", { id: serial().primaryKey(), item: integer().references(() => items.id) });

const lamp = {
  name: "lamp",
  tags: ["a", 'b"c', "ünï"],
  amount: "12345678901234567890.0123456789",
  at: new Date("2024-02-29T23:59:59.123Z"),
  doc: { deep: [1, { x: null }] },
  place: [1, 0, 0],
};

async function values_come_back_as_they_went(db) {
  await db.execute(sql`CREATE TABLE drizzle_items (id serial PRIMARY KEY, name text NOT NULL UNIQUE, tags text[],
    amount numeric(40, 10), at timestamptz, doc jsonb, place vector(3))`);
  await db.execute(sql`CREATE TABLE drizzle_parts (id serial PRIMARY KEY, item int REFERENCES drizzle_items)`);
  const [made] = await db.insert(items).values(lamp).returning();
  assert.deepEqual(made, { id: 1, ...lamp });
  await db.insert(items).values([{ name: "desk", place: [0, 1, 0] }, { name: "shade", place: [0.5, 0.5, 0] }]);
  await db.insert(parts).values([{ item: 1 }, { item: 1 }]);
  const joined = await db.select({ name: items.name }).from(parts).innerJoin(items, eq(parts.item, items.id));
  assert.deepEqual(joined, [{ name: "lamp" }, { name: "lamp" }]);
}

async function prepared_statements_are_used_again(db) {
  const named = db.select({ id: items.id }).from(items).where(eq(items.name, sql.placeholder("name"))).prepare("named");
  for (let round = 0; round < 8; round++) {
    assert.deepEqual(await named.execute({ name: "desk" }), [{ id: 2 }]);
  }
}

async function a_transaction_rolls_back(db) {
  const broken = db.transaction(async (tx) => {
    await tx.delete(items).where(eq(items.name, "shade"));
    tx.rollback();
  });
  await assert.rejects(broken);
  assert.equal(await db.$count(items), 3);
}

async function errors_have_their_state(db) {
  await assert.rejects(db.insert(items).values({ name: "lamp" }), ({ cause }) => cause.code === "23505");
}

async function vectors_are_near(db) {
  const nearest = asc(l2Distance(items.place, [1, 0.05, 0]));
  const near = await db.select({ name: items.name }).from(items).orderBy(nearest).limit(2);
  assert.deepEqual(near, [{ name: "lamp" }, { name: "shade" }]);
}

async function many_ask_at_once(db) {
  const asked = Array.from({ length: CONNECTIONS }, (_, number) => db.execute(sql`SELECT ${number}::int AS n`));
  const answers = await Promise.all(asked);
  assert.deepEqual(answers.map(({ rows }) => rows[0].n), asked.map((_, number) => number));
}

const checks = [
  values_come_back_as_they_went,
  prepared_statements_are_used_again,
  a_transaction_rolls_back,
  errors_have_their_state,
  vectors_are_near,
  many_ask_at_once,
];

const pool = new pg.Pool({ connectionString: POOLED, max: CONNECTIONS });
const db = drizzle({ client: pool });
for (const check of checks) {
  await check(db);
  console.log(`checked: ${check.name}`);
}
await pool.end();
