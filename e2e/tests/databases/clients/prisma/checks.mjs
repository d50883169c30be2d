// Prisma with its adapter for node-postgres against a managed database. The URL is that of the API, the certificate
// must be right.
import assert from "node:assert/strict";
import { PrismaPg } from "@prisma/adapter-pg";
import client from "./generated/index.js";

const { Prisma, PrismaClient } = client;
const connectionString = `${process.env.DATABASE_URL}?sslmode=verify-full&sslrootcert=${process.env.DATABASE_CA}`;
const CONNECTIONS = 20;

async function values_come_back_as_they_went(db) {
  await db.$executeRaw`CREATE TABLE prisma_items (id serial PRIMARY KEY, name text NOT NULL UNIQUE, tags text[],
    amount numeric(40, 10), at timestamptz, raw bytea, doc jsonb, place vector(3))`;
  await db.$executeRaw`CREATE TABLE prisma_parts (id serial PRIMARY KEY, item int NOT NULL REFERENCES prisma_items)`;
  const lamp = {
    name: "lamp",
    tags: ["a", 'b"c', "ünï"],
    amount: new Prisma.Decimal("12345678901234567890.0123456789"),
    at: new Date("2024-02-29T23:59:59.123Z"),
    raw: Uint8Array.from({ length: 256 }, (_, byte) => byte),
    doc: { deep: [1, { x: null }] },
  };
  const made = await db.item.create({ data: { ...lamp, parts: { create: [{}, {}] } }, include: { parts: true } });
  assert.equal(made.amount.toFixed(10), "12345678901234567890.0123456789");
  assert.deepEqual([made.name, made.tags, made.at, made.doc], [lamp.name, lamp.tags, lamp.at, lamp.doc]);
  assert.deepEqual([...made.raw], [...lamp.raw]);
  assert.equal(made.parts.length, 2);
}

async function queries_repeat(db) {
  for (let round = 0; round < 8; round++) {
    assert.equal((await db.item.findUniqueOrThrow({ where: { name: "lamp" } })).id, 1);
  }
}

async function a_transaction_rolls_back(db) {
  const broken = db.$transaction(async (tx) => {
    await tx.item.create({ data: { name: "desk" } });
    throw new Error("not today");
  }, { maxWait: 20_000, timeout: 20_000 });
  await assert.rejects(broken, /not today/);
  assert.equal(await db.item.count(), 1);
  await db.$transaction([db.item.create({ data: { name: "desk" } }), db.item.create({ data: { name: "shade" } })]);
  assert.equal(await db.item.count(), 3);
}

async function errors_have_their_state(db) {
  await assert.rejects(db.item.create({ data: { name: "lamp" } }), { code: "P2002" });
  const again = db.$executeRaw`INSERT INTO prisma_items (name) VALUES (${"lamp"})`;
  await assert.rejects(again, ({ message }) => message.includes("23505"));
}

async function vectors_are_near(db) {
  for (const [name, place] of [["lamp", "[1,0,0]"], ["desk", "[0,1,0]"], ["shade", "[0.5,0.5,0]"]]) {
    await db.$executeRaw`UPDATE prisma_items SET place = ${place}::vector WHERE name = ${name}`;
  }
  const near = await db.$queryRaw`SELECT name FROM prisma_items ORDER BY place <-> ${"[1,0.05,0]"}::vector LIMIT 2`;
  assert.deepEqual(near, [{ name: "lamp" }, { name: "shade" }]);
}

async function many_ask_at_once(db) {
  const asked = Array.from({ length: CONNECTIONS }, (_, number) => db.$queryRaw`SELECT ${number}::int AS n`);
  const answers = await Promise.all(asked);
  assert.deepEqual(answers.map(([{ n }]) => n), asked.map((_, number) => number));
}

const checks = [
  values_come_back_as_they_went,
  queries_repeat,
  a_transaction_rolls_back,
  errors_have_their_state,
  vectors_are_near,
  many_ask_at_once,
];

const db = new PrismaClient({ adapter: new PrismaPg({ connectionString, max: CONNECTIONS }) });
for (const check of checks) {
  await check(db);
  console.log(`checked: ${check.name}`);
}
await db.$disconnect();
