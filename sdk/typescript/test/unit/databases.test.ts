/** Databases: creating, waiting, branching, and SQL over HTTP. */

import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { test } from "node:test";
import {
  AuthError,
  BadRequestError,
  Database,
  PandaStackError,
  QueryError,
  ServerError,
} from "../../src/index.js";
import { failureOf, json, type Seen, StandIn } from "../stand-in.js";

const DB = "7d000000-0000-4000-8000-000000000001";
const D = `/v1/databases/${DB}`;
const Q = `POST ${D}/proxy/v1`;
const TOKEN = "pds_pg_first";

/** A running database, as the server describes it. */
function info(fields: object = {}) {
  return {
    id: DB,
    status: "running",
    template: "postgres-16",
    size: "1g",
    connection_url: `postgres://pandastack:secret@${DB}.db.localhost:5432/pandastack`,
    broker_token: TOKEN,
    ...fields,
  };
}

/** A database without credentials. */
function bare(status = "provisioning", fields: object = {}) {
  return { id: DB, status, template: "postgres-16", ...fields };
}

const ROWS = {
  columns: [
    { name: "id", type: "INT8" },
    { name: "name", type: "TEXT" },
  ],
  rows: [
    [1, "a"],
    [2, null],
  ],
  count: 2,
  duration_ms: 3,
};

type Answer = [status: number, body: unknown] | ((seen: Seen) => [status: number, body: unknown]);

/** Answers routes in the order of their answers; the last one is repeated. */
function routes(table: Record<string, Answer[]>) {
  return (seen: Seen, response: ServerResponse): void => {
    const answers = table[`${seen.method} ${seen.path}`] ?? [[404, { error: "not found" }]];
    const answer = (answers.length > 1 ? answers.shift() : answers[0]) as Answer;
    const [status, body] = typeof answer === "function" ? answer(seen) : answer;
    if (status === 204) response.writeHead(204).end();
    else json(response, status, body, { "retry-after": "1" });
  };
}

/** Answers only to this token. */
function byToken(token: string, body: unknown): Answer {
  return ({ headers }) =>
    headers.authorization === `Bearer ${token}`
      ? [200, body]
      : [401, { error: "bad broker token", code: "database.bad_token" }];
}

function connection(token = TOKEN): Answer {
  return [200, { connection_url: "postgres://x", broker_url: "http://x", broker_token: token }];
}

function sent(server: StandIn): unknown {
  return JSON.parse(server.seen.at(-1)?.body.toString() ?? "");
}

test("a create waits until the database is ready", async () => {
  await using server = await StandIn.start(
    routes({
      "POST /v1/databases": [[202, bare()]],
      // Without credentials it is not ready, whatever its status says.
      [`GET ${D}`]: [
        [200, bare("running")],
        [200, info()],
      ],
    }),
  );
  const { databases } = server.client();
  const made = await databases.create({ label: "shop", size: "4g", always_on: true });
  assert.deepEqual(JSON.parse(server.seen[0]?.body.toString() ?? ""), {
    label: "shop",
    size: "4g",
    always_on: true,
  });
  assert.equal(server.seen.length, 3);
  assert.ok(made instanceof Database);
  assert.deepEqual({ ...made }, info());
});

test("a create need not wait", async () => {
  await using server = await StandIn.start(
    routes({ "POST /v1/databases": [[202, bare()]], [`GET ${D}`]: [[200, info()]] }),
  );
  const made = await server.client().databases.create({}, { wait: false });
  assert.deepEqual([made.status, made.connection_url], ["provisioning", undefined]);
  await made.waitUntilReady();
  assert.equal(made.status, "running");
});

test("a failed database ends the wait, and so does the time", async () => {
  await using server = await StandIn.start(
    routes({
      "POST /v1/databases": [[202, bare()]],
      [`GET ${D}`]: [
        [200, bare("failed", { error: "no template" })],
        [200, bare("hibernated")],
      ],
    }),
  );
  const { databases } = server.client();
  const failed = await failureOf(databases.create());
  assert.ok(failed instanceof PandaStackError);
  assert.match(failed.message, /failed: no template/);
  const late = await failureOf(databases.create({}, { waitMs: 20 }));
  assert.match(late.message, /is not ready after 0 s; its status is hibernated/);
  const stopped = AbortSignal.timeout(20);
  const aborted = await failureOf(databases.create({}, { signal: stopped }));
  assert.equal(aborted, stopped.reason);
});

