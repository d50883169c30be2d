import assert from "node:assert/strict";
import { test } from "node:test";
import { AuthError, type WorkspaceEvent } from "../../src/index.js";
import { failureOf, json, StandIn } from "../stand-in.js";

const HEAD = { "content-type": "text/event-stream" };

function written(id: string, kind: string, sandbox = "a"): string {
  const event = { id, ts: "2026-11-18T12:00:00Z", kind, sandbox_id: sandbox, payload: { n: 1 } };
  return `id: ${id}\nevent: event\ndata: ${JSON.stringify(event)}\n\n`;
}

const READY = 'id: r0\nevent: ready\ndata: {"cursor": "r0"}\n\n';

test("lists events", async () => {
  const sent = [{ id: "e1", kind: "volume.changed", ts: "t", payload: { name: "data" } }];
  await using server = await StandIn.start((_, response) =>
    json(response, 200, { events: sent, cursor: "e1" }),
  );
  const events = await server.client().events.list({ limit: 5, since: "e0" });
  assert.deepEqual(events, sent);
  assert.equal(server.seen[0]?.query.toString(), "limit=5&since=e0");
});

test("follows events, and goes on after the last one when the connection is cut", async () => {
  let tries = 0;
  await using server = await StandIn.start((_, response) => {
    tries += 1;
    response.writeHead(200, HEAD);
    response.write(READY + written(`e${tries}`, "sandbox.paused"));
    if (tries === 1) setTimeout(() => server.cut(), 20);
  });
  const stop = new AbortController();
  const states: boolean[] = [];
  const seen: WorkspaceEvent[] = [];
  const onConnection = (open: boolean) => states.push(open);
  for await (const event of server
    .client()
    .events.follow({ since: "e0", signal: stop.signal, onConnection })) {
    seen.push(event);
    if (seen.length === 2) break;
  }
  assert.deepEqual(
    seen.map(({ id, kind, sandbox_id }) => [id, kind, sandbox_id]),
    [
      ["e1", "sandbox.paused", "a"],
      ["e2", "sandbox.paused", "a"],
    ],
  );
  assert.deepEqual(
    server.seen.map(({ query }) => query.get("since")),
    ["e0", "e1"],
  );
  assert.deepEqual(states, [true, false, true, false]);
});

test("the place of `ready` counts before the first event", async () => {
  let tries = 0;
  await using server = await StandIn.start((_, response) => {
    tries += 1;
    response.writeHead(200, HEAD);
    response.write(READY);
    if (tries === 1) setTimeout(() => server.cut(), 20);
    else response.write(written("e1", "sandbox.woken"));
  });
  for await (const event of server.client().events.follow()) {
    assert.equal(event.id, "e1");
    break;
  }
  assert.deepEqual(
    server.seen.map(({ query }) => query.get("since")),
    [null, "r0"],
  );
});

test("says that events were missed", async () => {
  await using server = await StandIn.start((_, response) => {
    response.writeHead(200, HEAD);
    response.write(`${READY}id: r9\nevent: reset\ndata: {"cursor": "r9"}\n\n`);
  });
  for await (const event of server.client().events.follow({ since: "old" })) {
    assert.deepEqual(event, { id: "r9", kind: "reset", ts: "", payload: {} });
    break;
  }
});

test("a session that has ended ends the stream", async () => {
  await using server = await StandIn.start((_, response) =>
    json(response, 401, { error: "this session has ended", code: "auth.ended" }),
  );
  const next = server.client().events.follow().next();
  assert.ok((await failureOf(next)) instanceof AuthError);
  assert.equal(server.seen.length, 1);
});
