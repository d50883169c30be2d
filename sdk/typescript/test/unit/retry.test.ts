import assert from "node:assert/strict";
import { test } from "node:test";
import {
  CapacityError,
  NotFoundError,
  RateLimitError,
  retryAfterSeconds,
  ServerError,
} from "../../src/errors.js";
import { retryWait } from "../../src/retry.js";
import { failureOf, json, StandIn, sandboxInfo } from "../stand-in.js";

const NO_ROOM = { error: "no compute capacity available", code: "capacity", request_id: "r1" };

test("only refusals that promise that nothing happened are repeated", () => {
  const refusal = {
    creates: true,
    reads: false,
    tries: 1,
    elapsedSeconds: 0,
    budgetSeconds: 60,
  };
  const full = new CapacityError("x", 503, undefined, { retryAfter: 5, body: NO_ROOM });
  const proxy = new CapacityError("x", 503, undefined, { retryAfter: 5, body: undefined });
  const host = new CapacityError("x", 507);
  const rate = new RateLimitError("x", 429, undefined, { retryAfter: 1 });
  const check = (expected: number | undefined, more: object): void => {
    const given = { ...refusal, error: full, ...more };
    assert.equal(
      retryWait(given, () => 0),
      expected,
      JSON.stringify(more),
    );
  };
  check(5, {});
  check(undefined, { error: proxy });
  check(undefined, { creates: false });
  check(5, { creates: false, reads: true });
  check(0.5, { error: host });
  check(undefined, { error: host, creates: false });
  check(1, { error: rate, creates: false });
  check(undefined, { error: new RateLimitError("quota", 429) });
  check(undefined, { error: new ServerError("x", 500, undefined, { retryAfter: 1 }) });
  check(undefined, { budgetSeconds: 0 });
  check(undefined, { elapsedSeconds: 56 });
  assert.equal(
    retryWait({ ...refusal, error: full, elapsedSeconds: 54 }, () => 1),
    6,
  );
});

test("random time grows and is bounded", () => {
  const error = new RateLimitError("x", 429, undefined, { retryAfter: 0 });
  const waits = [1, 2, 3, 4, 5, 9].map((tries) =>
    retryWait(
      { error, creates: true, reads: false, tries, elapsedSeconds: 0, budgetSeconds: 60 },
      () => 1,
    ),
  );
  assert.deepEqual(waits, [1, 2, 4, 8, 15, 15]);
});

test("Retry-After is seconds or a date", () => {
  const now = Date.parse("2026-11-17T12:00:00Z");
  assert.equal(retryAfterSeconds("3"), 3);
  assert.equal(retryAfterSeconds("Tue, 17 Nov 2026 12:00:10 GMT", now), 10);
  assert.equal(retryAfterSeconds("Tue, 17 Nov 2026 11:00:00 GMT", now), 0);
  for (const value of [null, "", "soon"]) assert.equal(retryAfterSeconds(value), undefined);
});

test("a create waits for room", async () => {
  let tries = 0;
  await using server = await StandIn.start((_, response) => {
    if (++tries < 3) json(response, 503, NO_ROOM, { "retry-after": "0" });
    else json(response, 201, sandboxInfo());
  });
  const sandbox = await server.client().sandboxes.create({ template: "mini" });
  assert.equal(sandbox.id, "sb-1");
  assert.equal(tries, 3);
});

test("a create does not wait if that is turned off, and tells all it knows", async () => {
  await using server = await StandIn.start((_, response) =>
    json(response, 503, NO_ROOM, { "retry-after": "7" }),
  );
  const client = server.client({ maxCreateRetrySeconds: 0 });
  const error = await failureOf(client.sandboxes.create());
  assert.ok(error instanceof CapacityError && error instanceof ServerError);
  const { status, statusCode, code, requestId, retryAfter } = error;
  assert.deepEqual(
    { status, statusCode, code, requestId, retryAfter },
    { status: 503, statusCode: 503, code: "capacity", requestId: "r1", retryAfter: 7 },
  );
  assert.equal(server.seen.length, 1);
});

test("a quota is not waited for", async () => {
  await using server = await StandIn.start((_, response) =>
    json(response, 429, { error: "max sandboxes reached" }),
  );
  assert.ok((await failureOf(server.client().sandboxes.create())) instanceof RateLimitError);
  assert.equal(server.seen.length, 1);
});

test("an exec is not repeated after 503, and is after the rate limit", async () => {
  let status = 503;
  await using server = await StandIn.start((_, response) => {
    json(response, status, { error: "not now" }, { "retry-after": "0" });
    if (status === 429) status = 200;
  });
  const client = server.client();
  const exec = (): Promise<unknown> => client.request("POST", "/sandboxes/x/exec", { json: {} });
  server.seen.length = 0;
  assert.ok((await failureOf(exec())) instanceof CapacityError);
  assert.equal(server.seen.length, 1);
  status = 429;
  await exec();
  assert.equal(server.seen.length, 3);
});

test("waiting ends when the caller gives up", async () => {
  await using server = await StandIn.start((_, response) =>
    json(response, 503, NO_ROOM, { "retry-after": "30" }),
  );
  const stop = new AbortController();
  setTimeout(() => stop.abort(new Error("enough")), 50);
  const error = await failureOf(server.client().sandboxes.create({ signal: stop.signal }));
  assert.equal(error.message, "enough");
});

test("a missing resource is asked for twice, but not with POST or noRetry", async () => {
  await using server = await StandIn.start((_, response) =>
    json(response, 404, { error: "not found" }),
  );
  const client = server.client();
  const check = async (method: string, count: number, noRetry = false): Promise<void> => {
    server.seen.length = 0;
    const error = await failureOf(client.request(method, "/x", { noRetry }));
    assert.ok(error instanceof NotFoundError);
    assert.equal(server.seen.length, count, method);
  };
  await check("GET", 2);
  await check("DELETE", 2);
  await check("POST", 1);
  await check("GET", 1, true);
});