test("databases are read, changed and deleted", async () => {
  await using server = await StandIn.start(
    routes({
      "GET /v1/databases": [[200, { items: [bare("hibernated")], count: 1 }]],
      [`GET ${D}`]: [[200, info({ label: "new" })]],
      [`PATCH ${D}`]: [[200, info({ always_on: true })]],
      [`POST ${D}/wake`]: [[200, { id: DB, status: "waking" }]],
      [`DELETE ${D}`]: [[204, undefined]],
      [`GET ${D}/stats`]: [[200, { connections: 3 }]],
      [`GET ${D}/logs`]: [[200, { logs: "one\n" }]],
    }),
  );
  const [found] = await server.client().databases.list();
  assert.ok(found);
  assert.equal((await found.wake()).status, "waking");
  assert.equal((await found.refresh()).label, "new");
  await found.update({ always_on: true });
  assert.deepEqual(sent(server), { always_on: true });
  // What the server left out is gone.
  assert.deepEqual([found.always_on, found.label], [true, undefined]);
  assert.equal((await found.stats()).connections, 3);
  assert.equal(await found.logs({ lines: 20 }), "one\n");
  assert.equal(server.seen.at(-1)?.query.get("lines"), "20");
  await found.delete();
  assert.equal(server.calls.at(-1), `DELETE ${D}`);
});

test("a branch is a database of its own", async () => {
  const other = "7d000000-0000-4000-8000-000000000002";
  await using server = await StandIn.start(
    routes({
      [`POST ${D}/branches`]: [[202, bare("provisioning", { id: other })]],
      [`GET /v1/databases/${other}`]: [[200, info({ id: other, branched_from: DB })]],
    }),
  );
  const database = new Database(info(), server.client());
  const branch = await database.branch({ label: "try" });
  assert.deepEqual(JSON.parse(server.seen[0]?.body.toString() ?? ""), { label: "try" });
  assert.deepEqual([branch.id, branch.branched_from], [other, DB]);
  assert.equal((await database.branch({}, { wait: false })).status, "provisioning");
});

test("a clone is of a moment", async () => {
  const other = "7d000000-0000-4000-8000-000000000002";
  const refusal = { error: "there is no backup yet", code: "database.no_backup" };
  await using server = await StandIn.start(
    routes({
      [`POST ${D}/clone`]: [
        [202, bare("provisioning", { id: other })],
        [202, bare("provisioning", { id: other })],
        [409, refusal],
      ],
      [`GET /v1/databases/${other}`]: [[200, info({ id: other, cloned_from: DB })]],
    }),
  );
  const database = new Database(info(), server.client());
  const moment = new Date(Date.UTC(2026, 0, 2, 3, 4));
  const clone = await database.clone({ label: "before", target_time: moment, size: "4g" });
  assert.deepEqual(JSON.parse(server.seen[0]?.body.toString() ?? ""), {
    label: "before",
    size: "4g",
    target_time: "2026-01-02T03:04:00.000Z",
  });
  assert.deepEqual([clone.id, clone.cloned_from], [other, DB]);
  const text = { target_time: "2026-01-02T03:04:00Z" };
  assert.equal((await database.clone(text, { wait: false })).status, "provisioning");
  assert.deepEqual(sent(server), text);
  const refused = await failureOf(database.clone());
  assert.ok(refused instanceof BadRequestError);
  assert.equal(refused.code, "database.no_backup");
});

test("a database is restarted, reset and rebuilt", async () => {
  // It keeps its credentials while it restarts.
  const starting = info({ status: "provisioning" });
  await using server = await StandIn.start(
    routes({
      [`POST ${D}/restart`]: [[202, starting]],
      [`POST ${D}/reset`]: [[202, starting]],
      [`POST ${D}/failover`]: [[200, bare()]],
      [`GET ${D}`]: [
        [200, starting],
        [200, info({ update_available: false })],
      ],
    }),
  );
  const client = server.client();
  const database = new Database(info(), client);
  await database.restart();
  assert.deepEqual([database.status, database.update_available], ["running", false]);
  assert.equal((await database.reset({ wait: false })).status, "provisioning");
  assert.equal((await database.failover({ wait: false })).connection_url, undefined);
  assert.equal((await database.failover()).status, "running");
  assert.equal((await client.databases.reset(DB)).status, "running");
});

