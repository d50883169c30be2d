import assert from "node:assert/strict";
import type { AddressInfo } from "node:net";
import { createServer } from "node:net";
import { test } from "node:test";
import {
  AuthError,
  BadRequestError,
  ConflictError,
  NetworkError,
  NotFoundError,
  PandaStack,
  PandaStackError,
  RateLimitError,
  ServerError,
  TimeoutError,
} from "../../src/index.js";
import { failureOf, json, StandIn } from "../stand-in.js";

test("every status has its class", async () => {
  let status = 0;
  await using server = await StandIn.start((_, response) =>
    json(response, status, { error: `text ${status}`, code: "a.b", request_id: "r" }),
  );
  const classes = {
    400: BadRequestError,
    401: AuthError,
    402: BadRequestError,
    403: AuthError,
    404: NotFoundError,
    409: ConflictError,
    413: BadRequestError,
    429: RateLimitError,
    500: ServerError,
    502: ServerError,
    503: ServerError,
    507: ServerError,
  };
  for (const [code, expected] of Object.entries(classes)) {
    status = Number(code);
    const error = await failureOf(server.client().request("POST", "/x"));
    assert.ok(error instanceof expected && error instanceof PandaStackError, code);
    assert.equal(error.message, `text ${code}`);
    assert.equal(error.name, error.constructor.name);
  }
});

test("an error without a JSON body still has a text", async () => {
  let body = "";
  await using server = await StandIn.start((_, response) => {
    response.writeHead(502, { "x-request-id": "from-header" });
    response.end(body);
  });
  const fail = (): Promise<Error> => failureOf(server.client().request("POST", "/x"));
  assert.match((await fail()).message, /502/);
  assert.equal(((await fail()) as PandaStackError).requestId, "from-header");
  body = "<h1>Bad gateway</h1>";
  assert.match((await fail()).message, /Bad gateway/);
  body = '{"error": {"nested": true}, "message": "second"}';
  assert.equal((await fail()).message, "second");
  body = '{"error": "unauthorized", "detail": "invalid api token"}';
  assert.equal((await fail()).message, "unauthorized: invalid api token");
});

test("the key, the agent and the organisation are sent", async () => {
  await using server = await StandIn.start();
  await server.client({ org: "org-1" }).me();
  const { headers } = server.seen[0] ?? assert.fail();
  assert.equal(headers.authorization, "Bearer pds_test");
  assert.match(String(headers["user-agent"]), /^pandastack-ts\//);
  assert.equal(headers["x-pandastack-org"], "org-1");
  assert.equal(headers.accept, "application/json");
});

test("a query is encoded, and undefined values are left out", async () => {
  await using server = await StandIn.start();
  await server
    .client()
    .request("GET", "/x", { query: { path: "/a b/é", no: undefined, on: true } });
  const { query } = server.seen[0] ?? assert.fail();
  assert.deepEqual(
    [...query],
    [
      ["path", "/a b/é"],
      ["on", "true"],
    ],
  );
});

test("an address may end in /v1 or slashes, and must be an address", async () => {
  await using server = await StandIn.start();
  for (const end of ["", "/", "/v1", "/v1/"]) {
    await new PandaStack({ baseUrl: server.url + end, apiKey: "k" }).me();
  }
  assert.deepEqual(new Set(server.calls), new Set(["GET /v1/me"]));
  assert.throws(() => new PandaStack({ baseUrl: "localhost:8080" }), /http:\/\//);
});

test("an answer that is not JSON is an error that says what to check", async () => {
  await using server = await StandIn.start((_, response) => {
    response.end("<html>hello");
  });
  const error = await failureOf(server.client().me());
  assert.ok(error instanceof NetworkError);
  assert.match(error.message, /not JSON.*<html>hello/s);
});

test("a redirect is not followed", async () => {
  await using server = await StandIn.start((_, response) => {
    response.writeHead(301, { location: "https://other.example/v1/x" }).end();
  });
  const error = await failureOf(server.client().request("POST", "/x"));
  assert.match(error.message, /https:\/\/other\.example/);
  assert.equal(server.seen.length, 1);
});

test("a head that does not come, and a body that does not end, meet the deadline", async () => {
  let head = false;
  await using server = await StandIn.start((_, response) => {
    if (head) {
      response.writeHead(200, { "content-type": "application/json" });
      response.write('{"user_id":');
    }
  });
  for (head of [false, true]) {
    const error = await failureOf(server.client({ timeoutMs: 150 }).me());
    assert.ok(error instanceof TimeoutError && error instanceof NetworkError);
    assert.match(error.message, /GET \/v1\/me.*0\.15 s.*timeoutMs/);
  }
});

test("a half-open connection meets the deadline", async () => {
  const server = createServer(() => undefined);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const client = new PandaStack({ baseUrl: `http://127.0.0.1:${port}`, apiKey: "k" });
  assert.ok((await failureOf(client.me({ timeoutMs: 100 }))) instanceof TimeoutError);
  server.close();
});

test("a caller's signal ends a call with its own reason", async () => {
  await using server = await StandIn.start(() => undefined);
  const stop = new AbortController();
  setTimeout(() => stop.abort(new Error("changed my mind")), 50);
  const error = await failureOf(server.client().me({ signal: stop.signal }));
  assert.equal(error.message, "changed my mind");
  const late = await failureOf(server.client().me({ signal: AbortSignal.abort("before") }));
  assert.equal(late as unknown, "before");
});

test("a read is repeated after a cut, a change is not", async () => {
  let cuts = 2;
  await using server = await StandIn.start((_, response) => {
    if (cuts-- > 0) response.socket?.destroy();
    else json(response, 200, { user_id: "u" });
  });
  assert.equal((await server.client().me())["user_id"], "u");
  assert.equal(server.seen.length, 3);
  cuts = 1;
  server.seen.length = 0;
  assert.ok((await failureOf(server.client().request("POST", "/x"))) instanceof NetworkError);
  assert.equal(server.seen.length, 1);
});

test("a read whose body breaks off once is repeated", async () => {
  let cuts = 1;
  await using server = await StandIn.start((_, response) => {
    if (cuts-- === 0) return json(response, 200, { user_id: "u" });
    response.writeHead(200, { "content-type": "application/json", "content-length": "100" });
    response.write('{"a":');
    setTimeout(() => response.socket?.destroy(), 20);
  });
  assert.equal((await server.client().me())["user_id"], "u");
  assert.equal(server.seen.length, 2);
});

test("a body that breaks off is an error, not half an answer", async () => {
  await using server = await StandIn.start((_, response) => {
    response.writeHead(200, { "content-type": "application/json", "content-length": "100" });
    response.write('{"a":');
    setTimeout(() => response.socket?.destroy(), 20);
  });
  const error = await failureOf(server.client().me());
  assert.ok(error instanceof NetworkError && !(error instanceof TimeoutError));
  assert.match(error.message, /broke off/);
});

test("a server that is not there is named", async () => {
  const client = new PandaStack({ baseUrl: "http://127.0.0.1:9", apiKey: "k" });
  const error = await failureOf(client.me());
  assert.ok(error instanceof NetworkError);
  assert.match(error.message, /cannot reach.*127\.0\.0\.1:9.*(ECONNREFUSED|bad port)/);
});

test("an id cannot lead to another resource", async () => {
  await using server = await StandIn.start();
  for (const id of ["", ".", ".."]) {
    assert.ok((await failureOf(server.client().sandboxes.get(id))) instanceof BadRequestError);
  }
  await server.client().sandboxes.get("../me?x#y");
  assert.deepEqual(server.calls, ["GET /v1/sandboxes/..%2Fme%3Fx%23y"]);
});

test("a fetch of the caller's own is used", async () => {
  const seen: string[] = [];
  const own: typeof fetch = async (input) => {
    seen.push(String(input));
    return Response.json({ user_id: "mine" });
  };
  const client = new PandaStack({ baseUrl: "https://api.example", apiKey: "k", fetch: own });
  assert.equal((await client.me())["user_id"], "mine");
  assert.deepEqual(seen, ["https://api.example/v1/me"]);
});