test("schemas are compared", async () => {
  const found = { from: DB, to: "p", same: false, diff: "+CREATE TABLE t ();" };
  await using server = await StandIn.start(routes({ [`GET ${D}/diff`]: [[200, found]] }));
  const database = new Database(info(), server.client());
  assert.deepEqual(await database.diff(), found);
  assert.equal(server.seen.at(-1)?.query.get("to"), null);
  await database.diff("p");
  assert.equal(server.seen.at(-1)?.query.get("to"), "p");
});

test("backups are shown, taken and verified", async () => {
  const archive = { health: "ok", pending_segments: 0, pending_bytes: 0 };
  const held = (drill?: object) => ({ items: [], count: 0, archive, ...(drill && { drill }) });
  const drill = (status: string, day = "02") => ({
    status,
    started_at: `2026-01-${day}T00:00:00Z`,
  });
  await using server = await StandIn.start(
    routes({
      [`POST ${D}/backups`]: [[201, { name: "b1", taken_at: "t", size_bytes: 7 }]],
      [`POST ${D}/verify-backup`]: [[202, drill("running")]],
      [`GET ${D}/backups`]: [
        [200, held()],
        // The list may still show an older drill.
        [200, held(drill("failed", "01"))],
        [200, held(drill("passed"))],
        [200, held(drill("running"))],
      ],
    }),
  );
  const database = new Database(info(), server.client());
  assert.deepEqual(await database.backups(), held());
  assert.equal((await database.backup()).name, "b1");
  const target_time = "2026-01-01T00:00:00Z";
  assert.equal((await database.verifyBackup({ target_time })).status, "passed");
  const begun = await database.verifyBackup({ target_time }, { wait: false });
  assert.deepEqual([begun.status, sent(server)], ["running", { target_time }]);
  const late = await failureOf(database.verifyBackup({}, { waitMs: 20 }));
  assert.match(late.message, /has not ended after 0 s/);
});

test("a query is sent with the token of the database", async () => {
  await using server = await StandIn.start(
    routes({ [`GET ${D}/connection`]: [connection()], [`${Q}/query`]: [byToken(TOKEN, ROWS)] }),
  );
  const { databases } = server.client();
  const options = { timeoutSeconds: 1.5, maxRows: 2 };
  const result = await databases.query<{ id: number; name: string | null }>(
    DB,
    "SELECT $1",
    [1],
    options,
  );
  assert.deepEqual(sent(server), {
    sql: "SELECT $1",
    params: [1],
    database: "pandastack",
    timeout_ms: 1500,
    max_rows: 2,
  });
  assert.deepEqual(result.columns, ROWS.columns);
  assert.deepEqual([result.value, result.durationMs, result.rows.length], [1, 3, 2]);
  assert.deepEqual(
    [...result].map(({ name }) => name),
    ["a", null],
  );
  // The token is asked for once, and the key is not given to the broker.
  await databases.query(DB, "SELECT 1", undefined, { database: "other" });
  assert.deepEqual(sent(server), { sql: "SELECT 1", database: "other" });
  const keyed = server.seen.filter(({ headers }) => headers.authorization === "Bearer pds_test");
  assert.deepEqual(
    keyed.map(({ path }) => path),
    [`${D}/connection`],
  );
});

test("a database that was read needs no further request", async () => {
  await using server = await StandIn.start(
    routes({
      [`GET ${D}`]: [[200, info()]],
      [`${Q}/exec`]: [byToken(TOKEN, { rows_affected: 2, duration_ms: 1 })],
    }),
  );
  const database = await server.client().databases.get(DB);
  const result = await database.execute("DELETE FROM item");
  assert.deepEqual([result.rowsAffected, result.rows, result.value], [2, [], undefined]);
  assert.equal(server.seen.length, 2);
});

test("a replaced token is asked for again, once", async () => {
  await using server = await StandIn.start(
    routes({
      [`GET ${D}/connection`]: [connection(), connection("new")],
      [`${Q}/query`]: [byToken("new", ROWS)],
      [`${Q}/exec`]: [byToken("another", {})],
    }),
  );
  const { databases } = server.client();
  assert.equal((await databases.query(DB, "SELECT 1")).rows.length, 2);
  assert.equal(server.calls.filter((call) => call === `${Q}/query`).length, 2);
  const refused = await failureOf(databases.execute(DB, "SELECT 1"));
  assert.ok(refused instanceof AuthError);
  assert.equal(server.calls.filter((call) => call === `${Q}/exec`).length, 1);
});

test("new credentials are used at once", async () => {
  await using server = await StandIn.start(
    routes({
      [`POST ${D}/reset-credentials`]: [
        [200, info({ broker_token: "new" })],
        [200, bare("running")],
      ],
      [`GET ${D}`]: [[200, info()]],
      [`${Q}/query`]: [byToken("new", ROWS)],
    }),
  );
  const database = new Database(info(), server.client());
  assert.equal((await database.resetCredentials()).broker_token, "new");
  await database.query("SELECT 1");
  // An answer without credentials is completed by a read.
  assert.ok((await database.resetCredentials()).connection_url);
  assert.equal(server.seen.length, 4);
});

test("a transaction gives the result of each statement", async () => {
  const results = [
    { index: 0, rows_affected: 1 },
    { ...ROWS, index: 1 },
  ];
  await using server = await StandIn.start(
    routes({
      [`GET ${D}/connection`]: [connection()],
      [`${Q}/transaction`]: [[200, { results, duration_ms: 4 }]],
    }),
  );
  const database = new Database(info(), server.client());
  const [first, second] = await database.transaction([
    "DELETE FROM a",
    { sql: "SELECT $1::int[]", params: [[1, 2]] },
  ]);
  assert.deepEqual(sent(server), {
    statements: [{ sql: "DELETE FROM a" }, { sql: "SELECT $1::int[]", params: [[1, 2]] }],
    database: "pandastack",
  });
  assert.deepEqual([first?.rowsAffected, second?.value], [1, 1]);
});

test("what PostgreSQL says is an error of its own", async () => {
  const said = {
    error: "duplicate key",
    code: "23505",
    detail: "Key (id)=(1) already exists.",
    hint: "h",
    where: "w",
    statement: 1,
  };
  await using server = await StandIn.start(
    routes({
      [`GET ${D}/connection`]: [connection()],
      [`${Q}/transaction`]: [[400, said]],
      [`${Q}/query`]: [[408, { error: "canceling statement", code: "57014" }]],
      [`${Q}/exec`]: [
        [413, { error: "too large" }],
        [503, { error: "database unavailable" }],
      ],
    }),
  );
  const database = new Database(info(), server.client());
  const error = await failureOf(database.transaction(["SELECT 1", "INSERT …"]));
  assert.ok(error instanceof QueryError && error instanceof BadRequestError);
  assert.equal(error.message, "duplicate key: Key (id)=(1) already exists.");
  assert.deepEqual(
    [error.code, error.status, error.detail, error.hint, error.where, error.statement],
    ["23505", 400, said.detail, "h", "w", 1],
  );
  const late = await failureOf(database.query("SELECT pg_sleep(60)"));
  assert.ok(late instanceof QueryError);
  assert.deepEqual([late.code, late.hint, late.statement], ["57014", undefined, undefined]);
  const large = await failureOf(database.execute("SELECT 1"));
  assert.ok(large instanceof BadRequestError && !(large instanceof QueryError));
  // It may have run: nothing is sent twice.
  assert.ok((await failureOf(database.execute("SELECT 1"))) instanceof ServerError);
  assert.equal(server.calls.filter((call) => call === `${Q}/exec`).length, 2);
});

test("parameters keep what JSON would lose", async () => {
  await using server = await StandIn.start(
    routes({ [`GET ${D}/connection`]: [connection()], [`${Q}/query`]: [[200, ROWS]] }),
  );
  const date = new Date("2026-01-02T03:04:05Z");
  const bytes = new Uint8Array([0, 255]);
  await server
    .client()
    .databases.query(DB, "SELECT 1", [
      2n ** 63n,
      Number.NaN,
      bytes,
      bytes.buffer,
      new Float32Array([1, 0.5]),
      date,
      [null, [true]],
      { a: 1 },
      undefined,
    ]);
  assert.deepEqual((sent(server) as { params: unknown }).params, [
    "9223372036854775808",
    "NaN",
    "\\x00ff",
    "\\x00ff",
    [1, 0.5],
    "2026-01-02T03:04:05.000Z",
    [null, [true]],
    { a: 1 },
    null,
  ]);
});
